"""Packet → Segment: find the TCP segments and count the other packets by type.

    link layer ─▶ (tag, label, PPP …) ─▶ IP ─▶ (tunnel ─▶ …) ─▶ TCP
                                         └─ fragments, reassembled

Independent of streams: a segment is returned as captured, including duplicates. Only headers are
read. A packet without a segment, or with one that cannot be parsed, is counted by reason, and is
not a `Problem`.

Longer than other modules: the path of rare packets is next to that of common ones.
"""

from ipaddress import ip_address
from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from kdissect.packets.fragments import NEVER, Fragments, Whole, without_data
from kdissect.packets.ip import (
    CUT,
    TCP,
    WELL_FORMED,
    IpHeader,
    read_ipv4,
    read_ipv6,
    skip_extensions,
)
from kdissect.packets.link import CUT as LINK_CUT
from kdissect.packets.link import (
    ETHERNET,
    ETHERNET_FRAME,
    ETHERTYPE_BACKBONE,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_LLC,
    ETHERTYPE_MPLS,
    ETHERTYPE_MPLS_MULTICAST,
    ETHERTYPE_PPPOE,
    MALFORMED,
    NO_TUNNEL,
    OTHER_FAMILY,
    OTHER_LLC,
    OTHER_PPP,
    SMALLEST_ETHERTYPE,
    UNKNOWN_LINK_TYPE,
    read_ethertype,
    read_link,
    read_llc,
)
from kdissect.packets.segment import Segment, copied
from kdissect.packets.tcp import TCP_HEADER_SIZE, U32, read_tcp
from kdissect.packets.tunnels import read_mpls, read_pppoe, read_tunnel
from kdissect.packets.wireless import AGGREGATE, ENCRYPTED, FRAGMENT, LLC_FRAME, NO_DATA

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
# VXLAN in MPLS in PPPoE with tags is 8; the bound only limits the cost of hostile packets.
MAXIMUM_LAYERS: Final = 16
# An IP packet of 64 KiB in fragments of 8 bytes.
MAXIMUM_NOTED: Final = 8192

# Reasons why a packet has no segment, in addition to the names of other protocols.
CUT_HEADER: Final = "headers cut off"
MALFORMED_HEADER: Final = "malformed headers"
IP_FRAGMENT: Final = "IP fragment"
TOO_DEEP: Final = "too many tunnels in each other"
KIND_REASONS: Final = {
    LINK_CUT: CUT_HEADER,
    OTHER_FAMILY: "no IP",
    MALFORMED: MALFORMED_HEADER,
    NO_TUNNEL: "no IP",
    OTHER_PPP: "PPP",
    OTHER_LLC: "IEEE 802.3",
    ENCRYPTED: "802.11 encrypted",
    NO_DATA: "802.11 without data",
    FRAGMENT: "802.11 fragment",
}

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


