"""State of a connection that must agree between a split and the whole for both to continue alike.

Positions count from the next byte, troubles from now, so that the start of counting does not
matter. Left out are values that only grow (counts, smallest round trips: they are added up), values
that are only used after setting `Connection.history_used` (compared by `has_same_past`), and the
positions of fetch sessions, which are handled in `exchanges.fetches`.
"""

from hashlib import blake2b
from typing import Any, NamedTuple

from kdissect.checkpoint.codec import fields_of
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.latency_parts import UNKNOWN_END
from kdissect.framing.frames import AT_SIZE, IN_BODY, FramingState
from kdissect.messages.partitions import NO_ID, Partition, Partitions
from kdissect.protocol.readers import NULL
from kdissect.streams.direction_counts import DirectionCounts
from kdissect.streams.events import PAST_GAPS, PAST_IDS, UNKNOWN_SIDE
from kdissect.streams.receiver import Receiver
from kdissect.streams.tcp_analysis import RTO_NS

FramingStates = tuple[FramingState | None, FramingState | None]


class Counted(NamedTuple):
    """Counts of a connection up to a moment, by direction; see `FramingState`.

    `positions` are those of the next bytes, `frames` counts since framing was last lost, and
    `repeats_ids` is as in `ConnectionState`.
    """

    positions: tuple[int, int]
    counts: tuple[tuple[int, ...], tuple[int, ...]]
    framed: tuple[int, int]
    skipped: tuple[int, int]
    frames: tuple[int, int]
    exchanges: int
    repeats_ids: bool

    def gaps(self, direction: int) -> int:
        """Holes of a direction whose bytes never came."""
        return self.counts[direction][fields_of(DirectionCounts).index("gaps")]


NOTHING_COUNTED = Counted((0, 0), ((), ()), (0, 0), (0, 0), (0, 0), 0, False)


def counted(receiver: Receiver, framings: FramingStates, state: ConnectionState) -> Counted:
    """Current counts of a connection; `receiver` is the opener's."""
    opener, accepter = framings
    connection = receiver.connection
    return Counted(
        (int(receiver.next_position), int(receiver.peer.next_position)),
        (counts_of(connection.counts[0]), counts_of(connection.counts[1])),
        (opener.framed if opener else 0, accepter.framed if accepter else 0),
        (opener.skipped if opener else 0, accepter.skipped if accepter else 0),
        (
            opener.frames_since_found if opener else 0,
            accepter.frames_since_found if accepter else 0,
        ),
        int(state.exchange_count),
        state.repeats_ids,
    )


def has_same_past(
    history_used: int, of_split: tuple[int, bool], of_whole: tuple[int, bool]
) -> bool:
    """Return whether a split would have decided alike with the history of the whole.

    `of_split` and `of_whole` are the gaps among the responses up to the synchronization, and
    whether ids were repeated: both only matter to responses that follow a gap (`_behind_hole` in
    `exchanges.pairing`).
    """
    if history_used & ~(PAST_GAPS | PAST_IDS):
        return False
    gaps, repeats_ids = of_split
    gaps_of_whole, whole_repeats_ids = of_whole
    if repeats_ids == whole_repeats_ids:
        return not history_used & PAST_GAPS or (gaps > 0) == (gaps_of_whole > 0)
    # The split did not know that ids are repeated. It does not matter before the first gap.
    return whole_repeats_ids and gaps == gaps_of_whole == 0 and not history_used & PAST_IDS


def counts_of(counts: DirectionCounts) -> tuple[int, ...]:
    """All counts of a direction, in the order of `fields_of`; FIN and RST last."""
    return tuple(int(getattr(counts, name)) for name in fields_of(DirectionCounts))


def sync_state(
    opener: Receiver, framings: FramingStates, state: ConnectionState
) -> tuple[Any, ...] | None:
    """State that must agree; None when the connection is in the middle of something."""
    directions = (receiver_state(opener), receiver_state(opener.peer))
    cut = [framing_state(framing) for framing in framings]
    known = conversation_state(state)
    if None in directions or None in cut or known is None:
        return None
    return (*directions, *cut, *known)


