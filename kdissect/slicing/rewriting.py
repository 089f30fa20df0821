"""Packets → the same packets with only the payload that a `Plan` keeps.

Only TCP payload changes, and the checksum over it where it was valid before: an invalid one,
as with checksum offload, stays as it is. A packet is changed in place; packets that
cannot be (fragments of IP packets, which are reassembled for reading) are left out.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import Final

from kdissect.capture.packet import Packet
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.segment import Segment, flow_of
from kdissect.slicing.redacting import MASKED, WHOLE, ZEROED, Kept, Plan, Stream
from kdissect.streams.sequence import distance

TCP: Final = 6
CHECKSUM_AT: Final = 16
IPV4_FLOW: Final = 12
PORTS: Final = 4


class Rewriter:
    """Call `rewritten` for all packets of the captures in order; counts special selected packets.

    `masked` frames had credentials, `zeroed` ones have zeros after their header, as the place of
    credentials is unknown; `tls_packets` are unchanged, `left_out` are not written.
    """

    def __init__(self, plan: Plan) -> None:
        self._decoder = PacketDecoder()
        self._plan = plan
        self._ids = {
            flow: [one.connection_id for one in all_] for flow, all_ in plan.streams.items()
        }
        # By stream: highest position of its segments so far, to tell positions 4 GiB apart.
        self._latest: dict[Stream, int] = {}
        self._seen: dict[int, set[tuple[int, int, int]]] = {MASKED: set(), ZEROED: set()}
        self.tls_packets = 0
        self.left_out = 0

    @property
    def masked(self) -> int:
        return len(self._seen[MASKED])

    @property
    def zeroed(self) -> int:
        return len(self._seen[ZEROED])

    def rewritten(self, packet: Packet, is_chosen: bool) -> bytes | None:
        """The packet's bytes to be written; None when it is left out."""
        segment = self._decoder.decode_next(packet)
        self._decoder.late.clear()
        self._decoder.problems.clear()
        if not is_chosen:
            return None
        if segment is None or segment.data is not packet.data:
            self.left_out += 1
            return None
        frame = packet.data[packet.start : packet.end]
        payload = packet.data[segment.start : segment.end]
        if not payload:
            return frame
        stream = self._stream(segment)
        if stream is not None and stream.is_tls:
            self.tls_packets += 1
            return frame
        new = bytes(len(payload)) if stream is None else self._kept(stream, segment, payload)
        return frame if new == payload else changed(packet, segment, new)

    def _stream(self, segment: Segment) -> Stream | None:
        flow = bytes(flow_of(segment))
        streams = self._plan.streams.get(flow)
        if streams is None:
            return None
        return streams[max(0, bisect_right(self._ids[flow], int(segment.ordinal)) - 1)]

    def _kept(self, stream: Stream, segment: Segment, payload: bytes) -> bytes:
        latest = self._latest.get(stream, 0)
        start = latest + int(distance(segment.sequence, stream.base + latest & 0xFFFFFFFF))
        self._latest[stream] = max(latest, start)
        for one in overlapping(stream.kept, start, start + len(payload)):
            if one.kind != WHOLE:
                self._seen[one.kind].add((stream.connection_id, stream.base, one.start))
        return filled(stream.kept, start, payload)


def overlapping(kept: list[Kept], start: int, end: int) -> Iterator[Kept]:
    """Ranges that have positions from `start` to `end`, of an ordered list."""
    first = max(0, bisect_right(kept, start, key=lambda one: one.start) - 1)
    for one in islice(kept, first, None):
        if one.start >= end:
            return
        if one.end > start:
            yield one


def filled(kept: list[Kept], start: int, payload: bytes) -> bytes:
    """A payload at stream position `start`: the kept ranges, the patches, and zeros."""
    made = bytearray(len(payload))
    for one in overlapping(kept, start, start + len(payload)):
        low, high = max(0, one.start - start), min(len(made), one.end - start)
        made[low:high] = payload[low:high]
        for patch in one.patches:
            at = patch.start - start
            low, high = max(0, at), min(len(made), at + len(patch.data))
            if low < high:
                made[low:high] = patch.data[low - at : high - at]
    return bytes(made)


def changed(packet: Packet, segment: Segment, payload: bytes) -> bytes:
    """The packet with another payload, and a valid checksum where it was valid."""
    frame = bytearray(packet.data[packet.start : packet.end])
    header = int(segment.header - packet.start)
    at = int(segment.start - packet.start)
    end = at + len(payload)
    is_whole = segment.payload_length == len(payload)
    was_right = is_whole and checksum(segment, frame[header:end]) == 0
    frame[at:end] = payload
    if was_right:
        place = header + CHECKSUM_AT
        frame[place : place + 2] = bytes(2)
        frame[place : place + 2] = checksum(segment, frame[header:end]).to_bytes(2, "big")
    return bytes(frame)


def checksum(segment: Segment, tcp: bytes | bytearray) -> int:
    """The checksum of a TCP segment (RFC 9293, 3.1); 0 when the present one is valid."""
    addresses = bytes(flow_of(segment))[:-PORTS]
    is_ipv4 = len(addresses) + PORTS == IPV4_FLOW
    size = len(tcp).to_bytes(2 if is_ipv4 else 4, "big")
    pseudo = addresses + (bytes([0, TCP]) + size if is_ipv4 else size + bytes([0, 0, 0, TCP]))
    return ~folded(words(pseudo) + words(tcp)) & 0xFFFF


def words(data: bytes | bytearray) -> int:
    """The sum of its 16-bit words."""
    padded = bytes(data) + bytes(len(data) % 2)
    return sum(int.from_bytes(padded[at : at + 2], "big") for at in range(0, len(padded), 2))


def folded(total: int) -> int:
    """Ones' complement sum, folded to 16 bits."""
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total
