"""The parts of an exchange's latency (see the columns of the `exchanges` table)."""

from typing import Final

from mypy_extensions import i64

from kdissect.exchanges.exchange import CLOCK_SET, Exchange
from kdissect.protocol.readers import NULL

NOT_COORDINATOR: Final = 16
REBALANCE_IN_PROGRESS: Final = 27
FENCED_INSTANCE_ID: Final = 82
# In place of the end of the previous answer, if not captured; NULL: there was none.
UNKNOWN_END: Final[i64] = -1


def queue_ns(exchange: Exchange, response_start: i64, previous_end: i64) -> i64:
    """Part of the latency spent behind earlier requests: within 0 and the latency; NULL unknown.

    Also unknown where packets are not in order of time, or the clock was set meanwhile.
    """
    if exchange.request_end == NULL or previous_end == UNKNOWN_END:
        return NULL
    if exchange.status & CLOCK_SET:
        return NULL
    latency = response_start - exchange.request_end
    if latency < 0:
        return NULL
    if previous_end == NULL:
        return 0
    behind = previous_end - exchange.request_end
    if behind <= 0:
        return 0
    return behind if behind < latency else latency


def own_wait_ns(exchange: Exchange) -> i64:
    """Wait of a request without a requested wait: 0; NULL if its latency is unknown."""
    if exchange.request_end == NULL or exchange.status & CLOCK_SET:
        return NULL
    return 0 if exchange.response_start >= exchange.request_end else NULL


def group_wait_ns(exchange: Exchange) -> i64:
    """Wait of a JoinGroup or SyncGroup for the other members; NULL if unknown.

    A refusal comes at once, but for those that end a wait.
    """
    code = exchange.error_code
    if code in (0, REBALANCE_IN_PROGRESS):
        return service_ns(exchange)
    if code in (NULL, NOT_COORDINATOR, FENCED_INSTANCE_ID):
        return NULL
    return own_wait_ns(exchange)


def service_ns(exchange: Exchange) -> i64:
    """Latency without the queue; NULL when a side of it was not captured."""
    if exchange.request_end == NULL or exchange.queue_ns == NULL:
        return NULL
    service = exchange.response_start - exchange.request_end - exchange.queue_ns
    return service if service > 0 else 0
