"""Fetch sessions: offsets that a request leaves out, and how a long poll ended (KIP-227).

A session lives on the broker, which numbers it. A client that connects anew goes on with it, so
sessions are kept by broker and number, and by connection the one that is in use.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.exchanges.exchange import (
    FETCH_DATA,
    FETCH_EMPTY,
    FETCH_ERROR,
    FETCH_WAITED,
    Exchange,
)
from kdissect.exchanges.memory import ConnectionState, FetchPosition, Positions
from kdissect.exchanges.timing import service_ns
from kdissect.messages.facts import NO_ID, FactSink, Partition
from kdissect.protocol.readers import NULL
from kdissect.streams.events import OPENER

MS: Final = 1_000_000
# A broker keeps 1 000 (max.incremental.fetch.session.cache.slots); each holds the partitions that
# its requests named.
SESSION_LIMIT: Final = 5_000


class FetchSessions:
    """The sessions of all brokers; the oldest are forgotten when there are too many."""

    def __init__(self, limit: i64 = SESSION_LIMIT) -> None:
        self.by_number: dict[tuple[bytes, int], Positions] = {}
        self.limit = limit

    def go_on(self, state: ConnectionState, number: i64) -> None:
        """The connection uses a session that was made on another one, or before the capture."""
        known = self.by_number.get((broker_of(state), number))
        if known is not None:
            state.positions = known
        elif state.session_id != 0:
            state.positions = {}
        state.session_id = number

    def made(self, state: ConnectionState, number: i64) -> None:
        """The broker gave the connection's session its number."""
        state.session_id = number
        self.by_number[(broker_of(state), number)] = state.positions
        if len(self.by_number) > self.limit:
            del self.by_number[next(iter(self.by_number))]

    def close(self, state: ConnectionState, number: i64) -> None:
        """The client ends a session, whether or not it begins another."""
        self.by_number.pop((broker_of(state), number), None)
        state.session_id = 0


def broker_of(state: ConnectionState) -> bytes:
    """Address and port of the broker's side."""
    flow = state.connection.flow
    size = len(flow)
    width = (size - 4) // 2
    if state.request_direction == OPENER:
        return flow[width : width * 2] + flow[size - 2 :]
    return flow[:width] + flow[size - 4 : size - 2]


def remember_positions(state: ConnectionState, sink: FactSink, sessions: FetchSessions) -> None:
    """Keep the fetch offsets a Fetch request names; epoch 0 or -1 names them all anew (KIP-227)."""
    if sink.session_epoch == NULL or sink.session_epoch <= 0:
        if sink.session_id > 0:
            sessions.close(state, sink.session_id)
        fresh: Positions = {}
    else:
        if sink.session_id != state.session_id:
            sessions.go_on(state, sink.session_id)
        fresh = state.positions
    for row in sink.partitions:
        key: object = row.topic_id if row.topic_id != NO_ID else row.topic
        known = fresh.get(key)
        if known is None:
            known = {}
            fresh[key] = known
        position = FetchPosition(row.fetch_offset)
        before = state.positions.get(key)
        if before is not None:
            old = before.get(row.partition)
            if old is not None:
                position.high_watermark = old.high_watermark
        known[row.partition] = position
    state.positions = fresh


def settle_fetch(
    state: ConnectionState, exchange: Exchange, sink: FactSink, sessions: FetchSessions
) -> None:
    """Fill in fetch offsets the session left out, and say how the long poll ended.

    Data had been there already when the offset asked for was below the high watermark last stated
    on this connection (or none was stated yet); otherwise the broker waited for it.
    """
    if sink.session_id > 0 and sink.session_id != state.session_id:
        sessions.made(state, sink.session_id)
    was_there = False
    for row in sink.partitions:
        position = position_of(state, row)
        if position is None:
            continue
        if row.fetch_offset == NULL:
            row.fetch_offset = position.offset
        if row.record_bytes > 0:
            seen = position.high_watermark
            if seen == NULL or row.fetch_offset < seen:
                was_there = True
        if row.high_watermark != NULL:
            position.high_watermark = row.high_watermark
    service = service_ns(exchange)
    if exchange.error_count > 0:
        exchange.fetch_class = FETCH_ERROR
        exchange.wait_ns = 0
    elif sink.record_bytes < exchange.min_bytes or sink.record_bytes == 0:
        exchange.fetch_class = FETCH_EMPTY
        asked: i64 = exchange.max_wait_ms * MS if exchange.max_wait_ms > 0 else 0
        exchange.wait_ns = service if service < asked else asked
    elif was_there:
        exchange.fetch_class = FETCH_DATA
        exchange.wait_ns = 0
    else:
        exchange.fetch_class = FETCH_WAITED
        exchange.wait_ns = service


def position_of(state: ConnectionState, row: Partition) -> FetchPosition | None:
    """Where the connection's fetch session stands in a partition of a response."""
    key: object = row.topic_id if row.topic_id != NO_ID else row.topic
    known = state.positions.get(key)
    return None if known is None else known.get(row.partition)
