"""Selection of the packets of ranges, as a bit for each packet of the captures.

Input: packets in order. Beside the packets of a connection within its ranges, these belong to a
range: all IP fragments of such a packet; earlier segments with bytes beyond the range's first
segment, and later segments with bytes before its last one. Early segments are searched only
behind a gap, so few are held, and at most LOOK_BACK of a direction.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from itertools import islice
from typing import Final

from kdissect.capture.packet import Packet
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.segment import Segment, flow_of
from kdissect.slicing.ranges import Endpoints, Ranges
from kdissect.streams.clock import WRONG, Clock
from kdissect.streams.connections import own_copy

# Segments of one direction that may follow a late one: 1 MiB at an MSS of 1448 is 724.
LOOK_BACK: Final = 1024
HALF: Final = 1 << 31
MASK: Final = (1 << 32) - 1
# Reassembled fragmented packets that are remembered; the oldest are evicted.
MAXIMUM_NOTES: Final = 4096


class Marks:
    """A set of packets, by their ordinals."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self.count = 0

    def __contains__(self, ordinal: int) -> bool:
        at = ordinal >> 3
        return at < len(self._bits) and bool(self._bits[at] >> (ordinal & 7) & 1)

    def add(self, ordinal: int) -> None:
        """Add a packet to the set, if not in it."""
        if ordinal in self:
            return
        at = ordinal >> 3
        if at >= len(self._bits):
            self._bits += bytes(at + 1 - len(self._bits))
        self._bits[at] |= 1 << (ordinal & 7)
        self.count += 1


class _Direction:
    """Sequence numbers of one direction, to find segments too early or too late for a range."""

    __slots__ = ("_next", "_early", "_low", "_high", "_is_inside")

    def __init__(self) -> None:
        # The sequence number after all in-order bytes, -1 while there are none; and the segments
        # behind a gap there, outside ranges: start, end, ordinal.
        self._next = -1
        self._early: list[tuple[int, int, int]] = []
        # Start and end of the segments of the last range, -1 while there was none.
        self._low = self._high = -1
        self._is_inside = False

    def inside(self, segment: Segment) -> list[int]:
        """Add a segment of a range; return the ordinals of earlier ones with later bytes."""
        start, end = ends_of(segment)
        is_lowest = not self._is_inside or is_before(start, self._low)
        if not self._is_inside:
            self._high = start
        if is_lowest:
            self._low = start
        if is_before(self._high, end):
            self._high = end
        self._is_inside = True
        self._next = self._high
        if not is_lowest:
            return []
        found = [ordinal for _, other, ordinal in self._early if is_before(start, other)]
        self._early = []
        return found

    def outside(self, segment: Segment) -> bool:
        """Return whether a segment after a range carries bytes of it."""
        start, end = ends_of(segment)
        self._is_inside = False
        if self._low >= 0 and is_before(start, self._high) and is_before(self._low, end):
            return True
        if self._next >= 0 and is_before(self._next, start):
            self._early.append((start, end, segment.ordinal))
            if len(self._early) == LOOK_BACK:
                # No segment fills that gap any more.
                self._next, self._early = end, []
        elif self._next < 0 or is_before(self._next, end):
            self._advance(end)
        return False

    def _advance(self, end: int) -> None:
        """All bytes up to `end` are present, and possibly those behind the gap it fills."""
        self._next = end
        waiting, self._early = self._early, []
        for early in waiting:
            if is_before(self._next, early[0]):
                self._early.append(early)
            elif is_before(self._next, early[1]):
                self._next = early[1]


class _Times:
    """The ranges of one connection."""

    def __init__(self, times: Sequence[tuple[int, int]]) -> None:
        self._starts = [start for start, _ in times]
        self._ends = [end for _, end in times]
        # By the flow of its segments.
        self.directions: dict[bytes, _Direction] = {}

    def has(self, time_ns: int) -> bool:
        index = bisect_right(self._starts, time_ns) - 1
        return index >= 0 and time_ns <= self._ends[index]


class Marking:
    """Marks packets; call `feed` with all packets of the captures once, then `finish`."""

    def __init__(self, ranges: Ranges) -> None:
        self.marks = Marks()
        self._decoder = PacketDecoder()
        self._decoder.notes_fragments = True
        self._times = {number: _Times(times) for number, times in ranges.times.items()}
        # Flow → numbers of its connections, in order.
        self._connections: dict[bytes, list[int]] = {}
        for endpoints in ranges.endpoints:
            for flow in flows_of(endpoints):
                self._connections.setdefault(flow, []).append(endpoints.connection_id)
        # The ranges have the times that the dissection believed, so wrong ones are found as there.
        self._clock = Clock()
        self._odd: Segment | None = None

    def feed(self, packets: Iterable[Packet]) -> None:
        """Process packets in the order of the capture."""
        decoder = self._decoder
        for packet in packets:
            segment = decoder.decode_next(packet)
            if decoder.late:
                self._late()
            if segment is not None:
                self._judge_odd(segment.time_ns)
                if self._clock.is_odd(segment.time_ns):
                    self._odd = own_copy(segment)
                else:
                    self._segment(segment)
        decoder.problems.clear()
        notes = decoder.fragments_of
        for ordinal in list(islice(notes, max(0, len(notes) - MAXIMUM_NOTES))):
            del notes[ordinal]

    def finish(self) -> None:
        """End of the captures: fragments still incomplete are never reassembled."""
        self._judge_odd(self._clock.odd_ns)
        self._decoder.finish()
        self._late()

    def _judge_odd(self, time_ns: int) -> None:
        """Process the segment with an odd time, if any, as the next time shows what it means."""
        odd, self._odd = self._odd, None
        if odd is None:
            return
        before_ns = self._clock.now_ns
        says = self._clock.judge(time_ns)
        self._clock.settle(says)
        if says == WRONG:
            odd.time_ns = before_ns
        self._segment(odd)

    def _late(self) -> None:
        late, self._decoder.late = self._decoder.late, []
        for segment in late:
            self._segment(segment)

    def _segment(self, segment: Segment) -> None:
        connections = self._connections.get(flow_of(segment))
        if connections is None:
            return
        index = bisect_right(connections, segment.ordinal) - 1
        times = self._times.get(connections[max(0, index)])
        if times is None:
            return
        is_inside = times.has(segment.time_ns)
        if segment.payload_length:
            direction = times.directions.setdefault(flow_of(segment), _Direction())
            if is_inside:
                for ordinal in direction.inside(segment):
                    self._mark(ordinal)
            else:
                is_inside = direction.outside(segment)
        if is_inside:
            self._mark(segment.ordinal)

    def _mark(self, ordinal: int) -> None:
        self.marks.add(ordinal)
        for fragment in self._decoder.fragments_of.get(ordinal, ()):
            self.marks.add(fragment)


def ends_of(segment: Segment) -> tuple[int, int]:
    """The sequence numbers of the first byte, and of the one after the last."""
    start = int(segment.sequence)
    return start, start + int(segment.payload_length) & MASK


def is_before(one: int, other: int) -> bool:
    """Return whether a sequence number is before another, at most 2 GiB away."""
    return 0 < (other - one & MASK) < HALF


def flows_of(endpoints: Endpoints) -> tuple[bytes, bytes]:
    """Both directions of a connection, as keys of segments."""
    client = ip_address(endpoints.client_ip).packed
    broker = ip_address(endpoints.broker_ip).packed
    from_client = endpoints.client_port.to_bytes(2, "big")
    from_broker = endpoints.broker_port.to_bytes(2, "big")
    return client + broker + from_client + from_broker, broker + client + from_broker + from_client
