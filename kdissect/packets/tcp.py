"""TCP headers (RFC 9293): parse a `Segment` from an IP payload."""

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from kdissect.capture.packet import Packet
from kdissect.packets.segment import NO_FLOW, Segment

TCP_HEADER_SIZE: Final = 20
U32: Final = 0xFFFFFFFF


def read_tcp(
    packet: Packet, addresses: bytes, offset: i64, payload_end: i64, ip_id: i64
) -> Segment | None:
    """Parse the segment at `offset`, whose payload is declared to end at `payload_end`.

    The whole header except its options was captured. None if the header contradicts the lengths.
    """
    data = packet.data
    end = packet.end
    rest = read_i64_be(data, offset + 12)
    start: i64 = offset + ((rest >> 60 & 0x0F) << 2)
    if start < offset + TCP_HEADER_SIZE or start > payload_end:
        return None
    numbers = read_i64_be(data, offset + 4)
    # Bytes after the IP packet are padding or a frame check sequence.
    captured_end = end if end < payload_end else payload_end
    return Segment(
        packet.number,
        packet.ordinal,
        packet.capture,
        packet.time_ns,
        addresses + data[offset : offset + 4],
        numbers >> 32 & U32,
        numbers & U32,
        rest >> 48 & 0xFF,
        rest >> 32 & 0xFFFF,
        data,
        start if start < captured_end else captured_end,
        captured_end,
        payload_end - start,
        offset,
        ip_id,
        read_i64_be(addresses, 0) if len(addresses) == 8 else NO_FLOW,
        read_i64_be(data, offset) >> 32 & U32 if len(addresses) == 8 else NO_FLOW,
    )
