"""The end of a fetch's long poll, and its long-poll share."""

from typing import Final

from mypy_extensions import i64

from kdissect.exchanges.exchange import (
    FETCH_DATA,
    FETCH_EMPTY,
    FETCH_ERROR,
    FETCH_WAITED,
    Exchange,
)
from kdissect.exchanges.latency_parts import service_ns
from kdissect.messages.extracted import FieldSink
from kdissect.protocol.readers import NULL

MS: Final = 1_000_000
# Whether the data of a response was present when requested; the larger of two counts.
WAS_NOT_THERE: Final = 0
MAY_HAVE_BEEN_THERE: Final = 1  # the evidence was not captured
WAS_THERE: Final = 2


def settle_share_fetch(exchange: Exchange, sink: FieldSink) -> None:
    """Set how the long poll of a share group's member ended.

    The request names no offsets: the broker waited for data when the newest record, by its
    timestamp, is not older than the request.
    """
    newest = sink.newest_ms
    was_there: i64 = WAS_NOT_THERE
    if newest == NULL or newest < exchange.request_end // MS:
        was_there = WAS_THERE
    if exchange.request_end == NULL:
        was_there = MAY_HAVE_BEEN_THERE
    classify(exchange, was_there, sink.record_bytes)


def classify(exchange: Exchange, was_there: i64, record_bytes: i64) -> None:
    """Set how the long poll ended, as far as the captured data shows.

    The response is complete. Of an incomplete request, the awaited amount and the maximum wait are
    unknown.
    """
    service = service_ns(exchange)
    min_bytes = exchange.asked.min_bytes
    if exchange.error_count > 0:
        # There from the start, or the end of a long poll: leaders change meanwhile.
        exchange.fetch_class = FETCH_ERROR
        exchange.wait_ns = NULL
    elif record_bytes == 0 or record_bytes < min_bytes:
        exchange.fetch_class = FETCH_EMPTY
        if exchange.asked.max_wait_ms != NULL:
            asked = max(exchange.asked.max_wait_ms, 0) * MS
            exchange.wait_ns = min(service, asked)
    elif min_bytes == NULL or was_there == MAY_HAVE_BEEN_THERE:
        # The remaining cases depend on it.
        return
    elif was_there == WAS_THERE:
        exchange.fetch_class = FETCH_DATA
        exchange.wait_ns = 0
    else:
        exchange.fetch_class = FETCH_WAITED
        exchange.wait_ns = service
