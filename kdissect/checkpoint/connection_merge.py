"""Merges a connection's state in a split into that of the whole: adds counts, aligns the sides.

Where the split did not see the SYN it took the side that sent first for the opener, so the two
directions may have to be swapped.
"""

from typing import Any

from kdissect.checkpoint.boundary_state import Open
from kdissect.checkpoint.codec import fields_of
from kdissect.checkpoint.left_edge import Prefix
from kdissect.checkpoint.synchronization import Counted
from kdissect.exchanges.connection_state import (
    ASK,
    AT_MARK,
    AT_OFFSET,
    LOST,
    PAST,
    POSITION_WIDTH,
    UNSTATED,
    ConnectionState,
    Positions,
    TopicPositions,
)
from kdissect.exchanges.fetches import unknown_mark
from kdissect.framing.frames import FramingState
from kdissect.protocol.readers import NULL
from kdissect.streams.connections import reverse_flow
from kdissect.streams.direction_counts import LONGEST, DirectionCounts
from kdissect.streams.events import INSIDE, UNKNOWN_SIDE, Connection, smaller
from kdissect.streams.receiver import Receiver


class Synchronized:
    """State of a connection in the whole when it was synchronized; `is_turned`: sides are swapped.

    `epoch` is that of the capture's clock at that time.
    """

    def __init__(
        self,
        prefix: Prefix,
        opener: Receiver,
        state: ConnectionState,
        framings: list[FramingState],
        at: Counted,
        is_turned: bool,
        epoch: int,
    ) -> None:
        connection = opener.connection
        self.epoch = epoch
        self.prefix = prefix
        self.opener = opener
        self.connection = connection
        self.state = state
        self.framings = framings
        self.at = at
        self.is_turned = is_turned
        # For users of the past of its fetch session, which continues.
        self.positions = copied(state.positions)
        self.halves = connection.handshake_half_ns
        self.least = connection.min_rtt_ns

    def rtt_ns(self, to_opener: int, to_accepter: int) -> int:
        """Smallest round trip including those measured since, by the split's sides."""
        since = [to_opener, to_accepter]
        if self.is_turned:
            since.reverse()
        sides = [
            min((ns for ns in known if ns >= 0), default=-1)
            for known in zip(self.halves, self.least, since, strict=True)
        ]
        seen = [ns for ns in sides if ns >= 0]
        return sum(seen) if seen else -1

    def take(self, state: ConnectionState) -> None:
        """Convert the split's state of the connection to that of the whole."""
        if self.is_turned:
            turn(state)
        self._take_connection(state.connection)
        self._take_state(state)

    def take_receivers(self, opener: Receiver) -> None:
        """Like `take`, for its reassembly; `opener` is the split's opener."""
        if self.is_turned:
            opener.direction, opener.peer.direction = opener.peer.direction, opener.direction
        first = opener.peer if self.is_turned else opener
        moved = self.moved()
        for own, receiver in zip((self.opener, self.opener.peer), (first, first.peer), strict=True):
            shift(receiver, moved[receiver.direction])
            receiver.stream = own.stream
            receiver.held_limit = own.held_limit
            receiver.syn_sequence = own.syn_sequence
            receiver.syn_ns = own.syn_ns
            # More of either since the synchronization touches the connection.
            receiver.warned_of_start = own.warned_of_start
            receiver.disagreements = own.disagreements

    def moved(self) -> tuple[int, int]:
        """Offset of positions from those in the split, by direction."""
        here = self.prefix.at.positions
        if self.is_turned:
            here = (here[1], here[0])
        return self.at.positions[0] - here[0], self.at.positions[1] - here[1]

    def _take_connection(self, connection: Connection) -> None:
        known = self.connection
        before = self.prefix.at.counts
        if self.is_turned:
            before = (before[1], before[0])
        for direction in (0, 1):
            add(connection.counts[direction], before[direction], self.at.counts[direction])
        for name in (
            "id", "capture", "flow", "first_time_ns", "first_packet", "syn_seen", "start_seen",
            "handshake_rtt_ns", "handshake_half_ns",
        ):  # fmt: skip
            setattr(connection, name, getattr(known, name))
        to_opener, to_accepter = connection.min_rtt_ns
        connection.min_rtt_ns = (
            smaller(self.least[0], to_opener),
            smaller(self.least[1], to_accepter),
        )
        connection.refresh_rtt()
        if known.epoch == self.epoch:
            # Packets may be slightly out of order.
            connection.last_time_ns = max(connection.last_time_ns, known.last_time_ns)
        connection.edge = INSIDE
        connection.history_used = known.history_used

    def _take_state(self, state: ConnectionState) -> None:
        known = self.state
        state.exchange_count += self.at.exchanges - self.prefix.at.exchanges
        known.login.is_past = known.login.is_past or state.login.is_past
        state.login = known.login
        if state.vendor < 0:
            state.vendor = known.vendor
        state.software_name = state.software_name or known.software_name
        state.software_version = state.software_version or known.software_version
        state.repeats_ids = state.repeats_ids or known.repeats_ids
        state.spoken_low |= known.spoken_low
        state.spoken_high |= known.spoken_high
        state.probed |= known.probed
        state.broker_side_by = known.broker_side_by
        state.proxy_header_size = known.proxy_header_size
        state.proxied_ip = known.proxied_ip
        state.proxied_port = known.proxied_port
        state.refusal = known.refusal
        goes_on = PAST in state.positions
        complete(state.positions, self.positions)
        if goes_on:
            # Connections that have shared a session share its positions.
            known.positions.clear()
            known.positions.update(state.positions)
            state.positions = known.positions
        for exchange in state.pending:
            exchange.connection_id = state.connection.id

    def cut(self, counted: tuple[int, int], before: tuple[int, int], then: tuple[int, int]) -> Any:
        """Framed or skipped bytes: the split's count since `before` plus the whole's `then`."""
        since = [counted[0] - before[0], counted[1] - before[1]]
        if self.is_turned:
            since.reverse()
        return since[0] + then[0], since[1] + then[1]

    def take_framings(self, framings: list[FramingState]) -> list[FramingState]:
        """Like `take`, for the framing states."""
        if self.is_turned:
            framings = framings[::-1]
        before = self.prefix.at
        for direction, framing in enumerate(framings):
            of_split = 1 - direction if self.is_turned else direction
            framing.direction = direction
            framing.framed += self.at.framed[direction] - before.framed[of_split]
            framing.skipped += self.at.skipped[direction] - before.skipped[of_split]
            framing.position += self.moved()[direction]
            # The position was not lost since, or the connection had been touched.
            known = self.framings[direction]
            framing.frames_since_found += self.at.frames[direction] - before.frames[of_split]
            framing.failures = known.failures
            framing.lost = known.lost
            framing.was_found = known.was_found
            for event in framing.waiting.events:
                event.direction = direction
                event.position += self.moved()[direction]
        return framings


