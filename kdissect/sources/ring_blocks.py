"""Blocks of an AF_PACKET ring, TPACKET_V3 (<linux/if_packet.h>), cut into packets.

    block  = 4 bytes version, 4 bytes offset, then (tpacket_hdr_v1) 4 bytes status, 4 bytes number
             of packets, 4 bytes offset of the first, 4 bytes length of the block, times; packets
    packet = 4 bytes offset of the next one, 4 bytes seconds, 4 bytes ns, 4 bytes captured length,
             4 bytes original length, 4 bytes status, 2 bytes offset of its bytes, others; at 48 an
             address (sockaddr_ll: 2 bytes family, 2 bytes ethertype, others); its bytes

Numbers are in the host's byte order: little-endian, as rings are not opened on other hosts.
"""

from typing import Final

from librt.strings import read_i32_le
from mypy_extensions import i64

from kdissect.capture.packet import SECOND_NS, Packet

BLOCK_HEADER_SIZE: Final = 48
# tpacket3_hdr, and the sockaddr_ll after it.
PACKET_HEADER_SIZE: Final = 68
U32: Final = 0xFFFFFFFF
RAW: Final = 101
VLAN_TAG_SIZE: Final = 4


def read_block(
    data: bytes, link_type: i64, number: i64, capture: i64, packets: list[Packet]
) -> bool:
    """Add the packets of a block to `packets`, numbered from `number` on.

    Return whether everything it declares lies inside it; if not, the packets before the invalid one
    were added.
    """
    size: i64 = len(data)
    if size < BLOCK_HEADER_SIZE:
        return False
    count: i64 = i64(read_i32_le(data, 12)) & U32
    at: i64 = i64(read_i32_le(data, 16)) & U32
    while count > 0:
        # Offsets that point outside, or backwards, would expose other memory, or loop forever.
        if at < BLOCK_HEADER_SIZE or at + PACKET_HEADER_SIZE > size:
            return False
        start: i64 = at + (data[at + 24] | data[at + 25] << 8)
        captured: i64 = i64(read_i32_le(data, at + 12)) & U32
        original: i64 = i64(read_i32_le(data, at + 16)) & U32
        end = start + captured
        if start < at + PACKET_HEADER_SIZE or end > size:
            return False
        seconds: i64 = i64(read_i32_le(data, at + 4)) & U32
        fraction: i64 = i64(read_i32_le(data, at + 8)) & U32
        if original < captured:
            original = captured
        if link_type == RAW and has_tag(data, start, end, original):
            start += VLAN_TAG_SIZE
            original -= VLAN_TAG_SIZE
        packets.append(
            Packet(
                number,
                seconds * SECOND_NS + fraction,
                link_type,
                data,
                start,
                end,
                original,
                number,
                capture,
            )
        )
        number += 1
        count -= 1
        step: i64 = i64(read_i32_le(data, at)) & U32
        if count and step < PACKET_HEADER_SIZE:
            return False
        at += step
    return True


def has_tag(data: bytes, start: i64, end: i64, original: i64) -> bool:
    """Return whether a VLAN tag is at the place of a cooked packet's IP header.

    The ethertype reported by the kernel is that of the tag or of what follows, by kernel version.
    """
    if start + VLAN_TAG_SIZE + 2 > end:
        return False
    inner: i64 = data[start + 2] << 8 | data[start + 3]
    version: i64 = data[start + VLAN_TAG_SIZE] >> 4
    if not ((inner == 0x0800 and version == 4) or (inner == 0x86DD and version == 6)):
        return False
    # An IPv4 header of a packet of 2048 bytes, or an IPv6 header with this flow label, looks the
    # same.
    if data[start] >> 4 == 4:
        return inner != original
    payload: i64 = data[start + 4] << 8 | data[start + 5]
    return data[start] >> 4 != 6 or payload + 40 != original
