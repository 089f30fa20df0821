"""Packet → Segment: finds the TCP segments and counts what the other packets are.

Knows nothing of streams: a segment is given as it was captured, duplicates and all. Only headers
are read. IP fragments are not put together: the first one is given as a segment with the payload
it holds, the others become a `Problem`.
"""

from ipaddress import ip_address
from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from kdissect.packets.ip import CUT, TCP, WELL_FORMED, IpHeader, read_ipv4, read_ipv6
from kdissect.packets.link import CUT as LINK_CUT
from kdissect.packets.link import (
    ETHERNET,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    OTHER_FAMILY,
    UNKNOWN_LINK_TYPE,
    read_link,
)
from kdissect.packets.segment import Segment
from kdissect.packets.tcp import TCP_HEADER_SIZE, U32, read_tcp

# Ethernet, IPv4 and TCP headers without options.
ETHERNET_HEADER_SIZE: Final = 14
TCP_OFFSET: Final = 34
COMMON_SIZE: Final = 54
# Bytes 12-19: ethertype IPv4, IP version 4 and header of 20 bytes, (type of service, total length,
# identification).
COMMON_NETWORK: Final = 0x080045
# Bytes 20-27: no fragment, (time to live,) protocol TCP, (checksum, half the source).
COMMON_PROTOCOL_MASK: Final = 0x3FFF00FF00000000
COMMON_PROTOCOL: Final = 0x0000000600000000
# Problems of one kind that are given before they are only counted.
MAXIMUM_PROBLEMS: Final = 16

# Reasons why a packet gave no segment, beside the names of other protocols.
CUT_HEADER: Final = "headers cut off"
MALFORMED_HEADER: Final = "malformed headers"
IP_FRAGMENT: Final = "IP fragment"

ETHERTYPE_NAMES: Final = {
    0x0806: "ARP",
    0x8035: "RARP",
    0x8847: "MPLS",
    0x8848: "MPLS",
    0x8863: "PPPoE",
    0x8864: "PPPoE",
    0x88CC: "LLDP",
    0x88E5: "MACsec",
    0x8906: "FCoE",
    0x8915: "RoCE",
}
PROTOCOL_NAMES: Final = {
    1: "ICMP",
    2: "IGMP",
    4: "IP in IP",
    17: "UDP",
    41: "IPv6 in IP",
    47: "GRE",
    50: "ESP",
    58: "ICMPv6",
    59: "IPv6 without payload",
    89: "OSPF",
    103: "PIM",
    112: "VRRP",
    132: "SCTP",
}
# Below, the ethertype field is the length of an IEEE 802.3 frame.
SMALLEST_ETHERTYPE: Final = 0x0600


