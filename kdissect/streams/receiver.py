"""One direction of a connection: segments in any order → chunks in stream order, each byte once.

    delivered ──▶ next_position ── hole ──▶ held piece ── hole ──▶ held piece

Cases of a segment's payload, in the order of the code: far away / in order / duplicate / overlap /
hole / limit reached. A hole is given up, and becomes a `Gap`, if

- the other side has acknowledged all of it for a while (`acknowledged.REORDER_NS`: the capture may
  show the ACK before the data it is for), or
- it is older than HOLE_NS: a capture of one direction has no ACKs, or
- more is held than the limits allow, or the connection ends.

An acknowledgment alone, without later data, also opens a hole; one of a single byte does not, since
that byte is more often the FIN of a lost packet than data.

Example: segments at 0-99, 200-299, 100-199. The first is delivered, `next_position` is 100; the
second is held after a hole; the third fills it, and 100-299 are delivered. If the other side
acknowledges 300 and the third does not arrive for REORDER_NS, a Gap of 100 bytes and then 200-299
are delivered; if it arrives later, it is counted as duplicate.

If a direction starts without SYN, position 0 is its first byte seen, and earlier bytes that arrive
later (capture reordered, retransmission) are counted as duplicate, with one Problem.

Longer than other modules: one direction's positions, counts and holes change together.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.errors import Problem
from kdissect.packets.segment import ACK, FIN, SYN, Segment
from kdissect.streams.acknowledged import Acknowledged
from kdissect.streams.events import (
    OWN_PAST,
    RETRANSMISSION,
    UNKNOWN_SIDE,
    ZERO_WINDOW,
    Chunk,
    Connection,
    Event,
    Gap,
)
from kdissect.streams.reassembly_buffer import Piece, ReassemblyBudget, ReassemblyBuffer
from kdissect.streams.recent_chunks import RecentChunks
from kdissect.streams.resent import NO_RESENT, Resent
from kdissect.streams.sequence import advance, distance
from kdissect.streams.tcp_analysis import (
    FAST_AFTER,
    NO_ANALYSIS,
    TcpAnalysis,
    known_round_trip,
)

# Retransmission timers double from 200 ms: five losses in a row of one segment are 6.2 s.
HOLE_NS: Final = 30_000_000_000
# No Kafka socket has a window near this: Linux allows 6 MiB by default, 128 MiB at most when tuned.
FAR_BYTES: Final = 64 << 20
DISAGREEMENTS_REPORTED: Final = 8  # per direction; one undetected port reuse would give thousands


class Receiver:
    """The reassembly of one direction.

    `next_sequence` is the sequence number of `next_position`, -1 before the first byte or SYN.
    `needs_care` is False while the next segment in order, or an ACK of delivered data, only needs
    counting: the caller then does that itself. Set it by `refresh`.
    """

    __slots__ = (
        "connection", "direction", "stream", "counts", "peer", "next_sequence", "next_position",
        "needs_care", "timed_position", "timed_ns", "syn_sequence", "syn_ns", "awaits_handshake",
        "latest_acknowledgment", "latest_window", "tcp_analysis", "fin_position", "announces_zero",
        "window_probe", "acknowledged", "resent",
        "hole_ns", "stray", "held", "held_limit", "recent", "disagreements", "warned_of_start",
        "is_over",
    )  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        direction: i64,
        held_limit: i64,
        budget: ReassemblyBudget,
        recent: RecentChunks,
    ) -> None:
        self.connection = connection
        self.direction = direction
        # Unique to each direction.
        self.stream: i64 = connection.id << 1 | direction
        self.counts = connection.counts[direction]
        self.peer: Receiver = self
        self.next_sequence: i64 = -1
        self.next_position: i64 = 0
        self.needs_care: bool = False
        # One sent position at a time whose acknowledgment is awaited, and the time it was sent.
        self.timed_position: i64 = -1
        self.timed_ns: i64 = 0
        self.syn_sequence: i64 = -1
        self.syn_ns: i64 = -1
        self.awaits_handshake: bool = False
        # Values of the latest segment from this side that acknowledged something new, or had new
        # payload.
        self.latest_acknowledgment: i64 = -1
        self.latest_window: i64 = -1
        self.tcp_analysis = NO_ANALYSIS
        self.fin_position: i64 = -1
        self.announces_zero: bool = False
        self.window_probe: i64 = -1
        self.acknowledged = Acknowledged()
        self.resent = NO_RESENT
        self.hole_ns: i64 = -1
        self.stray: Segment | None = None
        self.held = ReassemblyBuffer(budget)
        self.held_limit = held_limit
        self.recent = recent
        self.disagreements: i64 = 0
        self.warned_of_start: bool = False
        self.is_over: bool = False

    def own_analysis(self) -> TcpAnalysis:
        """The analysis state of this side alone, to be changed."""
        if self.tcp_analysis is NO_ANALYSIS:
            self.tcp_analysis = TcpAnalysis()
        return self.tcp_analysis

    def own_resent(self) -> Resent:
        """The state of retransmissions of this direction alone, to be changed."""
        if self.resent is NO_RESENT:
            self.resent = Resent()
        return self.resent

    def start(self, sequence: i64) -> None:
        """Set the sequence number of position 0."""
        self.next_sequence = sequence

    def position_of(self, sequence: i64) -> i64:
        """Stream position of a sequence number less than 2**31 bytes away from the next one."""
        return self.next_position + distance(sequence, self.next_sequence)

    def refresh(self) -> None:
        """Set `needs_care` by the current state."""
        self.needs_care = (
            self.acknowledged.position > self.next_position
            or self.fin_position > self.next_position
            or not self.held.is_empty
            or self.awaits_handshake
            or (self.next_sequence < 0 and self.peer.syn_sequence >= 0)
            or self.announces_zero
            or self.stray is not None
            or self.resent.is_open()
            or len(self.connection.closed_by) > 0
        )

    def is_far(self, segment: Segment) -> bool:
        """Return whether the segment's payload cannot belong here: more than FAR_BYTES away.

        A jump forward is a pause of the capture if the acknowledgment number fits.
        """
        if self.next_sequence < 0:
            return False
        ahead = distance(segment.sequence, self.next_sequence)
        if -FAR_BYTES <= ahead <= FAR_BYTES:
            return False
        if ahead < 0 or self.peer.next_sequence < 0:
            return True
        peer_ahead = distance(segment.acknowledgment, self.peer.next_sequence)
        return peer_ahead < -FAR_BYTES or peer_ahead > FAR_BYTES

    def note_end(self, segment: Segment) -> None:
        """Note which side ended the connection, at its first FIN or RST and every segment since.

        Where a side acknowledges more than was captured, the peer's FIN may have come before its
        own.
        """
        connection, peer = self.connection, self.peer
        if connection.ended_by < 0:
            connection.ended_by = self.direction if peer.next_sequence >= 0 else UNKNOWN_SIDE
        if connection.ended_by != self.direction or peer.counts.fin_seen:
            return
        if segment.flags & ACK and distance(segment.acknowledgment, peer.next_sequence) > 0:
            connection.ended_by = UNKNOWN_SIDE

    def is_new_acknowledgment(self, segment: Segment) -> bool:
        """Return whether a segment without payload acknowledges more than the one before it."""
        latest = self.latest_acknowledgment
        if latest >= 0 and distance(segment.acknowledgment, latest) <= 0:
            return False
        self.latest_acknowledgment = segment.acknowledgment
        self.latest_window = segment.window
        return True

    def note_repeated_ack(self, segment: Segment) -> None:
        """Process a segment without payload and without new acknowledgment."""
        peer = self.peer
        if self.next_sequence >= 0 and distance(segment.sequence, self.next_sequence) == -1:
            if peer.announces_zero:
                self.counts.window_probes += 1
            else:
                self.counts.keepalives += 1
            return
        number = segment.acknowledgment
        is_same = number == self.latest_acknowledgment and segment.window == self.latest_window
        self.latest_window = segment.window
        if not is_same or peer.next_sequence < 0 or segment.window == 0:
            return
        if not peer.held.is_empty or distance(number, peer.next_sequence) < 0:
            self.counts.duplicate_acks += 1
            self.own_analysis().note_duplicate_ack(segment)

    def is_repeat(self, segment: Segment) -> bool:
        """Return whether a segment may be a copy: nothing in it is new."""
        if segment.payload_length == 0:
            return segment.flags != ACK or not self.is_new_acknowledgment(segment)
        if self.next_sequence < 0:
            return False
        end = self.position_of(segment.sequence) + segment.payload_length
        seen = self.next_position if self.held.is_empty else self.held.end()
        return end <= seen or self.stray is not None

    def disagrees(self, segment: Segment) -> bool:
        """Return whether a segment of the stream has other bytes than those remembered."""
        if segment.payload_length == 0 or self.next_sequence < 0:
            return False
        position = self.position_of(segment.sequence)
        return self.held.disagrees(segment, position) or self.recent.disagrees(
            self.connection, self.direction, segment, position
        )

    def count_copy(self, segment: Segment) -> None:
        """Count a duplicate packet."""
        self.count(segment)
        size = segment.end - segment.start
        self.counts.duplicate_bytes += size
        self.counts.duplicate_packets += 1
        self.counts.duplicate_packet_bytes += size

    def accept(
        self, segment: Segment, sequence: i64, events: list[Event], problems: list[Problem]
    ) -> None:
        """Process a segment's payload, whose first byte has `sequence`; it must not be empty."""
        if self.next_sequence < 0:
            self.start(sequence)
        position = self.position_of(sequence)
        end = position + segment.payload_length
        captured = segment.end - segment.start
        if position == self.next_position and self.held.is_empty:
            # in order
            self.latest_window = segment.window
            self.time_from(segment)
            self._give(segment, position, position, events)
            self._note_window_probe(segment, position)
            return
        given_before = self.counts.delivered_bytes
        held_before = self.held.payload
        if end <= self.next_position:
            # duplicate
            self._repeated(segment, position, segment.payload_length, problems)
        elif position <= self.next_position and self.held.is_empty:
            # overlap
            self._repeated(segment, position, self.next_position - position, problems)
            self._give(segment, position, self.next_position, events)
        else:
            # hole, or in the middle of holes
            self._hold(segment, position, problems)
        new = self.counts.delivered_bytes - given_before + self.held.payload - held_before
        self.counts.duplicate_bytes += captured - new
        self._drain(segment.time_ns, events)
        # limit reached
        self._enforce_limits(segment, events, problems)

    def acknowledge(self, segment: Segment) -> None:
        """Process the peer's acknowledgment number."""
        if self.next_sequence < 0:
            return
        position = self.position_of(segment.acknowledgment)
        if position > self.next_position + FAR_BYTES:
            return
        if 0 <= self.timed_position <= position:
            self.note_round_trip(segment.time_ns)
        if self.fin_position >= 0:
            # The FIN has a sequence number but is not a byte of the stream.
            position = min(position, self.fin_position)
        self.acknowledged.take(position, self.next_position, segment.time_ns)
        if self.resent.is_open():
            self._note_needless(self.resent.found(segment))
            self.resent.note_acknowledgment(segment)

    def _note_needless(self, size: i64) -> None:
        """Count `size` bytes as not lost, after all: the peer reports that they came twice."""
        if size > 0:
            self.counts.network_lost_bytes -= size
            self.counts.spurious_retransmits += 1

    def time_from(self, segment: Segment) -> None:
        """Time the acknowledgment of this segment, unless an earlier one is being timed."""
        if self.timed_position < 0:
            self.timed_position = self.next_position + segment.payload_length
            self.timed_ns = segment.time_ns

    def note_round_trip(self, now: i64) -> None:
        """Record the round trip: the peer has acknowledged the timed position at `now`."""
        round_trip = now - self.timed_ns
        self.timed_position = -1
        if round_trip >= 0:
            self.connection.note_round_trip(self.peer.direction, round_trip)

    def forget_times(self, now: i64) -> None:
        """Restart timers after a change of the clock: earlier times are discarded."""
        self.timed_position = -1
        self.syn_ns = -1
        self.hole_ns = now
        self.acknowledged.forget_times(now)
        if self.resent is not NO_RESENT:
            self.resent.forget_times()
        if self.tcp_analysis is not NO_ANALYSIS:
            self.tcp_analysis.forget_times()

    def note_fin(self, position: i64) -> None:
        """End the stream at `position`; the first FIN counts."""
        self.counts.fin_seen = True
        if self.fin_position < 0:
            self.fin_position = position
            self.acknowledged.position = min(self.acknowledged.position, position)

    def is_complete(self) -> bool:
        """Return whether everything up to the FIN has been delivered."""
        return 0 <= self.fin_position <= self.next_position

    def check_patience(self, segment: Segment, events: list[Event]) -> None:
        """Give up the holes that have waited long enough at the time of `segment`."""
        now = segment.time_ns
        if self.resent.size > 0 and now >= self.resent.due_ns:
            self.resent.believe()
        settled = self.acknowledged.settle(now)
        held = self.held
        while not held.is_empty:
            if held.first().position > settled and now - self.hole_ns < HOLE_NS:
                break
            self._give_up(segment, events)
        if held.is_empty and settled > self.next_position + 1:
            self._give_gap(settled - self.next_position, segment, events)

    def finish(self, last: Segment, events: list[Event], problems: list[Problem]) -> None:
        """Deliver held data, holes as gaps: the direction is over. `last` times the gaps."""
        self.discard_stray(problems)
        self.note_open_window(self.connection.last_time_ns)
        while not self.held.is_empty:
            self._give_up(last, events)
        if self.acknowledged.position > self.next_position + 1:
            self._give_gap(self.acknowledged.position - self.next_position, last, events)

    def discard_stray(self, problems: list[Problem]) -> None:
        """Discard the segment set aside for being far away."""
        stray = self.stray
        if stray is None:
            return
        self.stray = None
        self.count(stray)
        self.counts.duplicate_bytes += stray.end - stray.start
        text = f"sequence number {stray.sequence}, {self.next_sequence} was next"
        problems.append(self._problem("out-of-window", text, stray))

    def note_window(self, segment: Segment) -> None:
        """Record the window that a segment announces."""
        self.announces_zero = segment.window == 0 and segment.flags & (SYN | FIN) == 0
        if self.announces_zero:
            self.counts.zero_windows += 1
            self.connection.tcp_events += ZERO_WINDOW
            self.own_analysis().note_zero_window(segment.time_ns)
        else:
            self.note_open_window(segment.time_ns)

    def note_open_window(self, now: i64) -> None:
        """Count the time for which this side accepted no data, if it ends now."""
        if self.tcp_analysis.closed_ns >= 0:
            self.counts.zero_window_ns += self.tcp_analysis.note_open_window(now)

    def count(self, segment: Segment) -> None:
        """Count a segment and its payload."""
        counts = self.counts
        counts.packets += 1
        counts.wire_bytes += segment.payload_length
        counts.payload_bytes += segment.end - segment.start
        counts.cut_bytes += segment.payload_length - (segment.end - segment.start)
        if segment.time_ns > self.connection.last_time_ns:
            self.connection.last_time_ns = segment.time_ns

    def _hold(self, segment: Segment, position: i64, problems: list[Problem]) -> None:
        held = self.held
        if held.is_empty:
            self.hole_ns = segment.time_ns
        start = max(position, self.next_position)
        later_ns = held.time_after(start)
        disagrees = held.disagrees(segment, position)
        added = held.insert(segment, position, start)
        if added > 0 and later_ns >= 0:
            self._filled(segment, start, added, later_ns)
        if added < segment.payload_length:
            self._repeated(segment, position, segment.payload_length - added, problems)
            if disagrees:
                self._disagreed(segment, problems)

    def _filled(self, segment: Segment, position: i64, size: i64, later_ns: i64) -> None:
        """Count `size` bytes of the segment that came after later ones, seen at `later_ns`."""
        round_trip = known_round_trip(self.connection)
        if not self.peer.tcp_analysis.is_sent_again(segment, later_ns, round_trip):
            self.counts.out_of_order_segments += 1
            return
        if size == segment.payload_length:
            self._sent_again(segment)
        # Else the repeated part is counted as retransmission.
        self._lost(position, size, segment.time_ns, segment.time_ns)

    def _lost(self, position: i64, size: i64, first_ns: i64, now: i64) -> None:
        """Count bytes sent again as lost, unless the peer reports to have had them before.

        They were sent at `first_ns` at the latest.
        """
        self.counts.network_lost_bytes += size
        sequence = advance(self.next_sequence, position - self.next_position)
        self.own_resent().add(sequence, size, now)
        self.note_wait(sequence, first_ns, now)

    def note_wait(self, sequence: i64, first_ns: i64, now: i64) -> None:
        """Note that something sent again `now` is still unacknowledged."""
        if self.peer.counts.packets == 0 and sequence != self.syn_sequence:
            return  # acknowledgments are not captured
        waited_ns = self.own_resent().waited_ns(sequence, first_ns, now)
        if waited_ns > self.counts.unacknowledged_ns:
            self.counts.unacknowledged_ns = waited_ns

    def _repeated(
        self, segment: Segment, position: i64, size: i64, problems: list[Problem]
    ) -> None:
        """Count `size` bytes of the segment at `position` seen before, or before position 0."""
        if position + segment.payload_length <= 0:
            self._before_start(segment, problems)
            return
        first_ns = segment.time_ns
        if self.timed_position > position:
            # Karn: the acknowledgment may be for either copy.
            self.timed_position = -1
            first_ns = self.timed_ns
        if segment.payload_length == 1 and position == self.next_position - 1:
            # A keepalive probe repeats the last byte, or has an arbitrary one there.
            if self.peer.announces_zero:
                self.counts.window_probes += 1
            else:
                self.counts.keepalives += 1
            return
        if position != self.window_probe:
            self._sent_again(segment)
            if self._is_acknowledged(position + size):
                self.counts.spurious_retransmits += 1
            else:
                self._lost(position, size, first_ns, segment.time_ns)
        elif segment.payload_length == 1:
            # A zero-window probe is sent repeatedly, then with more bytes after it.
            self.counts.window_probes += 1
        if self.recent.disagrees(self.connection, self.direction, segment, position):
            self._disagreed(segment, problems)

    def _sent_again(self, segment: Segment) -> None:
        self.counts.retransmitted_segments += 1
        self.connection.tcp_events += RETRANSMISSION
        if self.peer.tcp_analysis.asks_for(segment, FAST_AFTER):
            self.counts.fast_retransmits += 1

    def _is_acknowledged(self, position: i64) -> bool:
        """Return whether the peer has acknowledged everything before `position`."""
        number = self.peer.latest_acknowledgment
        return number >= 0 and self.position_of(number) >= position

    def _before_start(self, segment: Segment, problems: list[Problem]) -> None:
        self.connection.use_history(OWN_PAST)
        if segment.payload_length == 1 or self.warned_of_start:
            return
        self.warned_of_start = True
        text = "bytes from before the first ones seen; later ones of the kind are not reported"
        problems.append(self._problem("before-start", text, segment))

    def _disagreed(self, segment: Segment, problems: list[Problem]) -> None:
        self.disagreements += 1
        # Reporting depends on how many there were.
        self.connection.use_history(OWN_PAST)
        if self.disagreements <= DISAGREEMENTS_REPORTED:
            text = "a retransmission has other bytes than the first copy, which is kept"
            problems.append(self._problem("overlap-disagrees", text, segment))

    def _note_window_probe(self, segment: Segment, position: i64) -> None:
        if segment.payload_length == 1 and self.peer.announces_zero:
            self.window_probe = position
            self.counts.window_probes += 1

    def _give(self, segment: Segment, position: i64, start: i64, events: list[Event]) -> None:
        """Deliver the bytes of the segment at `position` from stream position `start` on."""
        first = segment.start + start - position
        if first < segment.end:
            self._give_chunk(
                Chunk(
                    self.connection, self.direction, start, segment.time_ns, segment.number,
                    segment.ordinal, segment.capture, segment.data, first, segment.end,
                ),
                events,
            )  # fmt: skip
        cut = position + segment.payload_length - self.next_position
        if cut > 0:
            self._give_cut(cut, segment.time_ns, segment.number, segment.ordinal,
                           segment.capture, events)  # fmt: skip

    def _give_piece(self, piece: Piece, events: list[Event]) -> None:
        size: i64 = len(piece.data)
        if size > 0:
            self._give_chunk(
                Chunk(
                    self.connection, self.direction, piece.position, piece.time_ns, piece.number,
                    piece.ordinal, piece.capture, piece.data, 0, size,
                ),
                events,
            )  # fmt: skip
        if size < piece.length:
            self._give_cut(piece.length - size, piece.time_ns, piece.number, piece.ordinal,
                           piece.capture, events)  # fmt: skip

    def _give_chunk(self, chunk: Chunk, events: list[Event]) -> None:
        events.append(chunk)
        self.recent.add(chunk)
        self.counts.delivered_bytes += chunk.end - chunk.start
        self._advance(chunk.end - chunk.start)

    def _give_cut(
        self, length: i64, time_ns: i64, number: i64, ordinal: i64, capture: i64,
        events: list[Event],
    ) -> None:  # fmt: skip
        is_acknowledged = self.acknowledged.position >= self.next_position + length
        events.append(
            Gap(
                self.connection, self.direction, self.next_position, time_ns, number, ordinal,
                capture, length, is_acknowledged, True,
            )
        )  # fmt: skip
        self.counts.missing_cut_bytes += length
        self._skip(length)

    def _give_gap(self, length: i64, segment: Segment, events: list[Event]) -> None:
        is_acknowledged = self.acknowledged.position >= self.next_position + length
        events.append(
            Gap(
                self.connection, self.direction, self.next_position, segment.time_ns,
                segment.number, segment.ordinal, segment.capture, length, is_acknowledged, False,
            )
        )  # fmt: skip
        known = min(self.acknowledged.position - self.next_position, length)
        self.counts.capture_lost_bytes += max(0, known)
        self._skip(length)

    def _skip(self, length: i64) -> None:
        self.counts.gaps += 1
        self.counts.missing_bytes += length
        self._advance(length)

    def _advance(self, length: i64) -> None:
        self.next_position += length
        self.next_sequence = advance(self.next_sequence, length)

    def _give_up(self, segment: Segment, events: list[Event]) -> None:
        """Turn the hole before the first piece into a gap."""
        self._give_gap(self.held.first().position - self.next_position, segment, events)
        self._drain(segment.time_ns, events)

    def _drain(self, now: i64, events: list[Event]) -> None:
        """Deliver the pieces that follow without a hole."""
        taken: i64 = 0
        pieces = self.held.pieces
        at = self.held.head
        while at < len(pieces) and pieces[at].position <= self.next_position:
            self._give_piece(pieces[at], events)
            at += 1
            taken += 1
        if taken > 0:
            self.hole_ns = now
            self.held.drop_first(taken)

    def _enforce_limits(
        self, segment: Segment, events: list[Event], problems: list[Problem]
    ) -> None:
        held = self.held
        while not held.is_empty and (
            held.cost > self.held_limit or held.budget.held > held.budget.limit
        ):
            text = f"{held.payload} bytes wait for a hole in the stream, which is given up"
            problems.append(self._problem("held-limit", text, segment))
            self._give_up(segment, events)

    def _problem(self, kind: str, text: str, segment: Segment) -> Problem:
        return Problem(
            "streams", kind, text, segment.time_ns, segment.number,
            segment.end - segment.start, self.connection.id, -1, segment.capture,
        )  # fmt: skip