def add(counts: DirectionCounts, before: tuple[int, ...], then: tuple[int, ...]) -> None:
    """Add a split's counts since `before` to those that the whole had `then`."""
    for name, start, known in zip(fields_of(DirectionCounts), before, then, strict=True):
        value = getattr(counts, name)
        if isinstance(value, bool):
            setattr(counts, name, value or bool(known))
        elif name == LONGEST:
            setattr(counts, name, max(value, known))
        else:
            setattr(counts, name, value - start + known)


def shift(receiver: Receiver, moved: int) -> None:
    """Positions as counted in the whole."""
    receiver.next_position += moved
    for name in ("timed_position", "fin_position", "window_probe"):
        if getattr(receiver, name) >= 0:
            setattr(receiver, name, getattr(receiver, name) + moved)
    receiver.acknowledged.move(moved)
    for split in receiver.held.pieces[receiver.held.head :]:
        split.position += moved


def turn(state: ConnectionState) -> None:
    """Swap the two sides of a connection."""
    connection = state.connection
    connection.flow = reverse_flow(connection.flow)
    connection.counts = connection.counts[::-1]
    connection.min_rtt_ns = connection.min_rtt_ns[::-1]
    if 0 <= connection.ended_by < UNKNOWN_SIDE:
        connection.ended_by = 1 - connection.ended_by
    state.request_direction = 1 - state.request_direction
    state.probed = (state.probed & 1) << 1 | state.probed >> 1
    for exchange in state.pending:
        exchange.request_direction = 1 - exchange.request_direction
    for frame in [*state.held, *(early.frame for early in state.early)]:
        frame.direction = 1 - frame.direction


def turned_state(known: tuple[Any, ...]) -> tuple[Any, ...]:
    """A `sync_state` with swapped sides."""
    one, other, first, second, request_direction, *rest = known
    return (other, one, second, first, 1 - request_direction, *rest)


def copied(positions: Positions) -> Positions:
    """Copy positions, independent of these."""
    return {topic: known.copied() for topic, known in positions.items()}


def complete(positions: Positions, past: Positions) -> None:
    """Complete the positions of a fetch session with the past that the split did not know."""
    goes_on = positions.pop(PAST, None) is not None
    unknown = unknown_mark(past)
    # Responses missed in the split may have repeated earlier marks.
    has_missed = LOST in positions
    for topic, here in positions.items():
        known = past.get(topic, TopicPositions())
        for place in range(0, len(here.cells), POSITION_WIDTH):
            before = known.place(here.cells[place], place)
            if here.cells[place + AT_MARK] == ASK:
                mark = unknown if before < 0 else known.cells[before + AT_MARK]
                here.cells[place + AT_MARK] = mark
            if here.cells[place + AT_OFFSET] == NULL and before >= 0 and goes_on:
                here.cells[place + AT_OFFSET] = known.cells[before + AT_OFFSET]
    if goes_on:
        for topic, known in past.items():
            here = positions.setdefault(topic, TopicPositions())
            for place in range(0, len(known.cells), POSITION_WIDTH):
                number, offset, mark = known.cells[place : place + POSITION_WIDTH]
                if here.place(number, place) < 0:
                    here.add(number, offset, UNSTATED if has_missed else mark)


def opened(synchronized: Synchronized, one: Open, state: ConnectionState) -> Open:
    """An open connection of a split, with its state there, as it is in the whole."""
    framings = [one.opener_framing, one.accepter_framing]
    synchronized.take(state)
    synchronized.take_receivers(one.opener)
    made = synchronized.take_framings([framing for framing in framings if framing is not None])
    opener = one.opener.peer if synchronized.is_turned else one.opener
    return Open(opener, made[0], made[1], state, None)
