"""Segments → packets made anew: IP and TCP headers, and the payload of a `Plan`.

Nothing of the captured packet is copied but what is named here. Of lower layers (MAC addresses,
VLANs, tunnels), of IP options and of unknown TCP options nothing is left: packets are of link type
RAW. IP fragments become the one packet that they were. Payload that cannot be anonymized, as of
TLS, is cut off as by a snaplen.

    IPv4    length, identification, addresses          TCP    ports, numbers, flags, window,
    IPv6    length, addresses                                 options of `KEPT_OPTIONS`
"""

import struct
from bisect import bisect_right
from collections.abc import Iterable
from typing import IO, Final

from kdissect.capture.blocks import Block
from kdissect.capture.format_context import PcapLayout
from kdissect.capture.packet import Packet
from kdissect.capture.packet_writer import (
    LARGEST_SNAP_LENGTH,
    Copier,
    PcapCopier,
    PcapngCopier,
)
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.segment import Segment, flow_of
from kdissect.slicing.packet_selection import Marks
from kdissect.slicing.redacting import ZEROED, Plan, Stream
from kdissect.slicing.rewriting import filled, folded, overlapping, words
from kdissect.streams.sequence import distance
from kdissect.system.version import __version__
from kdissect.text.pseudonyms import Cipher

RAW: Final = 101  # LINKTYPE_RAW: a packet starts with its IP header
IPV4_FLOW: Final = 12
IPV4_SIZE: Final = 20
IPV6_SIZE: Final = 40
TCP_SIZE: Final = 20
HOPS: Final = 64
TCP: Final = 6
DONT_FRAGMENT: Final = 0x4000
LARGEST: Final = 0xFFFF
CHECKSUM_AT: Final = 16
END: Final = 0
NOP: Final = 1
# Maximum segment size, window scale, SACK permitted, SACK, timestamps.
KEPT_OPTIONS: Final = frozenset({2, 3, 4, 5, 8})


class MadeAnew:
    """What a `PcapngCopier` asks of a capture: one interface, and no blocks that were read."""

    def __init__(self, count: int) -> None:
        self.names = [""] * count

    def layout(self, capture: int) -> PcapLayout:
        """The interface of all packets."""
        return PcapLayout(False, 1, 16, LARGEST_SNAP_LENGTH, RAW)

    def take_blocks(self, capture: int) -> list[Block]:
        """None."""
        return []


def anonymous_copier(file: IO[bytes], captures: int, is_pcapng: bool) -> Copier:
    """Writes packets made anew."""
    if not is_pcapng:
        return PcapCopier(file)
    text = "kdissect: an anonymized slice"
    return PcapngCopier(file, MadeAnew(captures), text, f"kdissect {__version__}", False)


def write_all(copier: Copier, packets: Iterable[Packet]) -> None:
    """Write packets, with their frame number as a comment."""
    for packet in packets:
        copier.write(packet, f"kdissect: frame {packet.number}")