class PacketDecoder:
    """Decodes the `Segment` of each packet that has one; `problems` is drained by the caller.

    `late` are segments that precede the one just returned, and are drained by the caller too: of IP
    packets with missing fragments, and of frames that hold several. With `notes_fragments`,
    `fragments_of` are the ordinals of all packets with fragments of a reassembled one, by the
    ordinal of its segment; drained by the caller.
    """

    __slots__ = (
        "problems", "late", "fragments", "_fragments", "_due_ns", "_reasons", "unknown_link_types",
        "_common", "notes_fragments", "fragments_of",
    )  # fmt: skip

    def __init__(self, fragments: Fragments | None = None) -> None:
        self.problems: list[Problem] = []
        self.late: list[Segment] = []
        # IP fragments seen so far, and whether some wait for others.
        self.fragments: i64 = 0
        self.notes_fragments = False
        self.fragments_of: dict[int, list[int]] = {}
        self._fragments = Fragments() if fragments is None else fragments
        self._due_ns: i64 = NEVER
        self._reasons: dict[str, int] = {}
        self.unknown_link_types: set[int] = set()
        # Results for common packets, reused for each.
        self._common = Segment(0, 0, 0, 0, b"", 0, 0, 0, 0, b"", 0, 0, 0, 0, 0)

    def feed(self, packets: list[Packet]) -> list[Segment]:
        """The segments of the packets, in order."""
        segments: list[Segment] = []
        for packet in packets:
            segment = self.decode(packet)
            if self.late:
                segments += self.late
                self.late = []
            if segment is not None:
                segments.append(segment)
        return segments

    def reasons(self) -> dict[str, int]:
        """Number of packets without a segment, by reason: a protocol or an error."""
        return {reason: count for reason, count in self._reasons.items() if count > 0}

    def decode(self, packet: Packet) -> Segment | None:
        """Segment of the packet; None, and counted, if it has none."""
        segment = self.decode_next(packet)
        return copied(segment) if segment is self._common else segment

    def decode_next(self, packet: Packet) -> Segment | None:
        """Like `decode`, but the next call may overwrite the segment: copy it to keep it."""
        data = packet.data
        start = packet.start
        end = packet.end
        if (
            packet.link_type != ETHERNET
            or end - start < COMMON_SIZE
            or packet.time_ns >= self._due_ns
        ):
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
        # Bytes after the IP packet are padding or a frame check sequence.
        captured_end = end if end < payload_end else payload_end
        # An object for each packet would cost a tenth of all work on it.
        segment = self._common
        segment.number = packet.number
        segment.ordinal = packet.ordinal
        segment.capture = packet.capture
        segment.time_ns = packet.time_ns
        segment.flow = b""
        segment.sequence = numbers >> 32 & U32
        segment.acknowledgment = numbers & U32
        segment.flags = rest >> 48 & 0xFF
        segment.window = rest >> 32 & 0xFFFF
        segment.data = data
        segment.start = payload_start if payload_start < captured_end else captured_end
        segment.end = captured_end
        segment.payload_length = payload_end - payload_start
        segment.header = start + TCP_OFFSET
        segment.ip_id = network & 0xFFFF
        segment.addresses = read_i64_be(data, start + 26)
        segment.ports = read_i64_be(data, start + 30) & U32
        return segment

    def decode_rare(self, packet: Packet) -> Segment | None:
        """Like `decode`, for every packet: any link layer, tunnel, IP version, options, lengths."""
        if packet.time_ns >= self._due_ns:
            self._give_up(packet.time_ns)
        kind, offset = read_link(packet.data, packet.start, packet.end, packet.link_type)
        if kind == UNKNOWN_LINK_TYPE:
            self._note_link_type(packet)
        wire_end = packet.start + packet.original_length
        return self._network(packet, kind, offset, packet.end, wire_end, 0)

    def is_waiting(self) -> bool:
        """Return whether fragments wait for others."""
        return self._fragments.cost > 0

    @property
    def waiting(self) -> Fragments:
        """IP packets that wait for fragments."""
        return self._fragments

    def take_in(self, fragments: Fragments) -> None:
        """Continue with the fragments of another decoder."""
        self._fragments = fragments
        self._due_ns = fragments.due_ns

    def finish(self) -> None:
        """End of the capture: the segments of packets with missing fragments become `late`."""
        self._give_up(NEVER)

    def _network(
        self, packet: Packet, kind: i64, offset: i64, end: i64, wire_end: i64, layers: i64
    ) -> Segment | None:
        """Segment in the layer of type `kind` at `offset`: layers below IP, then IP.

        Captured data ends at `end`, data on the wire at `wire_end`.
        """
        data = packet.data
        while kind != ETHERTYPE_IPV4 and kind != ETHERTYPE_IPV6:
            layers += 1
            if layers > MAXIMUM_LAYERS:
                return self._count(TOO_DEEP)
            if kind == ETHERNET_FRAME:
                kind, offset = read_ethertype(data, offset + 12, end)
            elif kind == ETHERTYPE_BACKBONE:
                kind, offset = read_ethertype(data, offset + 4 + 12, end)
            elif kind in (ETHERTYPE_MPLS, ETHERTYPE_MPLS_MULTICAST):
                kind, offset = read_mpls(data, offset, end, wire_end)
                if kind == NO_TUNNEL:
                    return self._count("MPLS")
            elif kind == ETHERTYPE_PPPOE:
                kind, offset = read_pppoe(data, offset, end)
                if kind == NO_TUNNEL:
                    return self._count("PPPoE")
            elif 0 <= kind < SMALLEST_ETHERTYPE or kind == ETHERTYPE_LLC:
                kind, offset = read_llc(data, offset, end)
            elif kind == AGGREGATE:
                return self._aggregate(packet, offset, end, wire_end, layers)
            else:
                return self._count(reason_of(kind, packet.link_type))
        return self._ip(packet, kind, offset, end, wire_end, layers + 1)

    def _ip(
        self, packet: Packet, kind: i64, offset: i64, end: i64, wire_end: i64, layers: i64
    ) -> Segment | None:
        if kind == ETHERTYPE_IPV4:
            header = read_ipv4(packet.data, offset, end, wire_end)
            ip_id = header.identification
        else:
            header = read_ipv6(packet.data, offset, end, wire_end)
            ip_id = -1
        if header.verdict != WELL_FORMED:
            return self._count(CUT_HEADER if header.verdict == CUT else MALFORMED_HEADER)
        if header.is_fragment:
            return self._fragment(packet, header, ip_id, end, layers)
        return self._transport(packet, header, ip_id, end, layers)

    def _transport(
        self, packet: Packet, header: IpHeader, ip_id: i64, end: i64, layers: i64
    ) -> Segment | None:
        """Segment in the payload of a whole IP packet, or in the tunnel there."""
        protocol = header.protocol
        start = header.payload_start
        wire_end = header.payload_end
        if protocol == TCP:
            if start + TCP_HEADER_SIZE > end:
                return self._count(CUT_HEADER if wire_end > end else MALFORMED_HEADER)
            segment = read_tcp(packet, header.addresses, start, wire_end, ip_id)
            return self._count(MALFORMED_HEADER) if segment is None else segment
        # Bytes after the IP packet are padding or a frame check sequence.
        end = min(end, wire_end)
        kind, offset = read_tunnel(packet.data, protocol, start, end, wire_end)
        if kind == NO_TUNNEL:
            return self._count(PROTOCOL_NAMES.get(protocol, f"IP protocol {protocol}"))
        if layers >= MAXIMUM_LAYERS:
            return self._count(TOO_DEEP)
        return self._network(packet, kind, offset, end, wire_end, layers)

    def _fragment(
        self, packet: Packet, header: IpHeader, ip_id: i64, end: i64, layers: i64
    ) -> Segment | None:
        """Segment of the IP packet that this fragment completes."""
        self.fragments += 1
        fragments = self._fragments
        addresses = header.addresses
        start = header.payload_start
        length = header.payload_end - start
        if start > end:
            # Options or extension headers were truncated: a slice of negative length is an error.
            return self._count(CUT_HEADER)
        data = packet.data[start : min(end, header.payload_end)]
        identity = f"{header.protocol} {header.identification} {layers}"
        key = identity.encode() + addresses
        whole = fragments.find(key, addresses, header.protocol, ip_id, layers, packet)
        is_complete = fragments.add(
            whole, header.fragment_offset, length, data, header.has_more, packet
        )
        self._due_ns = fragments.due_ns
        if self.notes_fragments and len(whole.ordinals) < MAXIMUM_NOTED:
            whole.ordinals.append(packet.ordinal)
        if not is_complete:
            self._count(IP_FRAGMENT)
            if fragments.is_full():
                self._give_up(packet.time_ns)
            return None
        segment = self._reassembled(packet, whole)
        fragments.free(whole)
        return segment

    def _reassembled(self, packet: Packet, whole: Whole) -> Segment | None:
        """Segment in the available data of an IP packet; `packet` supplies number and time."""
        data = whole.captured()
        size = whole.declared_size()
        made = without_data(packet, data, size)
        if self.notes_fragments:
            self._note_fragments(packet.ordinal, whole)
        header = IpHeader(WELL_FORMED)
        header.addresses = whole.addresses
        header.protocol = whole.protocol
        header.payload_end = size
        skip_extensions(header, data, len(data))
        if header.verdict != WELL_FORMED or header.is_fragment:
            return self._count(MALFORMED_HEADER)
        return self._transport(made, header, whole.ip_id, len(data), whole.layers)

    def _note_fragments(self, ordinal: i64, whole: Whole) -> None:
        """Note the packets of a reassembled packet, which may be reassembled themselves."""
        together = self.fragments_of.setdefault(ordinal, [])
        for other in whole.ordinals:
            together.append(other)
            if other != ordinal:
                together += self.fragments_of.pop(other, [])

    def _give_up(self, now: i64) -> None:
        """Add the available data of IP packets that wait too long to the late segments."""
        fragments = self._fragments
        for whole in fragments.take_overdue(now):
            held: i64 = 0
            for piece in whole.pieces:
                held += len(piece.data)
            given: i64 = len(whole.captured())
            half = len(whole.addresses) // 2
            text = (
                f"IP packet from {ip_address(whole.addresses[:half])} to "
                f"{ip_address(whole.addresses[half:])} lacks fragments: {given} of {held} bytes "
                "captured are before the first hole"
            )
            # Its fragments have been counted individually.
            reasons, self._reasons = self._reasons, {}
            segment = self._reassembled(whole.packet, whole) if given else None
            self._reasons = reasons
            if whole.protocol == TCP or segment is not None:
                fragments.report("ip-fragment", text, whole.packet, held - given)
            if segment is not None:
                self.late.append(segment)
                self._reasons[IP_FRAGMENT] -= 1
        self._due_ns = fragments.due_ns
        if fragments.problems:
            self.problems += fragments.problems
            fragments.problems = []

    def _aggregate(
        self, packet: Packet, offset: i64, end: i64, wire_end: i64, layers: i64
    ) -> Segment | None:
        """Last segment of the frames aggregated in an 802.11 frame; others become late."""
        found: Segment | None = None
        if offset + 14 > end:
            return self._count(CUT_HEADER)
        while offset + 14 <= end:
            length: i64 = packet.data[offset + 12] << 8 | packet.data[offset + 13]
            start = offset + 14
            stop = min(start + length, end)
            segment = self._network(
                packet, LLC_FRAME, start, stop, min(start + length, wire_end), layers
            )
            if found is not None:
                self.late.append(found)
            found = segment
            # Padding aligns each start to 4 bytes.
            offset += (14 + length + 3) & ~3
        return found

    def _count(self, reason: str) -> Segment | None:
        """Count a packet by the reason why it has no segment; returns None."""
        self._reasons[reason] = self._reasons.get(reason, 0) + 1
        return None

    def _note_link_type(self, packet: Packet) -> None:
        link_type = packet.link_type
        if link_type not in self.unknown_link_types:
            self.unknown_link_types.add(link_type)
            message = f"packets of link type {link_type} are not looked into"
            self._report("unknown-link-type", message, packet)

    def _report(self, kind: str, message: str, packet: Packet) -> None:
        self.problems.append(
            Problem(
                "packets",
                kind,
                message,
                packet.time_ns,
                packet.number,
                capture=packet.capture,
            )
        )


def reason_of(kind: i64, link_type: i64) -> str:
    """Reason why a packet has no segment: the protocol found in place of IP."""
    if kind == UNKNOWN_LINK_TYPE:
        return f"link type {link_type}"
    if kind < 0:
        return KIND_REASONS[kind]
    return ETHERTYPE_NAMES.get(kind, f"ethertype 0x{kind:04x}")
