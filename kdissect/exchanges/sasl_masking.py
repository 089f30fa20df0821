"""Masks SASL tokens: the same length, without credentials or data to guess them from.

    PLAIN         authzid NUL user NUL xxxx
    SCRAM-*       n,,n=user,r=xxxx   r=xxxx,s=xxxx,i=4096   c=xxxx,r=xxxx,p=xxxx   v=xxxx
    OAUTHBEARER   n,a=user,^Axxxx
    others        the first byte, or two of JSON, by which `sasl` recognizes them; xxxx

User names in plain text stay.
"""

import re
from collections.abc import Iterator
from typing import Final

MASK: Final = b"x"
# Attributes of SCRAM (RFC 5802) that stay: those that begin a client's first message (flag of the
# GS2 header, names), and anywhere iterations and errors.
CLEAR_IN_PLACE: Final = (
    re.compile(rb"[ny]"), re.compile(rb"(?:a=.*)?", re.DOTALL), re.compile(rb"n=.*", re.DOTALL),
)  # fmt: skip
CLEAR_ATTRIBUTE: Final = re.compile(
    rb"i=\d+|e=(?:invalid-encoding|extensions-not-supported|invalid-proof|channel-bindings-dont-match"
    rb"|server-does-support-channel-binding|channel-binding-not-supported"
    rb"|unsupported-channel-binding-type|unknown-user|invalid-username-encoding|no-resources"
    rb"|other-error)"
)
MASKED_ATTRIBUTE: Final = re.compile(rb"[rspvc]=")
SCRAM_STARTS: Final = (b"n,", b"y,", b"p=", b"r=", b"c=", b"v=", b"e=")
GS2_HEADER: Final = re.compile(rb"[ny],(?:a=[^,\x00-\x1f]*)?,\x01")
KEPT_OF_JSON: Final = 2


def masked_token(token: bytes) -> bytes:
    r"""Return a token of the same length without its credentials.

    >>> masked_token(b"\0alice\0secret"), masked_token(b"c=biws,r=no,p=AAAA")
    (b'\x00alice\x00xxxxxx', b'c=xxxx,r=xx,p=xxxx')
    """
    kept = 0 if b"\0" in token else bearer_head(token)
    if kept:
        return token[:kept] + MASK * (len(token) - kept)
    if token.startswith(SCRAM_STARTS) and token.isascii() and b"\0" not in token:
        return b",".join(masked_attributes(token.split(b",")))
    parts = token.split(b"\0")
    if len(parts) == 3:
        return b"\0".join([*parts[:2], MASK * len(parts[2])])
    kept = KEPT_OF_JSON if token[:1] == b"{" else 1
    return token[:kept] + MASK * (len(token) - kept)


def masked_attributes(attributes: list[bytes]) -> Iterator[bytes]:
    """Mask the values of known SCRAM attributes, and all of unknown or misplaced ones."""
    is_first = len(attributes) > len(CLEAR_IN_PLACE) and all(
        pattern.fullmatch(one) for pattern, one in zip(CLEAR_IN_PLACE, attributes, strict=False)
    )
    for place, one in enumerate(attributes):
        if (is_first and place < len(CLEAR_IN_PLACE)) or CLEAR_ATTRIBUTE.fullmatch(one):
            yield one
        else:
            kept = 2 if MASKED_ATTRIBUTE.match(one) else 0
            yield one[:kept] + MASK * (len(one) - kept)


def bearer_head(token: bytes) -> int:
    """Size of the GS2 header of an OAUTHBEARER token; 0 for other tokens."""
    match = GS2_HEADER.match(token)
    return match.end() if match else 0
