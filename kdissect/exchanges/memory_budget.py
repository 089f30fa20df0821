"""Memory that the exchanges stage holds for all connections together, and its bounds.

Frames wait as early responses, whose request is behind a hole, or undecided, until the protocol of
the connection is known. A frame that cannot be held costs its exchange, and nothing else. Requests
wait for their answers; a dropped one is unanswered.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import Exchange
from kdissect.framing.frames import Frame
from kdissect.limits import Limits

FRAME_COST: Final = 256  # bytes a frame takes beside its body, so that tiny ones count too
# Undecided bodies of one connection: an unknown protocol must not use up the memory of all.
UNDECIDED_BYTES: Final = 1 << 20
# Approximate bytes of a request, and of its row of each partition, beside frame and records.
REQUEST_COST: Final = 1024
PARTITION_COST: Final = 128
EVICTED_SHARE: Final = 16  # one in so many is dropped when there are too many: amortizes the sort


class MemoryBudget:
    """Counts waiting frames and requests; bounds as in `Limits`.

    `frame_bytes` are those of all frames, `request_bytes` of all requests; with `keeps_records`
    requests hold their records.
    """

    __slots__ = (
        "early_responses", "undecided_frames", "max_frame_bytes", "frame_bytes",
        "max_request_bytes", "request_bytes", "keeps_records",
    )  # fmt: skip

    def __init__(self, limits: Limits | None = None) -> None:
        if limits is None:
            limits = Limits()
        self.early_responses: i64 = limits.early_responses
        self.undecided_frames: i64 = limits.undecided_frames
        self.max_frame_bytes: i64 = limits.waiting_bytes_in_all
        self.frame_bytes: i64 = 0
        self.max_request_bytes: i64 = limits.pending_bytes_in_all
        self.request_bytes: i64 = 0
        self.keeps_records: bool = False

    def add(self, frame: Frame) -> None:
        """Add a waiting frame."""
        self.frame_bytes += FRAME_COST + len(frame.data)

    def remove(self, frame: Frame) -> None:
        """Remove a frame that no longer waits."""
        self.frame_bytes -= FRAME_COST + len(frame.data)

    def add_request(self, exchange: Exchange) -> bool:
        """Add a waiting request; return whether there are now too many."""
        self.request_bytes += self._request_cost(exchange)
        return self.has_too_many_requests()

    def has_too_many_requests(self) -> bool:
        """Return whether some must be dropped."""
        return self.request_bytes > self.max_request_bytes

    def remove_request(self, exchange: Exchange) -> None:
        """Remove a request that no longer waits; call it before its answer is read."""
        self.request_bytes -= self._request_cost(exchange)

    def _request_cost(self, exchange: Exchange) -> i64:
        cost: i64 = REQUEST_COST
        if exchange.partitions is not None:
            cost += exchange.partitions.count * PARTITION_COST + exchange.partitions.spent
        # A character takes up to 4 bytes.
        cost += 4 * (len(exchange.asked.group_id) + len(exchange.asked.transactional_id))
        if exchange.client_id is not None:
            cost += 4 * len(exchange.client_id)
        if exchange.request_frame is not None:
            cost += len(exchange.request_frame.data)
        if self.keeps_records and exchange.record_bytes > 0:
            cost += exchange.record_bytes
        return cost

    def has_too_many(self, early_count: i64) -> bool:
        """Return whether a connection with so many early responses must drop one."""
        return early_count > self.early_responses or self.frame_bytes > self.max_frame_bytes

    def has_room(self, held: list[Frame], frame: Frame) -> bool:
        """Return whether a connection may hold another frame beside its undecided ones."""
        if len(held) >= self.undecided_frames:
            return False
        own: i64 = len(frame.data)
        if self.frame_bytes + FRAME_COST + own > self.max_frame_bytes:
            return False
        for other in held:
            own += len(other.data)
        return own <= UNDECIDED_BYTES


def oldest_waiting(states: list[ConnectionState]) -> list[tuple[ConnectionState, int]]:
    """Choose the requests to drop: one in LET_GO_SHARE of all waiting ones, at least one.

    Returns connections, each with the index in `pending` of the first that may stay.
    """
    times: list[int] = []
    for state in states:
        latest: i64 = 0
        for exchange in state.pending[state.pending_head :]:
            # Within a connection the first is dropped first, independent of the clock.
            latest = max(latest, exchange.request_start)
            times.append(latest)
    if not times:
        return []
    times.sort()
    last: i64 = times[(len(times) - 1) // EVICTED_SHARE]
    found: list[tuple[ConnectionState, int]] = []
    for state in states:
        at = state.pending_head
        while at < len(state.pending) and state.pending[at].request_start <= last:
            at += 1
        if at > state.pending_head:
            found.append((state, at))
    return found
