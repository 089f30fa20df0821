"""IPv4 (RFC 791) and IPv6 (RFC 8200) headers: position and protocol of the payload."""

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64, mypyc_attr

TCP: Final = 6

IPV4_HEADER_SIZE: Final = 20
IPV6_HEADER_SIZE: Final = 40

HOP_BY_HOP: Final = 0
FRAGMENT: Final = 44
AUTHENTICATION: Final = 51
JUMBO_PAYLOAD: Final = 0xC2
# RFC 8200 has seven kinds, each at most once or twice; the bound limits the cost of hostile
# packets.
MAXIMUM_EXTENSIONS: Final = 16

WELL_FORMED: Final = 0
CUT: Final = 1
MALFORMED: Final = 2


@mypyc_attr(acyclic=True)
class IpHeader:
    """Fields of an IP header; `payload_start` and `payload_end` are indexes into the packet's data.

    `payload_end` is declared by the header, past the packet's end if the capture truncated it.
    `addresses` are source and destination. `identification` is -1 if missing (IPv6 without fragment
    header). `is_fragment` marks a fragment that is not the whole, `has_more` one that is not the
    last; `fragment_offset` is in bytes. `verdict` is WELL_FORMED or the reason why the rest is
    invalid.
    """

    __slots__ = (
        "verdict", "protocol", "payload_start", "payload_end", "addresses", "identification",
        "is_fragment", "has_more", "fragment_offset",
    )  # fmt: skip

    def __init__(self, verdict: i64) -> None:
        self.verdict: i64 = verdict
        self.protocol: i64 = -1
        self.payload_start: i64 = 0
        self.payload_end: i64 = 0
        self.addresses = b""
        self.identification: i64 = -1
        self.is_fragment = False
        self.has_more = False
        self.fragment_offset: i64 = 0


def read_ipv4(data: bytes, offset: i64, end: i64, wire_end: i64) -> IpHeader:
    """Parse the IPv4 header at `offset`; the packet was captured up to `end` of `wire_end`."""
    if end - offset < IPV4_HEADER_SIZE:
        return IpHeader(CUT)
    header_size: i64 = (data[offset] & 0x0F) << 2
    total: i64 = data[offset + 2] << 8 | data[offset + 3]
    if total == 0:
        # Segmentation offload: the card fills the length in later, so the frame's end is used.
        total = wire_end - offset
    if data[offset] >> 4 != 4 or header_size < IPV4_HEADER_SIZE or total < header_size:
        return IpHeader(MALFORMED)
    header = IpHeader(WELL_FORMED)
    header.protocol = data[offset + 9]
    header.payload_start = offset + header_size
    header.payload_end = offset + total
    header.addresses = data[offset + 12 : offset + 20]
    header.identification = data[offset + 4] << 8 | data[offset + 5]
    flags: i64 = data[offset + 6] << 8 | data[offset + 7]
    header.is_fragment = flags & 0x3FFF != 0
    header.has_more = flags & 0x2000 != 0
    header.fragment_offset = (flags & 0x1FFF) << 3
    if header.protocol == AUTHENTICATION and not header.is_fragment:
        skip_extensions(header, data, end)
    return header


def read_ipv6(data: bytes, offset: i64, end: i64, wire_end: i64) -> IpHeader:
    """Parse the IPv6 header at `offset` with its extension headers."""
    if end - offset < IPV6_HEADER_SIZE:
        return IpHeader(CUT)
    if data[offset] >> 4 != 6:
        return IpHeader(MALFORMED)
    header = IpHeader(WELL_FORMED)
    header.protocol = data[offset + 6]
    header.payload_start = offset + IPV6_HEADER_SIZE
    header.addresses = data[offset + 8 : offset + 40]
    size: i64 = data[offset + 4] << 8 | data[offset + 5]
    # No length: a jumbogram, or segmentation offload, which fills the frame.
    header.payload_end = wire_end
    if size:
        header.payload_end = header.payload_start + size
    elif header.protocol == HOP_BY_HOP:
        header.payload_end = jumbo_end(data, header.payload_start, end, wire_end)
    skip_extensions(header, data, end)
    return header


def jumbo_end(data: bytes, offset: i64, end: i64, wire_end: i64) -> i64:
    """End of the packet by the jumbo payload option of the hop-by-hop header at `offset`.

    RFC 2675: type 0xc2, size 4, then the length from this header on. Without one, or if it exceeds
    the frame, the frame's end.
    """
    if offset + 2 > end:
        return wire_end
    at = offset + 2
    last = min(offset + ((data[offset + 1] + 1) << 3), end)
    while at + 6 <= last:
        if data[at] == JUMBO_PAYLOAD and data[at + 1] == 4:
            length: i64 = i64(read_i32_be(data, at + 2)) & 0xFFFFFFFF
            return min(offset + length, wire_end)
        # The one-byte option is padding, and has no length.
        at += data[at + 1] + 2 if data[at] else 1
    return wire_end


def is_plain_extension(protocol: i64) -> bool:
    """Return whether a header starts with the next header's number and its own length.

    The length is in units of 8 bytes, excluding the first 8. These are hop-by-hop, routing and
    destination options, mobility, HIP and shim6.
    """
    return protocol in (0, 43, 60, 135, 139, 140)


def skip_extensions(header: IpHeader, data: bytes, end: i64) -> None:
    """Move `payload_start` and `protocol` past extension headers, fragment headers last."""
    offset = header.payload_start
    for _ in range(MAXIMUM_EXTENSIONS):
        protocol = header.protocol
        is_plain = is_plain_extension(protocol)
        if not is_plain and protocol != FRAGMENT and protocol != AUTHENTICATION:
            break
        if offset + 8 > end:
            header.verdict = CUT
            return
        header.protocol = data[offset]
        if is_plain:
            offset += (data[offset + 1] + 1) << 3
        elif protocol == AUTHENTICATION:
            # RFC 4302: in units of 4 bytes, the first 8 not counted.
            offset += (data[offset + 1] + 2) << 2
        else:
            _read_fragment(header, data, offset)
            offset += 8
            if header.is_fragment:
                # The headers that follow are of the whole packet.
                break
    header.payload_start = offset
    if offset > header.payload_end:
        header.verdict = MALFORMED


def _read_fragment(header: IpHeader, data: bytes, offset: i64) -> None:
    """Read a fragment header; without offset and more flag it is atomic (RFC 6946): no fragment."""
    header.identification = i64(read_i32_be(data, offset + 4)) & 0xFFFFFFFF
    field: i64 = data[offset + 2] << 8 | data[offset + 3]
    header.fragment_offset = field & 0xFFF8
    header.is_fragment = field & 0xFFF9 != 0
    header.has_more = field & 1 != 0
