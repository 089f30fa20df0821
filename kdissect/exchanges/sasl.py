"""Logging in: what SASL tokens say in clear (RFC 4616, 5802, 7628); nothing else of them is kept.

    PLAIN         client: authzid NUL user NUL password       broker: empty
    SCRAM-*       client: n,,n=user,r=nonce[,tokenauth=true]  broker: r=..,s=..,i=..
                  client: c=..,r=..,p=proof                   broker: v=.. or e=..
    OAUTHBEARER   client: n,a=user,^Aauth=Bearer token^A^A    broker: empty, or the error as JSON

Of a delegation token (tokenauth) the user is the token's id. Where an OAUTHBEARER client names no
user, it is the claim ``sub`` of its token, if that is a JSON web token: Kafka's default too.
Mechanisms whose tokens are opaque (GSSAPI and others) went well when the broker serves a request.
"""

import base64
import json
import re
from typing import Final

from mypy_extensions import i64

from kdissect.protocol.readers import NULL

OK: Final = "ok"
FAILED: Final = "failed"
NONE: Final = "none"
GSSAPI: Final = "GSSAPI"
GSSAPI_TAG: Final = b"\x60"  # ASN.1 application 0: how a GSSAPI client's first token begins
MECHANISM: Final = re.compile(r"[A-Z0-9_-]{1,20}")  # RFC 4422, 3.1
MAX_CLAIMS_SIZE: Final = 16_384  # bytes of a JSON web token that are looked into
# Brokers take no larger ones (sasl.server.max.receive.size). One of separators would become a list
# of 8 bytes for each.
MAX_TOKEN_SIZE: Final = 524_288
# Characters of each name that a connection keeps: at most six of 1 KiB, of 65 536 connections.
LONGEST_KEPT: Final = 256
# ApiVersions, SaslHandshake and SaslAuthenticate: what comes before the end of a login.
LOGIN_APIS: Final = (18, 17, 36)


class Login:
    """The authentications of one connection, the last one in front.

    `outcome` is ok or failed, "" while none came to an end; `count` is of those that did, NULL in
    the end where that is not known. `in_tokens`: frames are raw tokens, as after SaslHandshake v0.
    `is_open`: one is going on. `is_past`: a request was seen that clients send after they have
    logged in. `is_missed`: an authentication may not be in the capture.
    """

    __slots__ = (
        "mechanism", "user", "outcome", "count", "is_open", "in_tokens", "saw_token",
        "proven_mechanism", "proven_user", "is_past", "is_missed",
    )  # fmt: skip

    def __init__(self) -> None:
        self.mechanism = ""
        self.user = ""
        self.outcome = ""
        self.count: i64 = 0
        self.is_open: bool = False
        self.in_tokens: bool = False
        self.saw_token: bool = False
        # Of the last authentication that went well; both must stay the same (KIP-368).
        self.proven_mechanism = ""
        self.proven_user = ""
        self.is_past: bool = False
        self.is_missed: bool = False

    def note_request(self, key: i64) -> None:
        """The client sends a request of this API."""
        if key not in LOGIN_APIS:
            self.is_past = True

    def miss(self) -> None:
        """Requests may be missing: of a client that has not logged in yet, or does so again."""
        if not self.is_past or self.mechanism:
            self.is_missed = True

    def begin_unread(self, is_raw: bool) -> None:
        """The client chose a mechanism that was not captured."""
        self.begin(self.proven_mechanism, is_raw)

    def begin(self, mechanism: str, is_raw: bool) -> str:
        """The client chose a mechanism; with `is_raw` its tokens come without Kafka's headers.

        Gives what is wrong with the choice, "" when nothing is.
        """
        # What is no name of a mechanism may be a part of another message.
        self.mechanism = mechanism if MECHANISM.fullmatch(mechanism) else ""
        self.in_tokens = is_raw
        self.is_open = True
        self.saw_token = False
        if self.proven_mechanism and self.mechanism != self.proven_mechanism:
            return f"mechanism {self.mechanism or '?'} after {self.proven_mechanism}"
        return ""

    def send_raw(self, token: bytes, is_whole: bool = True) -> None:
        """A token of the client in a frame of its own, or the first bytes of one."""
        self.saw_token = True
        # A name that is cut is another name: one is told only with what ends it.
        self.send(token if is_whole else token[: max(token.rfind(b","), token.rfind(b"\0")) + 1])

    def send(self, token: bytes) -> str:
        """A token of the client: take the user out of it.

        Gives what is wrong with the user, "" when nothing is.
        """
        if not self.outcome:
            self.is_open = True
        user = user_of(self.mechanism, token)
        if user:
            self.user = user
            if self.proven_user and user != self.proven_user:
                return f"user {user} after {self.proven_user}"
        return ""

    def end_tokens(self) -> None:
        """The client sends requests again."""
        self.in_tokens = False

    def receive_raw(self, token: bytes, is_whole: bool) -> None:
        """A token of the broker in a frame of its own."""
        if is_whole:
            self.receive(token)

    def receive(self, token: bytes) -> None:
        """A token of the broker; those in between say nothing of the outcome."""
        if self.mechanism.startswith("SCRAM"):
            if token[:2] == b"v=":
                self.settle(OK)
            elif token[:2] == b"e=":
                self.settle(FAILED)
        elif self.mechanism == "PLAIN":
            self.settle(OK)
        elif self.mechanism == "OAUTHBEARER":
            self.settle(FAILED if token else OK)

    def refuse(self) -> None:
        """The broker answered with an error."""
        self.settle(FAILED)
        self.in_tokens = False

    def settle(self, outcome: str) -> None:
        """The authentication is over; a later one on the connection may settle it anew."""
        if self.is_open:
            self.outcome = outcome
            self.count += 1
            self.is_open = False
            if outcome == OK:
                self.proven_mechanism = self.mechanism
                self.proven_user = self.user

    def end(self, is_closed: bool, is_all_seen: bool, is_kafka: bool) -> None:
        """The connection is over: ok, failed, none, or still "" when the capture does not tell.

        `is_all_seen`: nothing was missed at its end. A broker that refuses a raw token says nothing
        and closes.
        """
        if self.is_open and self.in_tokens and self.saw_token and is_closed and is_all_seen:
            self.settle(FAILED)
        if not is_kafka:
            return
        is_begun = self.is_open or self.outcome != ""
        if not is_begun and not self.is_missed and (self.is_past or is_all_seen):
            self.outcome = NONE
        if self.is_missed or not (self.outcome or (self.is_open and is_all_seen)):
            self.count = NULL


