"""Segment → Chunk | Gap | End: track the connections of a capture, and assign segments to them.

A connection begins with its first segment, SYN or not, and ends

- by FIN in both directions, all bytes before them delivered, or by RST: it stays LINGER_NS after
  its last segment, so that late copies of its segments do not look like a new connection;
- by reuse of its ports: a SYN with another initial sequence number, or, where the SYN was not
  captured, two segments that follow each other and are both far from everything before;
- by silence for `idle_ns`; by the limit on connections (the longest silent first); by the end of
  the capture.

Of the open connections, `max_active` have their receivers here. With `parking`, those that are
silent longer are parked: they wait there, and are woken by their next segment or their end.

All time is packet time, as far as the capture's clock is reliable (see `clock`). It makes no
difference whether a connection that was silent or lingered long enough is checked before its next
segment. Independent of the meaning of the bytes. Longer than other modules: the common segment is
counted and delivered in `step` itself, without a call into the receiver.
"""

from collections import deque
from typing import Any, Final, NamedTuple

from mypy_extensions import i64

from kdissect.errors import Problem
from kdissect.packets.segment import ACK, FIN, NO_FLOW, RST, SYN, Segment, flow_of
from kdissect.streams.clock import JUMP_NS, LOOK, SET_BACK, SILENCE, STEP_NS, WRONG, Clock
from kdissect.streams.duplicates import DuplicatePackets, Mark, mark_of, same_ns
from kdissect.streams.events import (
    ACCEPTER,
    CACHE_SIZE,
    CAPTURE_ENDED,
    CLOSED_BY_FIN,
    CLOSED_BY_IDLE,
    CLOSED_BY_LIMIT,
    CLOSED_BY_REUSE,
    CLOSED_BY_RST,
    OPENER,
    Chunk,
    Connection,
    End,
    Event,
)
from kdissect.streams.handshake import follows, is_new_incarnation, note_handshake, note_syn
from kdissect.streams.reassembly_buffer import ReassemblyBudget
from kdissect.streams.receiver import Receiver
from kdissect.streams.recent_chunks import Comparison, RecentChunks
from kdissect.streams.sequence import HALF, MASK

# A connection takes about 1.5 KB without held bytes: 100 MB at most.
MAX_CONNECTIONS: Final = 65_536
# Brokers close a connection after 10 idle minutes (connections.max.idle.ms), clients after 9.
IDLE_NS: Final = 15 * 60 * 1_000_000_000
# A window is 6 MiB at most unless Linux is tuned: no more can be waiting for a retransmission.
MAX_HELD: Final = 8 << 20  # per direction
MAX_HELD_IN_ALL: Final = 64 << 20  # 8 directions at their limit
# The last FIN or data is sent again within seconds when its ACK was lost.
LINGER_NS: Final = 10_000_000_000
SWEEPS_PER_IDLE: Final = 4
UNSURE: Final = -2  # as epoch of a connection: the time of its last segment was wrong
REPORTED_STEPS: Final = 100  # of the capture's clock, one by one
LATEST_NS: Final = (1 << 63) - 1
EVICTED_SHARE: Final = 16  # one in so many is evicted when the table is full, to amortize sorting
SWEPT: Final = 4096  # parked connections that end by silence at once: each is woken for its end

CONTROL: Final = SYN | FIN | RST | ACK
NEVER: Final = (1 << 63) - 1
NOTHING: Final[list[Event]] = []
# An odd number with its bits spread: multiplied by it, neighbouring ports are far from each other.
# The product with 32 bits has room in 63.
SPREAD: Final = 0x4E37_79B1

# Results of `step`.
NEEDS_SLOW_PATH: Final = 0
GIVES_NOTHING: Final = 1
GIVES_CHUNK: Final = 2


class CachedFlow:
    """Receiver of the flow that last used this cache entry; it may be over."""

    __slots__ = ("addresses", "ports", "receiver")

    def __init__(self, no_receiver: Receiver) -> None:
        self.addresses: i64 = NO_FLOW
        self.ports: i64 = NO_FLOW
        self.receiver = no_receiver


class Repeat(NamedTuple):
    """Requests to the history about a segment, the `number`th of all.

    `limit`: see `DuplicatePackets.find`, which has found it at `place`; -1: not requested.
    `compared`: see `RecentChunks.comparisons`; None: likewise.
    """

    flow: bytes
    number: int
    mark: Mark
    limit: int
    place: int
    compared: list[Comparison] | None