def receiver_state(receiver: Receiver) -> tuple[Any, ...] | None:
    """Reassembly state of a direction; None while it waits for bytes, or whether any were lost, or
    for the end of the handshake.
    """
    here = receiver.next_position
    is_behind = receiver.acknowledged.position > here
    is_waiting = not receiver.held.is_empty or receiver.resent.is_open()
    # The split would measure the handshake, and the connection has the times of the whole.
    is_waiting = is_waiting or receiver.awaits_handshake
    if receiver.next_sequence < 0 or is_waiting or receiver.stray or is_behind:
        return None
    now = receiver.connection.last_time_ns
    tcp_analysis = receiver.tcp_analysis
    is_asking = tcp_analysis.repeats > 0 and (
        now - tcp_analysis.repeated_ns < RTO_NS
        or tcp_analysis.repeated == receiver.latest_acknowledgment
    )
    return (
        int(receiver.next_sequence),
        int(receiver.latest_acknowledgment),
        int(receiver.latest_window),
        receiver.announces_zero,
        int(tcp_analysis.closed_ns),
        (tcp_analysis.repeated, tcp_analysis.repeats, tcp_analysis.repeated_ns)
        if is_asking
        else None,
        receiver.window_probe - here if receiver.window_probe >= here - 1 else None,
        receiver.fin_position - here if receiver.fin_position >= 0 else None,
        (receiver.timed_position - here, int(receiver.timed_ns))
        if receiver.timed_position >= 0
        else None,
        end_state(receiver),
    )


def end_state(receiver: Receiver) -> tuple[bool, bool, bool] | None:
    """End of the connection as seen by a direction: ended it, unknown, sent a FIN; None if open."""
    ended_by = receiver.connection.ended_by
    if ended_by < 0:
        return None
    return ended_by == receiver.direction, ended_by == UNKNOWN_SIDE, receiver.counts.fin_seen


def framing_state(framing: FramingState | None) -> tuple[Any, ...] | None:
    """Framing state of a direction; None while frames are searched for."""
    if framing is None or framing.state not in (AT_SIZE, IN_BODY):
        return None
    place: tuple[Any, ...] | None = None
    if framing.state == IN_BODY or framing.parts:
        place = (
            int(framing.size), int(framing.wanted), framing.is_holed, int(framing.held),
            blake2b(b"".join(framing.parts)).digest(), int(framing.time_ns), int(framing.packet),
            int(framing.index), framing.connection.tcp_events - framing.tcp_events,
            framing.connection.clock_steps - framing.steps,
        )  # fmt: skip
    return int(framing.state), place, int(framing.ordinal), framing.is_behind_loss


def conversation_state(state: ConnectionState) -> tuple[Any, ...] | None:
    """Waiting requests and protocol state; None if not all is Kafka, or during a login."""
    login = state.login
    if (
        state.protocol != "kafka"
        or state.old is not None
        or state.is_unproved
        or state.request_direction < 0
        or state.held
        or state.early
        or login.is_open
        or login.in_tokens
    ):
        return None
    tcp_events = state.connection.tcp_events
    pending = state.pending[state.pending_head :]
    last_end = int(state.last_response_end)
    is_of_old = state.last_response_steps != state.connection.clock_steps
    is_before = bool(pending) and last_end <= pending[0].request_end
    if last_end != UNKNOWN_END and (is_of_old or is_before):
        # As far as known, the first waiting request has not been behind another: see
        # `queue_ns`.
        last_end = NULL
    return (
        int(state.request_direction),
        last_end,
        int(state.last_correlation_id),
        state.last_client_id,
        int(state.last_request_ns),
        state.has_overflowed,
        state.has_let_go,
        state.misses_answers,
        int(state.dialect),
        state.is_told,
        int(state.refused),
        int(state.session_id),
        [pending_state(one, tcp_events) for one in pending],
        [state.connection.clock_steps - one.steps_at_start for one in pending],
    )


LEFT_OUT = frozenset(
    (
        "connection", "connection_id", "request_direction", "request_frame", "response_frame",
        "tcp_events_at_start", "steps_at_start", "records",
    )
)  # fmt: skip
# The rows get the final name.
LEFT_OUT_BY_ID = LEFT_OUT | {"topic"}


def pending_state(value: Any, tcp_events: int) -> Any:
    """A waiting request with all its known properties, as plain values."""
    if isinstance(value, Partitions):
        value = value.rows()
    if isinstance(value, list | tuple):
        return [pending_state(one, tcp_events) for one in value]
    names = fields_of(type(value))
    if not names:
        return value
    is_by_id = isinstance(value, Partition) and value.topic_id != NO_ID
    left_out = LEFT_OUT_BY_ID if is_by_id else LEFT_OUT
    plain = [
        pending_state(getattr(value, name), tcp_events) for name in names if name not in left_out
    ]
    if "tcp_events_at_start" in names:
        plain.append(tcp_events - value.tcp_events_at_start)
    return plain