def may_be_token(mechanism: str, data: bytes) -> bool:
    """Whether a broker's frame may be a token of this mechanism."""
    if mechanism.startswith("SCRAM"):
        return data[:2] in (b"r=", b"v=", b"e=")
    if mechanism == "PLAIN":
        return not data
    if mechanism == "OAUTHBEARER":
        return not data or data[:1] == b"{"
    return True


def is_token(data: bytes) -> bool:
    """Whether a broker's frame that answers nothing known is a token in a frame of its own.

    As a correlation id each of these would be above 10^9, far more than a login comes after.
    """
    return data[:2] in (b"r=", b"v=", b"e=", b'{"') or data[:1] == GSSAPI_TAG or not data


def user_of(mechanism: str, token: bytes) -> str:
    """The user name in a client's token; "" where there is none in clear, or it is too large."""
    if len(token) > MAX_TOKEN_SIZE:
        return ""
    if mechanism == "PLAIN":
        parts = token.split(b"\0")
        return printable(parts[1]) if len(parts) == 3 else ""
    if mechanism.startswith("SCRAM"):
        return saslname(token, b"n=") if token[:2] in (b"n,", b"y,", b"p=") else ""
    if mechanism == "OAUTHBEARER" and token[:2] in (b"n,", b"y,", b"p="):
        header, _, rest = token.partition(b"\x01")
        return saslname(header, b"a=") or subject(rest)
    return ""


def saslname(message: bytes, name: bytes) -> str:
    """An attribute of a GS2 header or SCRAM message, with its ``=2C`` and ``=3D`` undone."""
    for part in message.split(b","):
        if part.startswith(name):
            return printable(part[2:].replace(b"=2C", b",").replace(b"=3D", b"="))
    return ""


def subject(pairs: bytes) -> str:
    """The claim ``sub`` of the JSON web token among OAUTHBEARER's pairs; "" when there is none."""
    _, _, rest = pairs.partition(b"auth=Bearer ")
    parts = rest.partition(b"\x01")[0].split(b".")
    if len(parts) != 3 or len(parts[1]) > MAX_CLAIMS_SIZE:
        return ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + b"=="))
    except (ValueError, RecursionError):
        return ""
    name = claims.get("sub") if isinstance(claims, dict) else None
    return printable(name.encode("utf-8", "replace")) if isinstance(name, str) else ""


def printable(name: bytes) -> str:
    """A name as text, whatever its bytes are; its beginning when it is long."""
    # A character takes up to 4 bytes, so one more than is kept is there when the name is longer.
    return kept(name[: 4 * LONGEST_KEPT + 4].decode("utf-8", "backslashreplace"))


def kept(name: str) -> str:
    """A name as a connection keeps it: the beginning and an ellipsis when it is long."""
    return name if len(name) <= LONGEST_KEPT else name[:LONGEST_KEPT] + "\u2026"


def is_long(name: str) -> bool:
    """Whether `kept` cut this name."""
    return len(name) > LONGEST_KEPT
