"""Logins: plain-text contents of SASL tokens (RFC 4616, 5802, 7628); nothing else of them is kept.

    PLAIN         client: authzid NUL user NUL password       broker: empty
    SCRAM-*       client: n,,n=user,r=nonce[,tokenauth=true]  broker: r=..,s=..,i=..
                  client: c=..,r=..,p=proof                   broker: v=.. or e=..
    OAUTHBEARER   client: n,a=user,^Aauth=Bearer token^A^A    broker: empty, or the error as JSON

Of a delegation token (tokenauth) the user is the token's id. Where an OAUTHBEARER client names no
user, it is the claim ``sub`` of its token, if that is a JSON web token: Kafka's default too.
Mechanisms with opaque tokens (GSSAPI and others) succeeded when the broker serves a request.
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
GSSAPI_TAG: Final = b"\x60"  # ASN.1 application 0: start of a GSSAPI client's first token
MECHANISM: Final = re.compile(r"[A-Z0-9_-]{1,20}")  # RFC 4422, 3.1
MAX_CLAIMS_SIZE: Final = 16_384  # bytes of a JSON web token that are parsed
# Brokers accept no larger ones (sasl.server.max.receive.size). A token of separators would become a
# list of 8 bytes for each.
MAX_TOKEN_SIZE: Final = 524_288
# Characters of each name that a connection keeps: at most six of 1 KiB, of 65 536 connections.
LONGEST_KEPT: Final = 256
# ApiVersions, SaslHandshake and SaslAuthenticate: requests before the end of a login.
LOGIN_APIS: Final = (18, 17, 36)


class Login:
    """The authentications of one connection; properties are of the last one.

    `outcome` is ok or failed, "" while none has ended; `count` is the number that did, NULL at the
    end if unknown. `in_tokens`: frames are raw tokens, as after SaslHandshake v0. `is_open`: one is
    in progress. `is_past`: a request was seen that clients send after they have logged in.
    `is_missed`: an authentication may be missing in the capture.
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
        # From the last successful authentication; both must stay the same (KIP-368).
        self.proven_mechanism = ""
        self.proven_user = ""
        self.is_past: bool = False
        self.is_missed: bool = False

    def note_request(self, key: i64) -> None:
        """Note a client request of this API."""
        if key not in LOGIN_APIS:
            self.is_past = True

    def miss(self) -> None:
        """Note possibly missing requests of a client before its login, or during another one."""
        if not self.is_past or self.mechanism:
            self.is_missed = True

    def begin_unread(self, is_raw: bool) -> None:
        """Begin with a mechanism that was not captured."""
        self.begin(self.proven_mechanism, is_raw)

    def begin(self, mechanism: str, is_raw: bool) -> str:
        """Begin with the client's mechanism; with `is_raw` its tokens come without Kafka's headers.

        Returns the error in the choice, "" without one.
        """
        # A text that is not a mechanism name may be part of another message.
        self.mechanism = mechanism if MECHANISM.fullmatch(mechanism) else ""
        self.in_tokens = is_raw
        self.is_open = True
        self.saw_token = False
        if self.proven_mechanism and self.mechanism != self.proven_mechanism:
            return f"mechanism {self.mechanism or '?'} after {self.proven_mechanism}"
        return ""

    def send_raw(self, token: bytes, is_whole: bool = True) -> None:
        """Process a client token in a separate frame, or the first bytes of one."""
        self.saw_token = True
        # A cut name is another name: a name is only reported with its terminator.
        self.send(token if is_whole else token[: max(token.rfind(b","), token.rfind(b"\0")) + 1])

    def send(self, token: bytes) -> str:
        """Process a client token: take the user from it.

        Returns the error in the user, "" without one.
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
        """Process a broker token in a separate frame."""
        if is_whole:
            self.receive(token)

    def receive(self, token: bytes) -> None:
        """Process a broker token; intermediate ones do not show the outcome."""
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
        """End the authentication; a later one on the connection may replace its outcome."""
        if self.is_open:
            self.outcome = outcome
            self.count += 1
            self.is_open = False
            if outcome == OK:
                self.proven_mechanism = self.mechanism
                self.proven_user = self.user

    def end(self, is_closed: bool, is_all_seen: bool, is_kafka: bool) -> None:
        """Outcome at the end of the connection: ok, failed, none, or still "" if unknown.

        `is_all_seen`: nothing was missed at its end. A broker that refuses a raw token closes
        without an answer.
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
    """Return whether a broker's frame may be a token of this mechanism."""
    if mechanism.startswith("SCRAM"):
        return data[:2] in (b"r=", b"v=", b"e=")
    if mechanism == "PLAIN":
        return not data
    if mechanism == "OAUTHBEARER":
        return not data or data[:1] == b"{"
    return True


def is_token(data: bytes) -> bool:
    """Return whether an unmatched broker frame is a token in a separate frame.

    As correlation ids all of these would be above 10^9, far more than precede a login.
    """
    return data[:2] in (b"r=", b"v=", b"e=", b'{"') or data[:1] == GSSAPI_TAG or not data


def user_of(mechanism: str, token: bytes) -> str:
    """The user name in a client's token; "" if not in plain text, or too large."""
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
    """An attribute of a GS2 header or SCRAM message, with ``=2C`` and ``=3D`` unescaped."""
    for part in message.split(b","):
        if part.startswith(name):
            return printable(part[2:].replace(b"=2C", b",").replace(b"=3D", b"="))
    return ""


def subject(pairs: bytes) -> str:
    """Claim ``sub`` of the JSON web token among OAUTHBEARER's pairs; "" if absent."""
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
    """Convert a name of any bytes to text; a long one is cut."""
    # A character takes up to 4 bytes, so one more than the kept ones is present in longer names.
    return kept(name[: 4 * LONGEST_KEPT + 4].decode("utf-8", "backslashreplace"))


def kept(name: str) -> str:
    """A name as stored for a connection: a long one is cut and gets an ellipsis."""
    return name if len(name) <= LONGEST_KEPT else name[:LONGEST_KEPT] + "\u2026"


def is_long(name: str) -> bool:
    """Return whether `kept` cut this name."""
    return len(name) > LONGEST_KEPT
