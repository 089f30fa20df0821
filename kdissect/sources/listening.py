"""Listening TCP sockets of this network namespace, read from /proc; no packet is sent."""

import ipaddress
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

SOCKETS: Final = ("/proc/net/tcp", "/proc/net/tcp6")
LISTEN: Final = "0A"  # TCP_LISTEN of <net/tcp_states.h>


class Endpoint(NamedTuple):
    """Address and port of a listening socket; an unspecified address is every address."""

    address: str
    port: int

    @property
    def is_everywhere(self) -> bool:
        """Return whether the socket listens on all addresses."""
        return self.address in ("0.0.0.0", "::")  # noqa: S104  # compared, not bound


def listening(ports: Collection[int]) -> list[Endpoint]:
    """Endpoints with one of the ports, without duplicates; none where /proc does not show them."""
    found: dict[Endpoint, None] = {}
    for path in SOCKETS:
        with suppress(OSError, ValueError):
            found |= dict.fromkeys(endpoints_of(Path(path).read_text()))
    return [one for one in found if one.port in ports]


def endpoints_of(table: str) -> Iterator[Endpoint]:
    r"""The listening sockets of a table as in /proc/net/tcp.

    >>> list(endpoints_of("head\n 0: 0100007F:2384 00000000:0000 0A 0:0"))
    [Endpoint(address='127.0.0.1', port=9092)]
    """
    for line in table.splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        if state == LISTEN:
            address, port = local.split(":")
            yield Endpoint(address_of(address), int(port, 16))


def address_of(digits: str) -> str:
    """An address from its 32-bit words in host byte order.

    >>> address_of("0000000000000000FFFF00000100007F"), address_of("0" * 32)
    ('127.0.0.1', '::')
    """
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