class PacketDecoder:
    """Makes a `Segment` of each packet that holds one; `problems` is drained by the user."""

    __slots__ = ("problems", "_reasons", "_unknown_link_types")

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._reasons: dict[str, int] = {}
        self._unknown_link_types: set[int] = set()

    def feed(self, packets: list[Packet]) -> list[Segment]:
        """The segments of the packets, in their order."""
        segments: list[Segment] = []
        for packet in packets:
            segment = self.decode(packet)
            if segment is not None:
                segments.append(segment)
        return segments

    def reasons(self) -> dict[str, int]:
        """How many packets gave no segment, by what they were: a protocol or what is wrong."""
        return dict(self._reasons)

    def decode(self, packet: Packet) -> Segment | None:
        """The packet's segment; None, and counted, when it holds none."""
        data = packet.data
        start = packet.start
        end = packet.end
        if packet.link_type != ETHERNET or end - start < COMMON_SIZE:
            return self.decode_rare(packet)
        network = read_i64_be(data, start + 12)
        payload_end = start + ETHERNET_HEADER_SIZE + (network >> 16 & 0xFFFF)
        rest = read_i64_be(data, start + 46)
        payload_start = start + TCP_OFFSET + ((rest >> 60 & 0x0F) << 2)
        if (
            network >> 40 & 0xFFFFFF != COMMON_NETWORK
            or read_i64_be(data, start + 20) & COMMON_PROTOCOL_MASK != COMMON_PROTOCOL
            or payload_start < start + COMMON_SIZE
            or payload_start > payload_end
        ):
            return self.decode_rare(packet)
        numbers = read_i64_be(data, start + 38)
        # Bytes behind the IP packet are padding or a frame check sequence.
        captured_end = end if end < payload_end else payload_end
        return Segment(
            packet.number,
            packet.ordinal,
            packet.capture,
            packet.time_ns,
            data[start + 26 : start + 38],
            numbers >> 32 & U32,
            numbers & U32,
            rest >> 48 & 0xFF,
            rest >> 32 & 0xFFFF,
            data,
            payload_start if payload_start < captured_end else captured_end,
            captured_end,
            payload_end - payload_start,
            start + TCP_OFFSET,
            network & 0xFFFF,
        )

    def decode_rare(self, packet: Packet) -> Segment | None:
        """The same for every packet: any link layer, IP version, options and lengths."""
        data = packet.data
        end = packet.end
        ethertype, offset = read_link(data, packet.start, end, packet.link_type)
        if ethertype == ETHERTYPE_IPV4:
            header = read_ipv4(data, offset, end, packet.start + packet.original_length)
        elif ethertype == ETHERTYPE_IPV6:
            header = read_ipv6(data, offset, end, packet.start + packet.original_length)
        else:
            self._count_link(packet, ethertype)
            return None
        if header.verdict != WELL_FORMED:
            self._count(CUT_HEADER if header.verdict == CUT else MALFORMED_HEADER)
            return None
        if header.is_fragment and header.fragment_offset > 0:
            self._count_fragment(packet, header)
            return None
        if header.protocol != TCP:
            protocol = header.protocol
            self._count(PROTOCOL_NAMES.get(protocol, f"IP protocol {protocol}"))
            return None
        if header.payload_start + TCP_HEADER_SIZE > end:
            is_cut = header.payload_end > end
            self._count(CUT_HEADER if is_cut else MALFORMED_HEADER)
            return None
        segment = read_tcp(
            packet,
            header.addresses,
            header.payload_start,
            header.payload_end,
            header.identification,
        )
        if segment is None:
            self._count(MALFORMED_HEADER)
        return segment

    def _count(self, reason: str) -> None:
        self._reasons[reason] = self._reasons.get(reason, 0) + 1

    def _count_link(self, packet: Packet, ethertype: i64) -> None:
        """Count a packet that holds no IP by what its link layer says."""
        if ethertype == LINK_CUT:
            self._count(CUT_HEADER)
        elif ethertype == UNKNOWN_LINK_TYPE:
            link_type = packet.link_type
            self._count(f"link type {link_type}")
            if link_type not in self._unknown_link_types:
                self._unknown_link_types.add(link_type)
                message = f"packets of link type {link_type} are not looked into"
                self._report("unknown-link-type", message, packet)
        elif ethertype == OTHER_FAMILY:
            self._count("no IP")
        elif ethertype < SMALLEST_ETHERTYPE:
            self._count("IEEE 802.3")
        else:
            self._count(ETHERTYPE_NAMES.get(ethertype, f"ethertype 0x{ethertype:04x}"))

    def _count_fragment(self, packet: Packet, header: IpHeader) -> None:
        """Count a fragment that is not the first of its IP packet; its bytes are a loss."""
        self._count(IP_FRAGMENT)
        if header.protocol == TCP and self._reasons[IP_FRAGMENT] <= MAXIMUM_PROBLEMS:
            addresses = header.addresses
            half = len(addresses) // 2
            size = header.payload_end - header.payload_start
            message = (
                f"IP fragment of {size} bytes at {header.fragment_offset} from "
                f"{ip_address(addresses[:half])} to {ip_address(addresses[half:])} is not put "
                "together with the others"
            )
            self._report("ip-fragment", message, packet, size)

    def _report(self, kind: str, message: str, packet: Packet, size: i64 = 0) -> None:
        self.problems.append(
            Problem(
                "packets",
                kind,
                message,
                packet.time_ns,
                packet.number,
                size,
                capture=packet.capture,
            )
        )
