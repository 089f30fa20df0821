"""The parts of an exchange's latency (see the columns of the `exchanges` table)."""

from typing import Final

from mypy_extensions import i64

from kdissect.exchanges.exchange import Exchange
from kdissect.protocol.readers import NULL

# In place of the end of the previous answer, when that was not captured; NULL: there was none.
UNKNOWN_END: Final[i64] = -1


def queue_ns(exchange: Exchange, response_start: i64, previous_end: i64) -> i64:
    """Part of the latency spent behind earlier requests: within 0 and the latency; NULL unknown."""
    if exchange.request_end == NULL or previous_end == UNKNOWN_END:
        return NULL
    latency = response_start - exchange.request_end
    if previous_end == NULL or latency <= 0:
        return 0
    behind = previous_end - exchange.request_end
    if behind <= 0:
        return 0
    return behind if behind < latency else latency


def service_ns(exchange: Exchange) -> i64:
    """Latency without the queue; NULL when a side of it was not captured."""
    if exchange.request_end == NULL or exchange.queue_ns == NULL:
        return NULL
    service = exchange.response_start - exchange.request_end - exchange.queue_ns
    return service if service > 0 else 0