class Streams:
    """All connections of a capture.

    The list that `feed` returns may be shared: do not change it. For speed, call `step`, and
    `feed_with_care` only if it says so. `problems` grows until the owner drains it; with
    `notes_opened`, so do `opened`, and `repeats` of connections that are SYNCHRONIZED.
    """

    __slots__ = (
        "problems", "_receivers", "recent", "copies", "_budget", "_max_connections", "_max_active",
        "parking",
        "idle_ns", "_max_held", "_sweep_ns", "_due_ns", "_lingering", "_no_receiver",
        "notes_opened",
        "opened", "repeats", "chunk", "_cache", "clock", "odd", "holds_odd", "is_last_odd",
        "_oldest_ns", "_is_replaying", "_replayed_from", "_loops",
    )  # fmt: skip

    def __init__(
        self,
        *,
        max_connections: i64 = MAX_CONNECTIONS,
        max_active: i64 = MAX_CONNECTIONS,
        idle_ns: i64 = IDLE_NS,
        max_held: i64 = MAX_HELD,
        max_held_in_all: i64 = MAX_HELD_IN_ALL,
    ) -> None:
        self.problems: list[Problem] = []
        self._receivers: dict[bytes, Receiver] = {}
        # Flows of sockets connected to themselves: both directions have one flow.
        self._loops: set[bytes] = set()
        self.recent = RecentChunks()
        self.copies = DuplicatePackets()
        self._budget = ReassemblyBudget(max_held_in_all)
        self._max_connections = max_connections
        self._max_active = min(max_active, max_connections)
        # The owner's `dissection.parking.Parking`, None: connections beyond `max_active` end.
        self.parking: Any = None
        self.idle_ns = idle_ns
        self._max_held = max_held
        self._sweep_ns: i64 = -1
        # Number of segments when all connections were last checked.
        self._due_ns: i64 = -1
        # Openers' receivers of closed connections, with the time of the next check.
        self._lingering: deque[tuple[int, Receiver]] = deque()
        self.clock = Clock()
        # A segment whose time is odd, held until the next segment's time decides. A split of a
        # capture does not hold it: the segment after its last one is in the next split.
        self.odd: Segment | None = None
        self.holds_odd: bool = True
        self.is_last_odd: bool = False
        # No connection has been silent since before that time, in this epoch of the clock.
        self._oldest_ns: i64 = LATEST_NS
        self._is_replaying: bool = False
        self._replayed_from: i64 = -1
        self.notes_opened: bool = False
        self.opened: list[Connection] = []
        self.repeats: list[Repeat] = []
        # Stands in for the peer of a receiver that is over, to avoid a reference cycle. It is one,
        # of its own: without the chunks, which have buffers of the capture.
        no_receiver = Receiver(
            Connection(-1, 0, b"", 0, 0), OPENER, 0, ReassemblyBudget(0), RecentChunks()
        )
        self._no_receiver = no_receiver
        self._cache = [CachedFlow(no_receiver) for _ in range(CACHE_SIZE)]
        # Result of the last `step` that returned one.
        self.chunk = Chunk(no_receiver.connection, OPENER, 0, 0, 0, 0, 0, b"", 0, 0)

    @property
    def connections(self) -> list[Connection]:
        """Connections that have had no End yet and are not parked."""
        return [
            receiver.connection
            for receiver in self._receivers.values()
            if receiver.direction == OPENER
        ]

    @property
    def connection_count(self) -> int:
        """Number of such connections, with those that are parked."""
        return (len(self._receivers) + len(self._loops)) // 2 + self.parked_count

    @property
    def parked_count(self) -> int:
        """Number of connections that are parked."""
        return 0 if self.parking is None else len(self.parking)

    @property
    def open_count(self) -> int:
        """Number of connections that are not closed: without those that linger."""
        lingering = {
            receiver.connection.id for _, receiver in self._lingering if not receiver.is_over
        }
        return self.connection_count - len(lingering)

    @property
    def held_cost(self) -> int:
        """Memory of data held after holes, in bytes."""
        return self._budget.held

    def feed(self, segment: Segment) -> list[Event]:
        """Events that one more segment causes, in order."""
        step = self.step(segment)
        if step == NEEDS_SLOW_PATH:
            return self.feed_with_care(segment)
        return [self.chunk] if step == GIVES_CHUNK else NOTHING

    def step(self, segment: Segment) -> i64:
        """Process the common segment: payload in order, or an acknowledgment of delivered data.

        GIVES_CHUNK: `chunk` is the result. GIVES_NOTHING. NEEDS_SLOW_PATH: the segment is of
        another kind and was not processed, for `feed_with_care`.
        """
        addresses = segment.addresses
        ports = segment.ports
        mixed = (ports ^ addresses ^ (addresses >> 32)) & 0xFFFF_FFFF
        place = self._cache[mixed * SPREAD >> 22 & (CACHE_SIZE - 1)]
        receiver = place.receiver
        if (
            place.ports != ports
            or place.addresses != addresses
            or receiver.is_over
            or addresses == NO_FLOW
        ):
            found = self._receivers.get(flow_of(segment))
            if found is None:
                return NEEDS_SLOW_PATH
            receiver = found
            place.addresses = addresses
            place.ports = ports
            place.receiver = receiver
        connection = receiver.connection
        peer = receiver.peer
        now = segment.time_ns
        silent = now - connection.last_time_ns
        clock = self.clock
        passed = now - clock.now_ns
        ahead = ((segment.acknowledgment - peer.next_sequence + HALF) & MASK) - HALF
        if (
            segment.flags & CONTROL != ACK
            or receiver.needs_care
            or peer.needs_care
            or (ahead > 0 and peer.next_sequence >= 0)
            or segment.window == 0
            or silent >= self.idle_ns
            or now >= self._due_ns
            or connection.epoch != clock.mark
            or passed < -STEP_NS
            or passed > JUMP_NS
        ):
            return NEEDS_SLOW_PATH
        start = segment.start
        length = segment.end - start
        sequence = receiver.next_sequence
        if segment.payload_length != length:
            return NEEDS_SLOW_PATH
        if length > 0:
            if segment.sequence != sequence:
                return NEEDS_SLOW_PATH
        elif not receiver.is_new_acknowledgment(segment):
            # Possibly a copy.
            return NEEDS_SLOW_PATH

        self.copies.add(segment, receiver.stream)
        if passed > 0:
            clock.now_ns = now
        elif now < clock.lowest_ns:
            clock.lowest_ns = now
        if silent > 0:
            connection.last_time_ns = now
        if 0 <= peer.timed_position <= peer.next_position + ahead:
            peer.note_round_trip(now)
        counts = receiver.counts
        counts.packets += 1
        if length == 0:
            return GIVES_NOTHING
        if segment.acknowledgment != receiver.latest_acknowledgment:
            receiver.is_new_acknowledgment(segment)
        receiver.latest_window = segment.window
        position = receiver.next_position
        counts.wire_bytes += length
        counts.payload_bytes += length
        counts.delivered_bytes += length
        receiver.next_position = position + length
        receiver.next_sequence = (sequence + length) & MASK
        if receiver.timed_position < 0:
            receiver.timed_position = position + length
            receiver.timed_ns = now
        chunk = Chunk(
            connection, receiver.direction, position, now, segment.number, segment.ordinal,
            segment.capture, segment.data, start, segment.end,
        )  # fmt: skip
        self.recent.now = self.copies.count
        self.recent.add(chunk)
        self.chunk = chunk
        return GIVES_CHUNK

    def receiver_of(self, flow: bytes) -> Receiver | None:
        """Receiver of a direction of an open connection."""
        return self._receivers.get(flow)

    def openers(self) -> list[Receiver]:
        """Openers' receivers of all open connections that are not parked."""
        return [one for one in self._receivers.values() if one.direction == OPENER]

    def advance(self, passed_ns: i64) -> list[Event]:
        """Events of timeouts after the latest segment."""
        events: list[Event] = []
        if passed_ns >= JUMP_NS:
            self._take_odd(events)
        now = self.clock.now_ns + passed_ns
        if self.clock.first_ns >= 0 and now >= self._due_ns:
            self._evict(now, events)
        return events

    def begin_replay(self, first_ns: i64) -> list[Event]:
        """Start a replay of a split's segments, not all of them, and some out of order.

        Its first segment has the time `first_ns`, -1 if there is none; its clock was not set, and
        continues ours. Connections time out only at their own next segment.
        """
        events: list[Event] = []
        if first_ns >= 0:
            events = self.take_odd(first_ns)
            if self.clock.first_ns < 0:
                self.clock.is_odd(first_ns)
        self._is_replaying = True
        self._replayed_from = self.clock.now_ns
        self._due_ns = -1
        return events

    def end_replay(self, now_ns: i64) -> list[Event]:
        """Continue as if all segments of the split had been fed; its clock is at `now_ns`."""
        self._is_replaying = False
        self.clock.now_ns = max(self._replayed_from, now_ns)
        self._due_ns = -1
        return self.advance(0)

    def end_silent(self, since: i64, most: i64) -> list[Event]:
        """End at most `most` connections silent since that time, the longest silent first."""
        silent = [
            (last_ns, receiver.connection.id, receiver)
            for last_ns, receiver in self._last_times()
            if last_ns <= since
        ]
        silent.sort()
        events: list[Event] = []
        for _, _, receiver in silent[:most]:
            self._end(receiver, CLOSED_BY_LIMIT, None, events)
        return events

    def take_in(self, opener: Receiver) -> None:
        """Replace the state of a connection by that of another `Streams`."""
        flow = opener.connection.flow
        for receiver in (opener.peer, opener):
            self._budget.held += receiver.held.cost
            known = self._receivers.get(flow if receiver is opener else reverse_flow(flow))
            if known is not None and known is not receiver:
                known.is_over = True
        self._oldest_ns = min(self._oldest_ns, self._last_ns(opener.connection))
        self.unpark(opener)

    def unpark(self, opener: Receiver) -> None:
        """Continue with a connection that was parked, or that another `Streams` had."""
        flow = opener.connection.flow
        back = reverse_flow(flow)
        for receiver in (opener.peer, opener):
            receiver.recent = self.recent
            receiver.held.budget = self._budget
        self._receivers[back] = opener.peer
        self._receivers[flow] = opener
        if back == flow:
            self._loops.add(flow)
        if opener.connection.closed_by:
            due = opener.connection.last_time_ns + LINGER_NS
            self._lingering.append((due, opener))
            self._due_ns = min(self._due_ns, due)

    def forget(self, opener: Receiver) -> None:
        """Forget a connection that another `Streams` continues; it has no End."""
        for receiver in (opener.peer, opener):
            self._budget.held -= receiver.held.cost
        self.park(opener)

    def park(self, opener: Receiver) -> None:
        """Let go of a connection that `parking` keeps; what it holds stays counted."""
        for receiver in (opener.peer, opener):
            receiver.is_over = True
            receiver.peer = self._no_receiver
        self._receivers.pop(opener.connection.flow, None)
        self._receivers.pop(reverse_flow(opener.connection.flow), None)
        self._loops.discard(opener.connection.flow)

    @property
    def due(self) -> tuple[int, int, int, list[tuple[int, bytes]]]:
        """Times of the next checks; since when none was silent; the flows that linger."""
        lingering = [
            (due, receiver.connection.flow)
            for due, receiver in self._lingering
            if not receiver.is_over
        ]
        return int(self._sweep_ns), int(self._due_ns), int(self._oldest_ns), lingering

    def set_due(self, due: tuple[int, int, int, list[tuple[int, bytes]]]) -> None:
        """Continue with these times; all connections were taken in."""
        self._sweep_ns, self._due_ns, self._oldest_ns, lingering = due
        self._lingering = deque([(at, self._receivers[flow]) for at, flow in lingering])

    def end_parked(self, most: i64) -> list[Event]:
        """End at most `most` of the parked connections: the capture is over."""
        events: list[Event] = []
        for _ in range(min(most, i64(self.parked_count))):
            self._end(self._woken_first(), CAPTURE_ENDED, None, events)
        return events

    def finish(self) -> list[Event]:
        """End all connections that are not parked: the capture is over."""
        events: list[Event] = []
        self._take_odd(events)
        for receiver in list(self._receivers.values()):
            if receiver.direction == OPENER:
                self._end(receiver, CAPTURE_ENDED, None, events)
        self._lingering.clear()
        return events

    def feed_with_care(self, segment: Segment) -> list[Event]:
        """Events of a segment on the slow path, in order.

        One whose time is odd is kept until the next segment: then call `take_odd` first, unless the
        events of both may be processed together.
        """
        events = self.take_odd(segment.time_ns) if self.odd is not None else []
        if not self._is_replaying:
            if self.clock.is_odd(segment.time_ns):
                if self.holds_odd:
                    self.odd = own_copy(segment)
                    return events
                self.clock.settle(self.clock.judge(segment.time_ns))
                # So that the next segment is processed here too.
                self.clock.mark = LOOK
                self.is_last_odd = True
            elif self.is_last_odd:
                self.clock.mark = self.clock.epoch
                self.is_last_odd = False
        self._take(segment, events)
        return events

    def take_odd(self, time_ns: i64) -> list[Event]:
        """Events of the held segment with an odd time, if any.

        `time_ns` is that of the next segment, which is fed afterwards.
        """
        events: list[Event] = []
        self._judge_odd(time_ns, events)
        return events

    def feed_late(self, segment: Segment) -> list[Event]:
        """Events of a segment that is fed after others that were captured later."""
        events: list[Event] = []
        self._take(segment, events)
        return events

    def _judge_odd(self, time_ns: i64, events: list[Event]) -> None:
        """Process the segment with an odd time, now that the next time is known."""
        odd = self.odd
        if odd is None:
            return
        self.odd = None
        clock = self.clock
        before_ns = clock.now_ns
        says = clock.judge(time_ns)
        if says == SET_BACK:
            self._end_epoch(before_ns, events)
        clock.settle(says)
        if says != SILENCE:
            self._report_clock(odd, before_ns, says)
        if says == SET_BACK:
            self._oldest_ns = clock.start_ns
            self._due_ns = LATEST_NS
            self._schedule(clock.start_ns)
        if says != WRONG:
            self._take(odd, events)
            return
        # All that is known of its time is that it is between those of the others.
        odd.time_ns = before_ns
        known = self._known(odd, events)
        if known is not None:
            self._clock_was_set(known, before_ns)
        self._take(odd, events)
        known = self._receivers.get(flow_of(odd))
        if known is not None:
            # The events of this moment began with it: the next segment is on the other side.
            known.connection.epoch = UNSURE

    def _take_odd(self, events: list[Event]) -> None:
        """Process the segment with an odd time, when no other follows."""
        if self.odd is not None:
            self._judge_odd(self.clock.odd_ns, events)

    def _take(self, segment: Segment, events: list[Event]) -> None:
        """Process a segment whose time is reliable, or as well known as possible."""
        now = segment.time_ns
        clock = self.clock
        self.recent.now = self.copies.count + 1
        if self._is_replaying:
            clock.now_ns = now
        elif clock.now_ns >= self._due_ns:
            self._evict(clock.now_ns, events)
        receiver = self._find(segment, events)
        if receiver.connection.epoch != clock.epoch:
            self._clock_was_set(receiver, now)
        is_known = receiver.counts.packets > 0 or receiver.stray is not None
        is_repeat = is_known and receiver.is_repeat(segment)
        if self.notes_opened and receiver.connection.is_synchronized():
            self._note_repeat(receiver, segment, is_repeat)
        if (
            is_repeat
            and self.copies.has(segment, receiver.stream)
            and not receiver.disagrees(segment)
        ):
            self.copies.skip()
            receiver.count_copy(segment)
            return
        self.copies.add(segment, receiver.stream)
        if is_repeat and segment.flags == ACK and segment.payload_length == 0:
            receiver.note_repeated_ack(segment)
        if segment.payload_length > 0 and receiver.is_far(segment):
            self._set_aside(receiver, segment, events)
        else:
            receiver.discard_stray(self.problems)
            self._process(receiver, segment, events)

    def _note_repeat(self, receiver: Receiver, segment: Segment, is_repeat: bool) -> None:
        """Note the requests to the history about a segment that may contain nothing new."""
        now = self.recent.now
        compared: list[Comparison] | None = None
        if segment.payload_length > 0 and receiver.next_sequence >= 0:
            position = receiver.position_of(segment.sequence)
            if position < receiver.next_position:
                compared = self.recent.comparisons(
                    receiver.connection, receiver.direction, position, now
                )
        if is_repeat or compared is not None:
            mark = mark_of(segment, receiver.stream)
            limit = same_ns(segment) if is_repeat else -1
            place = self.copies.find(mark, limit, 0) if is_repeat else -1
            self.repeats.append(Repeat(flow_of(segment), now, mark, limit, place, compared))

    def _find(self, segment: Segment, events: list[Event]) -> Receiver:
        """Receiver of the segment's direction, of a new connection if it begins one."""
        receiver = self._known(segment, events)
        if receiver is not None:
            connection = receiver.connection
            silent = segment.time_ns - self._last_ns(connection)
            # As if unknown: whether its end was noticed earlier must not matter.
            if connection.closed_by and silent >= LINGER_NS:
                self._end(receiver, connection.closed_by, None, events)
            elif silent >= self.idle_ns:
                self._end(receiver, CLOSED_BY_IDLE, None, events)
            elif segment.flags & SYN and is_new_incarnation(receiver, segment):
                self._end(receiver, CLOSED_BY_REUSE, segment, events)
            else:
                return receiver
        return self._open(segment, events)

    def _known(self, segment: Segment, events: list[Event]) -> Receiver | None:
        """Receiver of the segment's direction, which is woken if it is parked."""
        flow = flow_of(segment)
        receiver = self._receivers.get(flow)
        if receiver is not None or self.parking is None or not self.parking.parked:
            return receiver
        if not self.parking.has(flow):
            return None
        if len(self._receivers) >= 2 * self._max_active:
            self._make_room(segment, events)
        # Which may have ended it.
        return self._receivers[flow] if self.parking.wake(flow) else None

    def _woken_first(self) -> Receiver:
        """The opener's receiver of the longest silent parked connection."""
        return self._receivers[self.parking.wake_first()]

    def _open(self, segment: Segment, events: list[Event]) -> Receiver:
        if len(self._receivers) >= 2 * self._max_active:
            self._make_room(segment, events)
        there = flow_of(segment)
        back = reverse_flow(there)
        if segment.flags & (SYN | ACK) == SYN | ACK:
            there, back = back, there
        connection = Connection(
            segment.ordinal, segment.capture, there, segment.time_ns, segment.number
        )
        opener = Receiver(connection, OPENER, self._max_held, self._budget, self.recent)
        accepter = Receiver(connection, ACCEPTER, self._max_held, self._budget, self.recent)
        opener.peer = accepter
        accepter.peer = opener
        connection.epoch = self.clock.epoch
        self._oldest_ns = min(self._oldest_ns, segment.time_ns)
        # A socket connected to itself has one flow for both directions; the opener's is kept.
        self._receivers[back] = accepter
        self._receivers[there] = opener
        if back == there:
            self._loops.add(there)
        if self.notes_opened:
            self.opened.append(connection)
        return self._receivers[flow_of(segment)]

    def _set_aside(self, receiver: Receiver, segment: Segment, events: list[Event]) -> None:
        """Handle a far segment: two adjacent ones prove a new connection on the old ports."""
        stray = receiver.stray
        if stray is not None and follows(segment, stray):
            receiver.stray = None
            self._end(receiver, CLOSED_BY_REUSE, segment, events)
            self._process(self._open(stray, events), stray, events)
            self._process(self._receivers[flow_of(segment)], segment, events)
            return
        receiver.discard_stray(self.problems)
        receiver.stray = own_copy(segment)
        receiver.refresh()

    def _process(self, receiver: Receiver, segment: Segment, events: list[Event]) -> None:
        peer = receiver.peer
        flags = segment.flags
        sequence = segment.sequence
        receiver.count(segment)
        if flags & (FIN | RST) or receiver.connection.ended_by >= 0:
            receiver.note_end(segment)
        if flags & SYN:
            note_syn(receiver, segment)
            sequence = (sequence + 1) & MASK
        if flags & RST:
            # The payload of an RST is a diagnostic text, not part of the stream.
            receiver.counts.rst_seen = True
            receiver.counts.duplicate_bytes += segment.end - segment.start
            self._close(receiver, CLOSED_BY_RST, segment)
        else:
            receiver.note_window(segment)
            if flags & ACK:
                note_handshake(receiver, segment)
                peer.acknowledge(segment)
                receiver.is_new_acknowledgment(segment)
            if segment.payload_length > 0:
                receiver.accept(segment, sequence, events, self.problems)
            if flags & FIN:
                self._note_fin(receiver, segment, sequence)
        receiver.check_patience(segment, events)
        peer.check_patience(segment, events)
        receiver.refresh()
        peer.refresh()
        if receiver.is_complete() and peer.is_complete():
            self._close(receiver, CLOSED_BY_FIN, segment)

    def _note_fin(self, receiver: Receiver, segment: Segment, sequence: i64) -> None:
        if receiver.next_sequence < 0:
            receiver.start(sequence)
        receiver.note_fin(receiver.position_of(sequence) + segment.payload_length)

    def _close(self, receiver: Receiver, reason: str, segment: Segment) -> None:
        """Close the connection, which then lingers."""
        if receiver.connection.closed_by:
            return
        receiver.connection.closed_by = reason
        receiver.refresh()
        receiver.peer.refresh()
        opener = receiver if receiver.direction == OPENER else receiver.peer
        due = segment.time_ns + LINGER_NS
        self._lingering.append((due, opener))
        self._due_ns = min(self._due_ns, due)

    def _end(
        self, receiver: Receiver, reason: str, segment: Segment | None, events: list[Event]
    ) -> None:
        """Deliver the rest of a connection and its End, and forget it."""
        peer = receiver.peer
        connection = receiver.connection
        if not connection.closed_by:
            connection.closed_by = reason
        last = segment if segment is not None else nowhere(connection)
        receiver.finish(last, events, self.problems)
        peer.finish(last, events, self.problems)
        events.append(
            End(connection, connection.last_time_ns, last.number, last.ordinal, last.capture,
                connection.closed_by)
        )  # fmt: skip
        self._receivers.pop(connection.flow, None)
        self._receivers.pop(reverse_flow(connection.flow), None)
        self._loops.discard(connection.flow)
        receiver.is_over = True
        peer.is_over = True
        receiver.peer = self._no_receiver
        peer.peer = self._no_receiver

    def _end_epoch(self, now: i64, events: list[Event]) -> None:
        """End connections silent when the clock was set back; the others are silent since then."""
        lingering = self._lingering
        is_due = len(lingering) > 0 and lingering[0][0] <= now
        if is_due or now - self._oldest_ns >= self.idle_ns:
            self._sweep_ns = now
            self._evict(now, events, i64(self.parked_count))

    def _clock_was_set(self, receiver: Receiver, now: i64) -> None:
        """Handle a change of the clock since the last segment of the connection."""
        connection = receiver.connection
        connection.epoch = self.clock.epoch
        connection.last_time_ns = now
        connection.clock_steps += 1
        receiver.forget_times(now)
        receiver.peer.forget_times(now)

    def _report_clock(self, odd: Segment, before_ns: i64, says: i64) -> None:
        """Report a change of the clock, or a wrong time; only the first ones individually."""
        steps = self.clock.steps
        if steps > REPORTED_STEPS:
            return
        by_ns = int(odd.time_ns - before_ns)
        amount = f"{abs(by_ns) / 1e9:.6f} s"
        if says == SET_BACK:
            text = f"time goes back by {amount}: durations from before it to after it are not known"
        else:
            where = "ahead of" if by_ns > 0 else "behind"
            text = f"this packet alone is {amount} {where} the others: its time is not known"
        if steps == REPORTED_STEPS:
            text += "; further ones are not reported"
        self.problems.append(
            Problem("streams", "clock-step", text, odd.time_ns, odd.number, capture=odd.capture)
        )

    def _last_ns(self, connection: Connection) -> i64:
        """Time of the connection's last segment, within this epoch of the clock."""
        if connection.epoch == self.clock.epoch or connection.epoch == UNSURE:
            return connection.last_time_ns
        return self.clock.start_ns

    def _last_times(self) -> list[tuple[int, Receiver]]:
        """The same for all connections, with their openers' receivers."""
        return [
            (self._last_ns(receiver.connection), receiver)
            for receiver in self._receivers.values()
            if receiver.direction == OPENER
        ]

    def _evict(self, now: i64, events: list[Event], most: i64 = SWEPT) -> None:
        """End connections that lingered or were silent long enough, and set the next check.

        Of parked ones `most` at once; then the next check is due with the next segment.
        A connection is checked SWEEPS_PER_IDLE times at most after its last segment, so the cost
        per segment is bounded.
        """
        lingering = self._lingering
        while lingering and lingering[0][0] <= now:
            receiver = lingering.popleft()[1]
            due = self._last_ns(receiver.connection) + LINGER_NS
            if receiver.is_over:
                continue
            if due <= now:
                self._end(receiver, receiver.connection.closed_by, None, events)
            else:
                lingering.append((due, receiver))
        if now >= self._sweep_ns:
            is_behind = False
            if now - self._oldest_ns >= self.idle_ns:
                self._sweep(now, events)
                is_behind = self._sweep_parked(now, events, most)
            self._schedule(now)
            if is_behind:
                self._sweep_ns = now
        self._due_ns = self._sweep_ns
        if lingering:
            self._due_ns = min(self._due_ns, lingering[0][0])

    def _sweep(self, now: i64, events: list[Event]) -> None:
        """End silent connections.

        Each remaining one had a segment in this epoch and within the idle time: that segment pays
        for the check, whatever the clock does.
        """
        self._oldest_ns = LATEST_NS
        for last_ns, receiver in self._last_times():
            if now - last_ns >= self.idle_ns:
                self._end(receiver, CLOSED_BY_IDLE, None, events)
            else:
                self._oldest_ns = min(self._oldest_ns, last_ns)

    def _sweep_parked(self, now: i64, events: list[Event], most: i64) -> bool:
        """The same for parked ones, `most` of them; return whether others are left."""
        if self.parking is None:
            return False
        ended: i64 = 0
        oldest_ns = self._oldest_ns
        is_behind = False
        first: Connection | None = self.parking.first()
        while first is not None:
            last_ns = self._last_ns(first)
            is_behind = now - last_ns >= self.idle_ns
            if not is_behind or ended == most:
                oldest_ns = min(oldest_ns, last_ns)
                break
            self._end(self._woken_first(), CLOSED_BY_IDLE, None, events)
            is_behind = False
            ended += 1
            first = self.parking.first()
        self._oldest_ns = oldest_ns
        return is_behind

    def _schedule(self, now: i64) -> None:
        self._sweep_ns = now + self.idle_ns // SWEEPS_PER_IDLE
        self._due_ns = min(self._due_ns, self._sweep_ns)

    def _make_room(self, segment: Segment, events: list[Event]) -> None:
        """Park or end the connections that were silent longest, as their limit is reached."""
        openers = [
            (last_ns, receiver.connection.id, receiver) for last_ns, receiver in self._last_times()
        ]
        openers.sort()
        count: i64 = max(1, len(openers) // EVICTED_SHARE)
        if self.parking is not None:
            for _, _, receiver in openers[:count]:
                self.parking.park(receiver)
            self._limit_parked(count, segment, events)
            return
        self._report_limit(i64(len(openers)), count, segment)
        for _, _, receiver in openers[:count]:
            self._end(receiver, CLOSED_BY_LIMIT, segment, events)

    def _limit_parked(self, count: i64, segment: Segment, events: list[Event]) -> None:
        """End `count` of the parked connections if there are too many of all."""
        number: i64 = self.connection_count
        if number < self._max_connections:
            return
        count = min(count, i64(self.parked_count))
        self._report_limit(number, count, segment)
        for _ in range(count):
            self._end(self._woken_first(), CLOSED_BY_LIMIT, segment, events)

    def _report_limit(self, number: i64, count: i64, segment: Segment) -> None:
        text = f"{number} connections are open: {count} of them end here"
        self.problems.append(
            Problem("streams", "connection-limit", text, segment.time_ns, segment.number,
                    capture=segment.capture)
        )  # fmt: skip


def reverse_flow(flow: bytes) -> bytes:
    """Reverse the direction: swap addresses and ports."""
    size = (len(flow) - 4) // 2
    return flow[size : 2 * size] + flow[:size] + flow[-2:] + flow[-4:-2]


def own_copy(segment: Segment) -> Segment:
    """Copy of the segment with header and payload copied from the large buffer they are in."""
    header = segment.header
    data = segment.data[header : segment.end]
    return Segment(
        segment.number, segment.ordinal, segment.capture, segment.time_ns, flow_of(segment),
        segment.sequence, segment.acknowledgment, segment.flags, segment.window, data,
        segment.start - header, len(data), segment.payload_length, 0, segment.ip_id,
        segment.addresses, segment.ports,
    )  # fmt: skip


def nowhere(connection: Connection) -> Segment:
    """Segment without number, to time events that no segment causes."""
    return Segment(
        -1, -1, connection.capture, connection.last_time_ns, connection.flow, 0, 0, 0, 0, b"", 0,
        0, 0, 0, -1,
    )  # fmt: skip
