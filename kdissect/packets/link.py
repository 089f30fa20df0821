"""Link layers: locate the network layer of a packet from its link-layer header.

Ethernet         2 x 6 bytes addresses, then an ethertype
ethertype        0x8100, 0x88a8, 0x9100 …: 2 bytes VLAN tag, then another ethertype;
                 0x8926, 0x893f: 4 or 6 bytes tag of a switch port, then another
                 less than 0x0600: a length (IEEE 802.3), then LLC
LLC              aa aa 03, 3 bytes organisation, ethertype (SNAP); 06 06 03: IPv4
Linux cooked v1  14 bytes, then an ethertype
Linux cooked v2  2 bytes ethertype, 18 bytes
NULL, LOOP       4 bytes address family, in the byte order of the capturing host or the network's
raw IP           nothing: the first half byte is the IP version
PPP, Cisco HDLC  address and control (ff 03; 0f 00 or 8f 00), then a protocol number or ethertype
ENC, PFLOG       of OpenBSD: a header with an address family, then IP
NFLOG            family, version, number, then fields: 2 bytes length, 2 bytes type; 9 is the packet
802.11           see wireless.py
"""

from typing import Final

from librt.strings import read_i32_be, read_i32_le
from mypy_extensions import i64

from kdissect.packets.wireless import read_prism, read_radiotap, read_wireless

# LINKTYPE_ values (https://www.tcpdump.org/linktypes.html); 12 and 14 are BSD's DLT_RAW.
NULL: Final = 0
ETHERNET: Final = 1
PPP: Final = 9
RAW_BSD: Final = 12
RAW_OPENBSD: Final = 14
PPP_HDLC: Final = 50
PPP_ETHER: Final = 51
RAW: Final = 101
C_HDLC: Final = 104
IEEE802_11: Final = 105
LOOP: Final = 108
ENC: Final = 109
LINUX_SLL: Final = 113
PFLOG: Final = 117
PRISM: Final = 119
RADIOTAP: Final = 127
IP_OVER_FIREWIRE: Final = 138
AVS: Final = 163
PPI: Final = 192
PPP_WITH_DIRECTION: Final = 204
IPV4: Final = 228
IPV6: Final = 229
NFLOG: Final = 239
LINUX_SLL2: Final = 276

ETHERTYPE_IPV4: Final = 0x0800
ETHERTYPE_IPV6: Final = 0x86DD
ETHERTYPE_MPLS: Final = 0x8847
ETHERTYPE_MPLS_MULTICAST: Final = 0x8848
ETHERTYPE_PPPOE: Final = 0x8864
ETHERTYPE_LLC: Final = 0x8870  # LLC in frames longer than a length field may say
ETHERTYPE_BACKBONE: Final = 0x88E7  # IEEE 802.1ah: 4 bytes service, then an Ethernet frame
# "Transparent Ethernet bridging": a whole Ethernet frame follows.
ETHERNET_FRAME: Final = 0x6558
# Smaller values of the ethertype field are the length of an IEEE 802.3 frame.
SMALLEST_ETHERTYPE: Final = 0x0600
# Two are standard, more occur; the bound only limits the cost of hostile packets.
MAXIMUM_VLAN_TAGS: Final = 8

AF_INET: Final = 2
# NetBSD and OpenBSD, Linux, FreeBSD, macOS.
AF_INET6: Final = (24, 10, 28, 30)

# In place of an ethertype.
CUT: Final = -1
UNKNOWN_LINK_TYPE: Final = -2
OTHER_FAMILY: Final = -3
MALFORMED: Final = -4
NO_TUNNEL: Final = -5
OTHER_PPP: Final = -6
OTHER_LLC: Final = -7

SNAP: Final = 0xAAAA03
LLC_IPV4: Final = 0x060603
NFLOG_PAYLOAD: Final = 9
# There are 20 kinds of fields; the bound only limits the cost of hostile packets.
MAXIMUM_NFLOG_FIELDS: Final = 64


def read_link(data: bytes, start: i64, end: i64, link_type: i64) -> tuple[i64, i64]:
    """Ethertype and index of the network layer of ``data[start:end]``.

    The ethertype is CUT if the capture ends before it, UNKNOWN_LINK_TYPE or OTHER_FAMILY.
    """
    if link_type == ETHERNET:
        return read_ethertype(data, start + 12, end)
    if link_type == LINUX_SLL:
        return read_ethertype(data, start + 14, end)
    if link_type == LINUX_SLL2:
        if end - start < 20:
            return CUT, end
        ethertype: i64 = data[start] << 8 | data[start + 1]
        if is_vlan_tag(ethertype):
            return read_ethertype(data, start + 22, end)
        return ethertype, start + 20
    if link_type in (RAW, RAW_BSD, RAW_OPENBSD, IPV4, IPV6):
        return read_ip_version(data, start, end)
    if link_type in (NULL, LOOP):
        return read_family(data, start, end)
    return read_rare_link(data, start, end, link_type)


