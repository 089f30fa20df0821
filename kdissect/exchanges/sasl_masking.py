"""Masks SASL tokens: the same length, without credentials or data to guess them from.

    PLAIN         authzid NUL user NUL xxxx
    SCRAM-*       n,,n=user,r=xxxx   r=xxxx,s=xxxx,i=4096   c=xxxx,r=xxxx,p=xxxx   v=xxxx
    OAUTHBEARER   n,a=user,^Axxxx
    others        the first byte, or two of JSON, by which `sasl` recognizes them; xxxx

User names in plain text stay.
"""

import re
from typing import Final

MASK: Final = b"x"
ATTRIBUTE: Final = re.compile(rb"(?<![^,])([rspvc]=)([^,]*)")
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
        return ATTRIBUTE.sub(lambda one: one[1] + MASK * len(one[2]), token)
    parts = token.split(b"\0")
    if len(parts) == 3:
        return b"\0".join([*parts[:2], MASK * len(parts[2])])
    kept = KEPT_OF_JSON if token[:1] == b"{" else 1
    return token[:kept] + MASK * (len(token) - kept)


def bearer_head(token: bytes) -> int:
    """Size of the GS2 header of an OAUTHBEARER token; 0 for other tokens."""
    match = GS2_HEADER.match(token)
    return match.end() if match else 0