class Rebuilder:
    """Call `packets` for all packets of the captures in order; counts special selected packets.

    `tls_packets` and `unknown_packets`, of connections without Kafka or with that before 0.8, are
    written without payload. `zeroed` frames have zeros behind their header.
    """

    def __init__(self, plan: Plan, cipher: Cipher, marks: Marks) -> None:
        self._decoder = PacketDecoder()
        self._plan = plan
        self._cipher = cipher
        self._marks = marks
        self._addresses: dict[bytes, bytes] = {}
        self._ids = {
            flow: [one.connection_id for one in all_] for flow, all_ in plan.streams.items()
        }
        # By stream: highest position of its segments so far, to tell positions 4 GiB apart.
        self._latest: dict[Stream, int] = {}
        self._zeroed: set[tuple[int, int, int]] = set()
        self.tls_packets = 0
        self.unknown_packets = 0

    @property
    def zeroed(self) -> int:
        return len(self._zeroed)

    def packets(self, packet: Packet) -> list[Packet]:
        """The packets to be written, of this one and of those that it completes."""
        segment = self._decoder.decode_next(packet)
        late, self._decoder.late = self._decoder.late, []
        self._decoder.problems.clear()
        segments = [*late, segment] if segment is not None else late
        return [self._packet(one) for one in segments if one.ordinal in self._marks]

    def finish(self) -> list[Packet]:
        """Packets of which fragments are missing."""
        self._decoder.finish()
        late, self._decoder.late = self._decoder.late, []
        return [self._packet(one) for one in late if one.ordinal in self._marks]

    def _packet(self, segment: Segment) -> Packet:
        declared, flow = int(segment.payload_length), bytes(flow_of(segment))
        payload = self._payload(segment, flow)
        tcp = tcp_header(segment, flow)
        half = 4 if len(flow) == IPV4_FLOW else 16
        addresses = self._address(flow[:half]) + self._address(flow[half : 2 * half])
        if len(payload) == declared:
            check = checksum(addresses, tcp + payload)
            tcp = tcp[:CHECKSUM_AT] + check.to_bytes(2, "big") + tcp[CHECKSUM_AT + 2 :]
        header = ip_header(addresses, len(tcp) + declared, int(segment.ip_id))
        data = header + tcp + payload
        return Packet(
            segment.number, segment.time_ns, RAW, data, 0, len(data),
            len(header) + len(tcp) + declared, segment.ordinal, segment.capture,
        )  # fmt: skip

    def _address(self, address: bytes) -> bytes:
        if address not in self._addresses:
            self._addresses[address] = self._cipher.address(address)
        return self._addresses[address]

    def _payload(self, segment: Segment, flow: bytes) -> bytes:
        """The captured part of a payload, anonymized."""
        payload = bytes(segment.data[segment.start : segment.end])
        if not payload:
            return b""
        stream = self._stream(segment, flow)
        if stream is None or stream.is_tls or stream.is_dropped or not stream.kept:
            is_tls = stream is not None and stream.is_tls
            self.tls_packets += is_tls
            self.unknown_packets += not is_tls
            return b""
        latest = self._latest.get(stream, 0)
        start = latest + int(distance(segment.sequence, stream.base + latest & 0xFFFFFFFF))
        self._latest[stream] = max(latest, start)
        for one in overlapping(stream.kept, start, start + len(payload)):
            if one.kind == ZEROED:
                self._zeroed.add((stream.connection_id, stream.base, one.start))
        return filled(stream.kept, start, payload)

    def _stream(self, segment: Segment, flow: bytes) -> Stream | None:
        streams = self._plan.streams.get(flow)
        if streams is None:
            return None
        return streams[max(0, bisect_right(self._ids[flow], int(segment.ordinal)) - 1)]


def ip_header(addresses: bytes, size: int, ip_id: int) -> bytes:
    """The header of a packet of `size` bytes behind it; 0 is written for a size that has no room.

    So do captures of segments that the network card will cut.
    """
    if len(addresses) > 8:
        return struct.pack(">IHBB", 6 << 28, size if size <= LARGEST else 0, TCP, HOPS) + addresses
    total = size + IPV4_SIZE if size + IPV4_SIZE <= LARGEST else 0
    fixed = struct.pack(">BBHHHBB", 0x45, 0, total, max(ip_id, 0), DONT_FRAGMENT, HOPS, TCP)
    check = ~folded(words(fixed + addresses)) & 0xFFFF
    return fixed + check.to_bytes(2, "big") + addresses


def tcp_header(segment: Segment, flow: bytes) -> bytes:
    """Header with a checksum of 0."""
    options = kept_options(bytes(segment.data[segment.header + TCP_SIZE : segment.start]))
    return flow[-4:] + struct.pack(
        ">IIBBHHH", segment.sequence, segment.acknowledgment, (TCP_SIZE + len(options)) // 4 << 4,
        segment.flags, segment.window, 0, 0,
    ) + options  # fmt: skip


def kept_options(options: bytes) -> bytes:
    """The options with others than `KEPT_OPTIONS` replaced by no-operations."""
    made = bytearray(b"\1" * (len(options) - len(options) % 4))
    at = 0
    while at + 1 < len(options) and options[at] != END:
        if options[at] == NOP:
            at += 1
            continue
        size = options[at + 1]
        if size < 2 or at + size > len(made):
            break
        if options[at] in KEPT_OPTIONS:
            made[at : at + size] = options[at : at + size]
        at += size
    return bytes(made)


def checksum(addresses: bytes, tcp: bytes) -> int:
    """The checksum of a TCP segment (RFC 9293, 3.1)."""
    if len(addresses) == 8:
        pseudo = addresses + bytes([0, TCP]) + (len(tcp) & LARGEST).to_bytes(2, "big")
    else:
        pseudo = addresses + len(tcp).to_bytes(4, "big") + bytes([0, 0, 0, TCP])
    return ~folded(words(pseudo) + words(tcp)) & 0xFFFF
