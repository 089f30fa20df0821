"""How the long poll of a fetch ended, and how much of its time it asked for."""

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
# Whether the data of a response was there when it was asked for; the larger of two counts.
WAS_NOT_THERE: Final = 0
MAY_HAVE_BEEN_THERE: Final = 1  # what tells was not captured
WAS_THERE: Final = 2


def settle_share_fetch(exchange: Exchange, sink: FieldSink) -> None:
    """Say how the long poll of a share group's member ended.

    It names no offsets: the broker waited for data when the newest record, by its timestamp, is not
    older than the request.
    """
    newest = sink.newest_ms
    was_there: i64 = WAS_NOT_THERE
    if newest == NULL or newest < exchange.request_end // MS:
        was_there = WAS_THERE
    if exchange.request_end == NULL:
        was_there = MAY_HAVE_BEEN_THERE
    classify(exchange, was_there, sink.record_bytes)


def classify(exchange: Exchange, was_there: i64, record_bytes: i64) -> None:
    """Say how the long poll ended, as far as what was captured tells.

    The response is there in full. Of a request that is not, less is known: what it waits for, and
    for how long.
    """
    service = service_ns(exchange)
    min_bytes = exchange.min_bytes
    if exchange.error_count > 0:
        exchange.fetch_class = FETCH_ERROR
        exchange.wait_ns = 0
    elif record_bytes == 0 or record_bytes < min_bytes:
        exchange.fetch_class = FETCH_EMPTY
        if exchange.max_wait_ms != NULL:
            asked = max(exchange.max_wait_ms, 0) * MS
            exchange.wait_ns = min(service, asked)
    elif min_bytes == NULL or was_there == MAY_HAVE_BEEN_THERE:
        # The rest depends on it.
        return
    elif was_there == WAS_THERE:
        exchange.fetch_class = FETCH_DATA
        exchange.wait_ns = 0
    else:
        exchange.fetch_class = FETCH_WAITED
        exchange.wait_ns = service
