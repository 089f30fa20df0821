"""Link layers: from the link-layer header of a packet to its network layer.

Ethernet         2 x 6 bytes addresses, then an ethertype
ethertype        0x8100, 0x88a8, 0x9100 …: 2 bytes VLAN tag, then another ethertype
Linux cooked v1  14 bytes, then an ethertype
Linux cooked v2  2 bytes ethertype, 18 bytes
NULL, LOOP       4 bytes address family, in the byte order of the capturing host or the network's
raw IP           nothing: the first half byte is the IP version
"""

from typing import Final

from librt.strings import read_i32_be, read_i32_le
from mypy_extensions import i64

# LINKTYPE_ values (https://www.tcpdump.org/linktypes.html); 12 and 14 are BSD's DLT_RAW.
NULL: Final = 0
ETHERNET: Final = 1
RAW_BSD: Final = 12
RAW_OPENBSD: Final = 14
RAW: Final = 101
LOOP: Final = 108
LINUX_SLL: Final = 113
IPV4: Final = 228
IPV6: Final = 229
LINUX_SLL2: Final = 276

ETHERTYPE_IPV4: Final = 0x0800
ETHERTYPE_IPV6: Final = 0x86DD
# Two are the standard's, more are somebody's; the bound only keeps hostile packets cheap.
MAXIMUM_VLAN_TAGS: Final = 8

AF_INET: Final = 2
# NetBSD and OpenBSD, Linux, FreeBSD, macOS.
AF_INET6: Final = (24, 10, 28, 30)

# Instead of an ethertype.
CUT: Final = -1
UNKNOWN_LINK_TYPE: Final = -2
OTHER_FAMILY: Final = -3


def read_link(data: bytes, start: i64, end: i64, link_type: i64) -> tuple[i64, i64]:
    """Ethertype and index of the network layer of ``data[start:end]``.

    The ethertype is CUT when the capture ends before it, UNKNOWN_LINK_TYPE or OTHER_FAMILY.
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
    return UNKNOWN_LINK_TYPE, end


def read_ethertype(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """Ethertype at `offset` and index of what follows, VLAN tags skipped."""
    for _ in range(MAXIMUM_VLAN_TAGS + 1):
        if offset + 2 > end:
            return CUT, end
        ethertype: i64 = data[offset] << 8 | data[offset + 1]
        if not is_vlan_tag(ethertype):
            return ethertype, offset + 2
        offset += 4
    return OTHER_FAMILY, end


def is_vlan_tag(ethertype: i64) -> bool:
    """Whether a VLAN tag and another ethertype follow: 802.1Q, 802.1ad, older QinQ."""
    return ethertype in (0x8100, 0x88A8, 0x9100, 0x9200, 0x9300)


def read_ip_version(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """The ethertype that the IP version at `offset` stands for, and `offset`."""
    if offset >= end:
        return CUT, end
    version: i64 = data[offset] >> 4
    if version == 4:
        return ETHERTYPE_IPV4, offset
    return (ETHERTYPE_IPV6 if version == 6 else OTHER_FAMILY), offset


def read_family(data: bytes, offset: i64, end: i64) -> tuple[i64, i64]:
    """The ethertype that the address family at `offset` stands for, and the index after it."""
    if offset + 4 > end:
        return CUT, end
    family: i64 = i64(read_i32_le(data, offset))
    if family < 0 or family > 0xFFFF:
        family = i64(read_i32_be(data, offset))
    if family == AF_INET:
        return ETHERTYPE_IPV4, offset + 4
    return (ETHERTYPE_IPV6 if family in AF_INET6 else OTHER_FAMILY), offset + 4
