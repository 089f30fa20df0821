"""Tunnels: locate the packet that a tunnel header encapsulates.

GRE       RFC 2784, 2890: 2 bytes flags, protocol, then checksum, key, sequence number as the flags
          say; version 1 (RFC 2637) carries PPP
ERSPAN    in GRE 0x88be without sequence number: nothing (I); with: 8 bytes (II);
          in GRE 0x22eb: 12 bytes, 8 more when the O bit says so (III)
VXLAN     RFC 7348: in UDP, flags, 24 bits, network, 8 bits; GPE has the protocol in byte 3
GENEVE    RFC 8926: in UDP, version and length of options, flags, protocol, network, 8 bits, options
EtherIP   RFC 3378: 2 bytes
MPLS      RFC 3032: labels of 4 bytes, the last has bit 8 set; then IP or, with a control word of
          4 bytes or without, Ethernet (RFC 4448)
PPPoE     RFC 2516: 6 bytes, then PPP
PPP       RFC 1661: ff 03 or nothing, then 2 bytes protocol, or 1 when its low bit is set

A reader returns the type of the payload, as an ethertype or a negative number of link.py, and its
index. The type of an Ethernet frame, which has no ethertype, is ETHERNET_FRAME.
"""

from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from kdissect.packets.link import (
    CUT,
    ETHERNET_FRAME,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_MPLS,
    MALFORMED,
    NO_TUNNEL,
    is_known_ethertype,
    read_ip_version,
    read_ppp,
)

# IP protocols.
IP_IN_IP: Final = 4
UDP: Final = 17
IPV6_IN_IP: Final = 41
GRE: Final = 47
ETHERNET_IN_IP: Final = 97
MPLS_IN_IP: Final = 137

# UDP destination ports. 8472 is the one Linux used before one was assigned, and flannel still does.
VXLAN_PORTS: Final = (4789, 8472)
VXLAN_GPE_PORT: Final = 4790
GENEVE_PORT: Final = 6081
GRE_PORT: Final = 4754  # RFC 8086
MPLS_PORT: Final = 6635  # RFC 7510
UDP_HEADER_SIZE: Final = 8
VXLAN_HEADER_SIZE: Final = 8

GRE_CHECKSUM: Final = 0x8000
GRE_ROUTING: Final = 0x4000  # RFC 1701, where a checksum field follows too
GRE_KEY: Final = 0x2000
GRE_SEQUENCE: Final = 0x1000
GRE_ACKNOWLEDGMENT: Final = 0x0080  # version 1
GRE_PPP: Final = 0x880B
ERSPAN: Final = 0x88BE
ERSPAN_3: Final = 0x22EB

# Two are common, five occur; the bound only limits the cost of hostile packets.
MAXIMUM_LABELS: Final = 16


def read_tunnel(
    data: bytes, protocol: i64, offset: i64, end: i64, wire_end: i64
) -> tuple[i64, i64]:
    """Payload of the IP packet at `offset`; NO_TUNNEL for protocols that are not tunnels."""
    if protocol == UDP:
        return read_udp_tunnel(data, offset, end, wire_end)
    if protocol == GRE:
        return read_gre(data, offset, end)
    if protocol == IP_IN_IP:
        return ETHERTYPE_IPV4, offset
    if protocol == IPV6_IN_IP:
        return ETHERTYPE_IPV6, offset
    if protocol == MPLS_IN_IP:
        return ETHERTYPE_MPLS, offset
    if protocol == ETHERNET_IN_IP:
        # RFC 3378: version 3 and 12 reserved bits.
        return ETHERNET_FRAME, offset + 2
    return NO_TUNNEL, offset


def read_udp_tunnel(data: bytes, offset: i64, end: i64, wire_end: i64) -> tuple[i64, i64]:
    """Payload of the UDP packet at `offset`, by its destination port; VXLAN on any port."""
    if offset + UDP_HEADER_SIZE > end:
        return CUT, end
    port: i64 = data[offset + 2] << 8 | data[offset + 3]
    payload = offset + UDP_HEADER_SIZE
    if port == GENEVE_PORT:
        return read_geneve(data, payload, end)
    if port == VXLAN_GPE_PORT:
        return read_vxlan_gpe(data, payload, end)
    if port == GRE_PORT:
        return read_gre(data, payload, end)
    if port == MPLS_PORT:
        return ETHERTYPE_MPLS, payload
    if port in VXLAN_PORTS:
        return read_vxlan(data, payload, end)
    if is_vxlan(data, payload, end, wire_end):
        return ETHERNET_FRAME, payload + VXLAN_HEADER_SIZE
    return NO_TUNNEL, offset


