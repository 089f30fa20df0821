"""Protocols that the user assigns to ports and endpoints, regardless of their bytes."""

import ipaddress
from collections.abc import Iterable
from typing import Final, NamedTuple

from kdissect.errors import InvalidArgument
from kdissect.messages.old_protocols import PROTOCOLS
from kdissect.streams.events import ACCEPTER, OPENER
from kdissect.text.suggestions import known_words

TLS: Final = "tls"
EXCLUDED: Final = "none"  # is not dissected
WORDS: Final = (*PROTOCOLS, TLS, EXCLUDED)
UNDECIDED: Final = -1
MAX_PORT: Final = 65_535


class DecodeRule(NamedTuple):
    """A protocol of WORDS, "" for none; `broker_side` is OPENER, ACCEPTER or UNDECIDED."""

    protocol: str = ""
    broker_side: int = UNDECIDED


class DecodeAs:
    """Rules by TCP port and by ``address bytes + port bytes``; the endpoint rules go first."""

    def __init__(self, ports: dict[int, str], endpoints: dict[bytes, str]) -> None:
        self.ports = ports
        self.endpoints = endpoints

    def find(self, flow: bytes) -> DecodeRule:
        """Return a connection's rule; `flow` is its opener's direction (see `Segment.flow`)."""
        width = (len(flow) - 4) // 2
        opener = flow[:width] + flow[-4:-2]
        accepter = flow[width : 2 * width] + flow[-2:]
        known = chosen(self.endpoints.get(opener, ""), self.endpoints.get(accepter, ""))
        if known.protocol:
            return known
        return chosen(
            self.ports.get(int.from_bytes(opener[-2:], "big"), ""),
            self.ports.get(int.from_bytes(accepter[-2:], "big"), ""),
        )


def chosen(opener: str, accepter: str) -> DecodeRule:
    """Choose between the rules of two sides; of both the accepter's, with undecided side."""
    if opener and accepter:
        return DecodeRule(accepter)
    if accepter:
        return DecodeRule(accepter, ACCEPTER)
    return DecodeRule(opener, OPENER) if opener else DecodeRule()


def parse_decode_as(texts: Iterable[str]) -> DecodeAs:
    """Parse ``PORT=PROTOCOL`` and ``ADDRESS:PORT=PROTOCOL``; raise KdissectError."""
    ports: dict[int, str] = {}
    endpoints: dict[bytes, str] = {}
    for text in texts:
        where, has_protocol, word = text.rpartition("=")
        if not has_protocol:
            raise InvalidArgument(f"{text!r} is not PORT=PROTOCOL or ADDRESS:PORT=PROTOCOL")
        if word not in WORDS:
            raise InvalidArgument(f"no protocol {word!r} in {text!r}; {known_words(word, WORDS)}")
        if ":" in where:
            known = endpoints.setdefault(endpoint_bytes(where), word)
        else:
            known = ports.setdefault(port_number(where, text), word)
        if known != word:
            raise InvalidArgument(f"{where} cannot be both {known} and {word}")
    return DecodeAs(ports, endpoints)


def port_number(digits: str, text: str) -> int:
    """Parse a TCP port; `text` is quoted in errors.

    >>> port_number("9092", "9092=kafka")
    9092
    """
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) <= MAX_PORT):
        raise InvalidArgument(f"{digits!r} in {text!r} is not a port: those are 1 to {MAX_PORT}")
    return int(digits)


def endpoint_bytes(text: str) -> bytes:
    """``address:port`` as address bytes and port bytes; brackets around an IPv6 address.

    >>> endpoint_bytes("10.0.0.9:9092").hex()
    '0a0000092384'
    """
    address, _, digits = text.rpartition(":")
    try:
        raw = ipaddress.ip_address(address.removeprefix("[").removesuffix("]")).packed
    except ValueError as error:
        raise InvalidArgument(f"{text!r} is not address:port: {error}") from error
    return raw + port_number(digits, text).to_bytes(2, "big")