def read_rare_link(data: bytes, start: i64, end: i64, link_type: i64) -> tuple[i64, i64]:
    """The same for rare link types."""
    if link_type in (PPP, PPP_HDLC):
        return read_ppp(data, start, end)
    if link_type == PPP_WITH_DIRECTION:
        return read_ppp(data, start + 1, end)
    if link_type == PPP_ETHER:
        return ETHERTYPE_PPPOE, start
    if link_type == C_HDLC:
        return read_ethertype(data, start + 2, end)
    if link_type == IP_OVER_FIREWIRE:
        return read_ethertype(data, start + 16, end)
    if link_type == ENC:
        return read_family(data, start, end)[0], start + 12
    if link_type == PFLOG:
        return read_pflog(data, start, end)
    if link_type == NFLOG:
        return read_nflog(data, start, end)
    if link_type == IEEE802_11:
        return read_wireless(data, start, end, False)
    if link_type == RADIOTAP:
        return read_radiotap(data, start, end)
    if link_type in (PRISM, AVS):
        return read_prism(data, start, end)
    if link_type == PPI:
        return read_ppi(data, start, end)
    return UNKNOWN_LINK_TYPE, end


def read_ethertype(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """Ethertype at `offset` and index of the payload, VLAN tags skipped."""
    for _ in range(MAXIMUM_VLAN_TAGS + 1):
        if offset + 2 > end:
            return CUT, end
        ethertype: i64 = data[offset] << 8 | data[offset + 1]
        if is_vlan_tag(ethertype):
            offset += 4
        elif ethertype == 0x8926:
            offset += 6
        elif ethertype == 0x893F:
            offset += 8
        else:
            return ethertype, offset + 2
    return OTHER_FAMILY, end


def is_known_ethertype(ethertype: i64) -> bool:
    """Return whether the payload can be analyzed."""
    return is_vlan_tag(ethertype) or ethertype in (
        ETHERTYPE_IPV4,
        ETHERTYPE_IPV6,
        ETHERTYPE_MPLS,
        ETHERTYPE_PPPOE,
    )


def read_llc(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """Ethertype and index of the payload of the LLC header at `offset`, OTHER_LLC without one."""
    if offset + 3 > end:
        return CUT, end
    header: i64 = data[offset] << 16 | data[offset + 1] << 8 | data[offset + 2]
    if header == LLC_IPV4:
        return ETHERTYPE_IPV4, offset + 3
    if header != SNAP:
        return OTHER_LLC, end
    if offset + 8 > end:
        return CUT, end
    ethertype, payload = read_ethertype(data, offset + 6, end)
    return (OTHER_LLC if 0 <= ethertype < SMALLEST_ETHERTYPE else ethertype), payload


def is_vlan_tag(ethertype: i64) -> bool:
    """Return whether a VLAN tag and another ethertype follow: 802.1Q, 802.1ad, older QinQ."""
    return ethertype in (0x8100, 0x88A8, 0x9100, 0x9200, 0x9300)


def read_ip_version(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """Ethertype for the IP version at `offset`, and `offset`."""
    if offset >= end:
        return CUT, end
    version: i64 = data[offset] >> 4
    if version == 4:
        return ETHERTYPE_IPV4, offset
    return (ETHERTYPE_IPV6 if version == 6 else OTHER_FAMILY), offset


def read_family(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """Ethertype for the address family at `offset`, and the index after it."""
    if offset + 4 > end:
        return CUT, end
    family: i64 = i64(read_i32_le(data, offset))
    if family < 0 or family > 0xFFFF:
        family = i64(read_i32_be(data, offset))
    if family == AF_INET:
        return ETHERTYPE_IPV4, offset + 4
    return (ETHERTYPE_IPV6 if family in AF_INET6 else OTHER_FAMILY), offset + 4


def read_ppp(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """Ethertype for the PPP protocol, and the index after it."""
    if offset + 2 <= end and data[offset] == 0xFF and data[offset + 1] == 0x03:
        offset += 2
    if offset + 2 > end:
        return CUT, end
    protocol: i64 = data[offset]
    offset += 1
    # A protocol number's last byte is odd, the others are even, so a leading zero may be omitted.
    if protocol & 1 == 0:
        protocol = protocol << 8 | data[offset]
        offset += 1
    if protocol == 0x0021:
        return ETHERTYPE_IPV4, offset
    if protocol == 0x0057:
        return ETHERTYPE_IPV6, offset
    return (ETHERTYPE_MPLS if protocol == 0x0281 else OTHER_PPP), offset


def read_pflog(data: bytes, start: i64, end: i64) -> tuple[i64, i64]:
    """Packet that a firewall logged: length of the header, address family, more."""
    if start + 2 > end:
        return CUT, end
    size: i64 = (data[start] + 3) & ~3
    family: i64 = data[start + 1]
    if family == AF_INET:
        return ETHERTYPE_IPV4, start + size
    return (ETHERTYPE_IPV6 if family in AF_INET6 else OTHER_FAMILY), start + size


def read_nflog(data: bytes, start: i64, end: i64) -> tuple[i64, i64]:
    """IP packet among the fields of a logged packet."""
    offset = start + 4
    for _ in range(MAXIMUM_NFLOG_FIELDS):
        if offset + 4 > end:
            return CUT, end
        # In the byte order of the capturing host, nowadays little-endian.
        size: i64 = data[offset] | data[offset + 1] << 8
        if data[offset + 2] == NFLOG_PAYLOAD and data[offset + 3] == 0:
            return read_ip_version(data, offset + 4, end)
        if size < 4:
            return MALFORMED, end
        offset += (size + 3) & ~3
    return OTHER_FAMILY, end


def read_ppi(data: bytes, start: i64, end: i64) -> tuple[i64, i64]:
    """Payload of a per-packet information header, which names its link type."""
    if start + 8 > end:
        return CUT, end
    size: i64 = data[start + 2] | data[start + 3] << 8
    link_type: i64 = i64(read_i32_le(data, start + 4))
    if link_type == PPI:
        return MALFORMED, end
    return read_link(data, start + size, end, link_type)