def read_vxlan(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """Ethernet frame in VXLAN; flags other than "network is valid" are extensions."""
    if offset + VXLAN_HEADER_SIZE > end:
        return CUT, end
    if data[offset] & 0x08 == 0:
        return NO_TUNNEL, offset
    return ETHERNET_FRAME, offset + VXLAN_HEADER_SIZE


def is_vxlan(data: bytes, offset: i64, end: i64, wire_end: i64) -> bool:
    """Return whether a UDP payload looks like VXLAN: its header, and IP that fits in."""
    frame = offset + VXLAN_HEADER_SIZE
    # The header, an Ethernet header and one byte of IP.
    if frame + 15 > end:
        return False
    if read_i64_be(data, offset) & ~0xFFFFFF00 != 0x08 << 56:
        return False
    ethertype: i64 = data[frame + 12] << 8 | data[frame + 13]
    if ethertype != ETHERTYPE_IPV4 and ethertype != ETHERTYPE_IPV6:
        return False
    return read_ip_version(data, frame + 14, end)[0] == ethertype and ip_fits(
        data, frame + 14, end, wire_end
    )


def read_vxlan_gpe(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """Payload of VXLAN with a protocol field."""
    if offset + VXLAN_HEADER_SIZE > end:
        return CUT, end
    # The P bit declares a protocol field.
    protocol: i64 = data[offset + 3] if data[offset] & 0x04 else 3
    payload = offset + VXLAN_HEADER_SIZE
    if protocol == 1:
        return ETHERTYPE_IPV4, payload
    if protocol == 2:
        return ETHERTYPE_IPV6, payload
    if protocol == 3:
        return ETHERNET_FRAME, payload
    if protocol == 5:
        return ETHERTYPE_MPLS, payload
    return NO_TUNNEL, offset


def read_geneve(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """Payload of GENEVE, after its options."""
    if offset + 8 > end:
        return CUT, end
    if data[offset] >> 6:
        return NO_TUNNEL, offset
    protocol: i64 = data[offset + 2] << 8 | data[offset + 3]
    return protocol, offset + 8 + ((data[offset] & 0x3F) << 2)


def read_gre(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """Payload of GRE, ERSPAN headers skipped."""
    if offset + 4 > end:
        return CUT, end
    flags: i64 = data[offset] << 8 | data[offset + 1]
    protocol: i64 = data[offset + 2] << 8 | data[offset + 3]
    payload = offset + 4
    if flags & (GRE_CHECKSUM | GRE_ROUTING):
        payload += 4
    if flags & GRE_KEY:
        payload += 4
    if flags & GRE_SEQUENCE:
        payload += 4
    version = flags & 0x07
    if version == 1:
        if flags & GRE_ACKNOWLEDGMENT:
            payload += 4
        return read_ppp(data, payload, end) if protocol == GRE_PPP else (MALFORMED, end)
    if version != 0 or flags & GRE_ROUTING:
        return MALFORMED, end
    if protocol == ERSPAN:
        return ETHERNET_FRAME, payload + (8 if flags & GRE_SEQUENCE else 0)
    if protocol == ERSPAN_3:
        return read_erspan_3(data, payload, end)
    if protocol == GRE_PPP:
        return read_ppp(data, payload, end)
    return protocol, payload


def read_erspan_3(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """Payload of the ERSPAN III header at `offset`: an Ethernet frame, or IP."""
    if offset + 12 > end:
        return CUT, end
    payload = offset + (20 if data[offset + 11] & 0x01 else 12)
    # 5 bits after the P bit: the type of frame.
    if data[offset + 10] >> 2 & 0x1F == 2:
        return read_ip_version(data, payload, end)
    return ETHERNET_FRAME, payload


def read_mpls(data: bytes, offset: i64, end: i64, wire_end: i64) -> tuple[i64, i64]:
    """Payload of the labels at `offset`: labels do not declare it, so its bytes must fit."""
    for _ in range(MAXIMUM_LABELS):
        if offset + 4 > end:
            return CUT, end
        is_last = data[offset + 2] & 0x01 != 0
        offset += 4
        if is_last:
            return read_unlabelled(data, offset, end, wire_end)
    return MALFORMED, end


def read_unlabelled(data: bytes, offset: i64, end: i64, wire_end: i64) -> tuple[i64, i64]:
    """IP, or an Ethernet frame with or without a control word before it."""
    if offset >= end:
        return CUT, end
    kind, _ = read_ip_version(data, offset, end)
    if kind >= 0 and ip_fits(data, offset, end, wire_end):
        return kind, offset
    # RFC 4385: the first half byte of a control word is 0; that of an address may be too.
    if data[offset] >> 4 == 0 and is_frame(data, offset + 4, end):
        return ETHERNET_FRAME, offset + 4
    if is_frame(data, offset, end):
        return ETHERNET_FRAME, offset
    return NO_TUNNEL, offset


def is_frame(data: bytes, offset: i64, end: i64) -> bool:
    """Return whether `offset` may be an Ethernet frame with an ethertype that is analyzed."""
    if offset + 14 > end:
        return False
    ethertype: i64 = data[offset + 12] << 8 | data[offset + 13]
    return is_known_ethertype(ethertype)


def ip_fits(data: bytes, offset: i64, end: i64, wire_end: i64) -> bool:
    """Return whether the IP header at `offset` declares no more bytes than were on the wire."""
    room = wire_end - offset
    if end - offset < 8:
        return room >= 20
    if data[offset] >> 4 == 4:
        total: i64 = data[offset + 2] << 8 | data[offset + 3]
        return data[offset] & 0x0F >= 5 and (total == 0 or 20 <= total <= room)
    return 40 + (i64(read_i32_be(data, offset + 4)) >> 16 & 0xFFFF) <= room


def read_pppoe(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """Packet of a PPPoE session; NO_TUNNEL for other codes, which carry none."""
    if offset + 6 > end:
        return CUT, end
    if data[offset] != 0x11 or data[offset + 1] != 0:
        return NO_TUNNEL, offset
    return read_ppp(data, offset + 6, end)
