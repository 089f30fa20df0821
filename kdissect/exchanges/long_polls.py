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
from kdissect.exchanges.timing import service_ns
from kdissect.messages.facts import FactSink
from kdissect.protocol.readers import NULL

MS: Final = 1_000_000


def settle_share_fetch(exchange: Exchange, sink: FactSink) -> None:
    """Say how the long poll of a share group's member ended.

    It names no offsets: the broker waited for data when the newest record, by its timestamp, is not
    older than the request.
    """
    newest = sink.newest_ms
    was_there = newest == NULL or newest < exchange.request_end // MS
    classify(exchange, was_there, sink.record_bytes)


def classify(exchange: Exchange, was_there: bool, record_bytes: i64) -> None:
    """Say how the long poll ended."""
    service = service_ns(exchange)
    if exchange.error_count > 0:
        exchange.fetch_class = FETCH_ERROR
        exchange.wait_ns = 0
    elif record_bytes < exchange.min_bytes or record_bytes == 0:
        exchange.fetch_class = FETCH_EMPTY
        asked: i64 = exchange.max_wait_ms * MS if exchange.max_wait_ms > 0 else 0
        exchange.wait_ns = service if service < asked else asked
    elif was_there:
        exchange.fetch_class = FETCH_DATA
        exchange.wait_ns = 0
    else:
        exchange.fetch_class = FETCH_WAITED
        exchange.wait_ns = service
