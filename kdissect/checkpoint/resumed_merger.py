"""State of a merger, and a merger resumed from one.

The state consists of the stages' own parts (`Checkpoint`), except for TLS that is decrypted:
secrets are not written, so the position of such a connection in them is found in its packets.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from kdissect.capture.splits import Split
from kdissect.checkpoint.boundary_state import Open, Totals
from kdissect.checkpoint.checkpoint import VERSION, Checkpoint
from kdissect.checkpoint.split import compared_part, forget_answered
from kdissect.dissection.dissector import Dissector
from kdissect.errors import CaptureError
from kdissect.exchanges.topic_name_resolution import held_size
from kdissect.packets.decoder import PacketDecoder
from kdissect.packets.segment import Segment, flow_of
from kdissect.pipeline import Balance, Options, make_dissector
from kdissect.streams.clock import WRONG, Clock
from kdissect.streams.connections import Streams, own_copy, reverse_flow
from kdissect.streams.events import Connection, End
from kdissect.streams.receiver import Receiver
from kdissect.tls.session import Session
from kdissect.tls.stage import Tls

COUNTERS: Final = ("packets_by_reason", "protocols", "problems")


class Resumable(Protocol):
    """Attributes of a merger that are read and set here."""

    options: Options
    splits: list[Split]
    told: set[str]
    totals: Counter[str]
    reasons: Counter[str]
    dissector: Dissector
    reread: Any

    @property
    def balance(self) -> Balance:
        """Balance of the bytes of all splits."""
        ...

    def has_keys(self) -> bool:
        """Return whether there are TLS keys."""
        ...


def state_of(merger: Resumable) -> Checkpoint:
    """State of a merger; encode it before the merger continues, as the two share their values."""
    dissector = merger.dissector
    # Problems not taken yet become rows.
    dissector.feed([])
    streams, tls, exchanges = dissector.streams, dissector.tls, dissector.exchanges
    opened = [open_of(dissector, opener) for opener in streams.openers()]
    connections = [one.opener.connection for one in opened]
    sessions = [session for one in connections if (session := tls.session_of(one)) is not None]
    decrypted = tuple(one.connection for one in sessions if one.has_keys)
    # One whose keys are missing may have them in the next split.
    begun = [one.connection for one in sessions] if merger.has_keys() else decrypted
    merger.splits = needed(merger.splits, begun)
    balance = merger.balance
    return Checkpoint(
        VERSION,
        open=tuple(opened),
        due=streams.due,
        clock=streams.clock,
        odd=streams.odd,
        sessions=tuple(one for one in sessions if not one.has_keys),
        decrypted=decrypted,
        splits=tuple(merger.splits),
        told=tuple(one for one in connections if dissector.frames.has_told(one)),
        told_link_types=frozenset(merger.told),
        link_types=frozenset(dissector.decoder.unknown_link_types),
        fragments=dissector.decoder.waiting,
        marks=tuple(streams.copies.placed()),
        chunks=tuple(compared_part(chunk) for chunk in streams.recent.remembered()),
        segments=int(streams.copies.count),
        names=dict(exchanges.names),
        groups=exchanges.bodies.groups.protocols,
        fetch_sessions=exchanges.bodies.sessions.by_number,
        waiting=tuple(dissector.waiting.waiting()),
        given_up=dissector.waiting.given_up,
        totals=Totals(**{name: getattr(balance, name) for name in Totals._fields}),
    )


def open_of(dissector: Dissector, opener: Receiver) -> Open:
    """State of the stages for an open connection."""
    connection = opener.connection
    state = dissector.exchanges.states.get(connection.id)
    if state is not None:
        forget_answered(state)
    framings = dissector.frames.framings(connection)
    return Open(opener, *framings, state, dissector.tls.watch_of(connection))


def needed(splits: Sequence[Split], connections: Sequence[Connection]) -> list[Split]:
    """Splits from the one on in which the first of the connections begins."""
    if not connections:
        return []
    first = min(int(one.id) for one in connections)
    begun = [number for number, split in enumerate(splits) if split.ordinal <= first]
    return list(splits[begun[-1] if begun else 0 :])


def carry_on(merger: Resumable, state: Checkpoint) -> None:
    """Resume an unused merger from a state, whose values it takes over.

    Raises CaptureError where packets are needed and missing.
    """
    dissector = merger.dissector
    # The merger that made the state has reported problems of the key log.
    dissector.tls.keys.problems.clear()
    merger.splits = list(state.splits)
    merger.told |= state.told_link_types
    for one in state.open:
        take_open(dissector, one)
    dissector.streams.set_due(state.due)
    dissector.streams.clock = state.clock
    dissector.streams.odd = state.odd
    for session in state.sessions:
        dissector.tls.take_session(session)
    if state.decrypted:
        decrypt_again(merger, state)
    for connection in state.told:
        dissector.frames.set_told(connection)
    dissector.decoder.unknown_link_types |= state.link_types
    dissector.decoder.take_in(state.fragments)
    take_shared(dissector, state)
    for name, value in state.totals._asdict().items():
        if name in COUNTERS:
            own = merger.reasons if name == "packets_by_reason" else getattr(merger, name)
            own.update(value)
        else:
            merger.totals[name] += value


def take_open(dissector: Dissector, one: Open) -> None:
    """Resume an open connection."""
    connection = one.opener.connection
    dissector.streams.take_in(one.opener)
    dissector.frames.take_in(connection, (one.opener_framing, one.accepter_framing))
    dissector.tls.take_in(connection, one.watch)
    state = one.state
    if state is None:
        return
    if state.old is not None:
        state.old.move_to(dissector.exchanges.bodies.sink, dissector.exchanges.memory_budget)
    dissector.exchanges.take_in(state)


def take_shared(dissector: Dissector, state: Checkpoint) -> None:
    """Resume the state shared by connections."""
    copies, recent = dissector.streams.copies, dissector.streams.recent
    copies.refill(state.segments, list(state.marks))
    recent.now = state.segments
    recent.refill(list(state.chunks))
    exchanges = dissector.exchanges
    exchanges.names.update(state.names)
    for group, protocol in state.groups.items():
        exchanges.bodies.groups.learn(group, protocol)
    exchanges.bodies.sessions.by_number = state.fetch_sessions
    waiting = dissector.waiting
    waiting.queue = list(state.waiting)
    waiting.size = sum(held_size(one) for one in state.waiting)
    waiting.given_up = state.given_up


def decrypt_again(merger: Resumable, state: Checkpoint) -> None:
    """Advance TLS, by its packets, to the position of the state."""
    merger.has_keys()
    streams = make_dissector(merger.options, collects=False, keeps_frames=False).streams
    tls = merger.dissector.tls.sibling()
    feed_again(merger, state, streams, tls)
    for connection in state.decrypted:
        known = merger.dissector.streams.receiver_of(connection.flow)
        merger.dissector.tls.take_session(session_at(streams, tls, known, connection))


def feed_again(merger: Resumable, state: Checkpoint, streams: Streams, tls: Tls) -> None:
    """Feed both stages the packets of decrypted connections."""
    firsts: dict[bytes, int] = {}
    for connection in state.decrypted:
        firsts[connection.flow] = firsts[reverse_flow(connection.flow)] = int(connection.id)
    streams.holds_odd = False
    for segment in with_right_times(segments_again(merger, state)):
        first = firsts.get(flow_of(segment))
        if first is None or segment.ordinal < first or is_waiting(segment, state):
            continue
        for event in streams.feed(segment):
            is_clear = event.connection.clear_directions >> event.direction & 1
            if not is_clear or isinstance(event, End):
                tls.feed(event)


def segments_again(merger: Resumable, state: Checkpoint) -> Iterator[Segment]:
    """All segments since the first of the decrypted connections began."""
    decoder = PacketDecoder()
    for split in state.splits:
        for packets in merger.reread(split):
            yield from decoder.feed(packets)


def is_waiting(segment: Segment, state: Checkpoint) -> bool:
    """Return whether the state waits for the next packet to determine the segment's time."""
    return state.odd is not None and state.odd.ordinal == segment.ordinal


def with_right_times(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Return the segments, where a wrong time is replaced by the one before, as in the whole.

    The packets of some connections alone do not suffice: the next packet may be of another.
    """
    clock = Clock()
    odd: Segment | None = None
    for segment in segments:
        if odd is not None:
            before_ns = clock.now_ns
            says = clock.judge(segment.time_ns)
            clock.settle(says)
            if says == WRONG:
                odd.time_ns = before_ns
            yield odd
            odd = None
        if clock.is_odd(segment.time_ns):
            odd = own_copy(segment)
        else:
            yield segment
    if odd is not None:
        yield odd


def session_at(
    streams: Streams, tls: Tls, known: Receiver | None, connection: Connection
) -> Session:
    """The session of a connection, which must be at the position of the state."""
    found = streams.receiver_of(connection.flow)
    session = tls.session_of(found.connection) if found is not None else None
    if found is None or known is None or session is None or places(found) != places(known):
        raise CaptureError("the captures are no longer those whose TLS was decrypted before")
    session.be_of(connection)
    return session


def places(receiver: Receiver) -> tuple[int, int]:
    """Positions of both directions."""
    return int(receiver.next_position), int(receiver.peer.next_position)
