"""The PROXY protocol: a header by which a load balancer sends a server its client's address.

    version 1   "PROXY " TCP4|TCP6 source destination port port CR LF, or "PROXY UNKNOWN" ... CR LF
    version 2   12 bytes signature, 0x20 (LOCAL) or 0x21 (PROXY), address family and transport,
                uint16 size of the rest: source and destination address, their ports, TLVs

One header precedes all other data from the side that opened the connection
(haproxy.org/download/3.0/doc/proxy-protocol.txt). Independent of the data after it.
"""

import ipaddress
from typing import Final, NamedTuple

V1_START: Final = b"PROXY "
V1_LIMIT: Final = 107  # bytes of the longest header of version 1
V2_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
# Their first bytes.
V1_FIRST: Final = 0x50
V2_FIRST: Final = 0x0D
V2_FIXED: Final = 16
V2_PROXY: Final = 0x21
# Family and transport of TCP over IPv4 and IPv6, with the size of an address.
V2_ADDRESS: Final = {0x11: 4, 0x21: 16}

NO_HEADER: Final = 0
INCOMPLETE: Final = -1


class ProxyHeader(NamedTuple):
    """`size` in bytes, or NO_HEADER or INCOMPLETE; the address is b"" if the header has none."""

    size: int
    client_address: bytes = b""
    client_port: int = 0


def read_proxy_header(data: bytes, start: int, end: int) -> ProxyHeader:
    """Parse the header that ``data[start:end]`` starts with."""
    if data.startswith(V1_START, start, end):
        return _read_v1(data, start, end)
    if data.startswith(V2_SIGNATURE, start, end):
        return _read_v2(data, start, end)
    return ProxyHeader(NO_HEADER)


def read_cut_header(data: bytes, start: int, end: int) -> ProxyHeader:
    """Parse the header that ``data[start:end]`` starts with, followed by missing bytes.

    Returns its size if known, without the address; otherwise NO_HEADER.
    """
    is_sized = data.startswith(V2_SIGNATURE, start, end) and end - start >= V2_FIXED
    return ProxyHeader(_size_v2(data, start) if is_sized else NO_HEADER)


def _read_v1(data: bytes, start: int, end: int) -> ProxyHeader:
    line_end = data.find(b"\r\n", start, min(end, start + V1_LIMIT))
    if line_end < 0:
        return ProxyHeader(INCOMPLETE if end - start < V1_LIMIT else NO_HEADER)
    size = line_end + 2 - start
    words = data[start:line_end].split(b" ")
    if len(words) != 6 or words[1] not in (b"TCP4", b"TCP6"):
        return ProxyHeader(size)
    try:
        address = ipaddress.ip_address(words[2].decode("ascii")).packed
        port = int(words[4])
    except ValueError:
        return ProxyHeader(size)
    return ProxyHeader(size, address, port) if 0 <= port <= 0xFFFF else ProxyHeader(size)


def _read_v2(data: bytes, start: int, end: int) -> ProxyHeader:
    if end - start < V2_FIXED:
        return ProxyHeader(INCOMPLETE)
    size = _size_v2(data, start)
    if end - start < size:
        return ProxyHeader(INCOMPLETE)
    width = V2_ADDRESS.get(data[start + 13], 0)
    # A size too small for its addresses would read Kafka's first bytes as a port.
    if data[start + 12] != V2_PROXY or width == 0 or size < V2_FIXED + 2 * width + 4:
        return ProxyHeader(size)
    at = start + V2_FIXED
    port_at = at + 2 * width
    port = int.from_bytes(data[port_at : port_at + 2], "big")
    return ProxyHeader(size, data[at : at + width], port)


def _size_v2(data: bytes, start: int) -> int:
    """Size of a header of version 2, whose fixed part is complete."""
    return V2_FIXED + int.from_bytes(data[start + 14 : start + 16], "big")
