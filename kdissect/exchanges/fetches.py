"""Fetch sessions: offsets that a request leaves out, and how a long poll ended (KIP-227).

A session lives on the broker, which numbers it. A client that connects anew goes on with it, so
sessions are kept by broker and number, and by connection the one that is in use.

In a piece of a capture the past of a session is not known. Its positions have the key PAST then,
and high watermarks that may have been stated before are ASK; what depends on them is left to
whoever knows the past (`Exchange.asks`, `settle_asks`).
"""

from typing import Final

from mypy_extensions import i64

from kdissect.exchanges.exchange import (
    FETCH_DATA,
    FETCH_EMPTY,
    FETCH_ERROR,
    FETCH_WAITED,
    Asks,
    Exchange,
)
from kdissect.exchanges.memory import ASK, PAST, ConnectionState, FetchPosition, Positions
from kdissect.exchanges.timing import service_ns
from kdissect.messages.facts import NO_ID, FactSink, Partition
from kdissect.protocol.readers import NULL
from kdissect.streams.events import INSIDE, OPENER, SHARED_PAST

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
        session = (broker_of(state), number)
        known = self.by_number.get(session)
        connection = state.connection
        if known is not None:
            state.positions = known
            if PAST in known:
                connection.touched |= SHARED_PAST
        elif connection.edge != INSIDE and state.session_id == 0:
            self.keep(session, state.positions)
        else:
            connection.touched |= SHARED_PAST
            if state.session_id != 0:
                state.positions = {}
        state.session_id = number

    def made(self, state: ConnectionState, number: i64) -> None:
        """The broker gave the connection's session its number."""
        state.session_id = number
        self.keep((broker_of(state), number), state.positions)

    def keep(self, session: tuple[bytes, int], positions: Positions) -> None:
        """A session, by broker and number, stands at these positions."""
        self.by_number[session] = positions
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
    is_past_unknown = PAST in state.positions
    for row in sink.partitions:
        key: object = row.topic_id if row.topic_id != NO_ID else row.topic
        known = fresh.get(key)
        if known is None:
            known = {}
            fresh[key] = known
        position = FetchPosition(row.fetch_offset)
        before = state.positions.get(key)
        old = None if before is None else before.get(row.partition)
        if old is not None:
            position.high_watermark = old.high_watermark
        elif is_past_unknown:
            position.high_watermark = ASK
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
    asks: list[Partition] | None = None
    for row in sink.partitions:
        position = position_of(state, row)
        is_new = position is None
        if position is None:
            position = add_position(state, row)
        if row.fetch_offset == NULL:
            row.fetch_offset = position.offset
        if (is_new and PAST in state.positions) or position.high_watermark == ASK:
            if asks is None:
                asks = []
            asks.append(row)
        elif was_waiting(row, position.high_watermark):
            was_there = True
        if row.high_watermark != NULL:
            position.high_watermark = row.high_watermark
    if asks is not None:
        exchange.asks = Asks(asks, was_there, sink.record_bytes)
    classify(exchange, was_there, sink.record_bytes)


def was_waiting(row: Partition, seen: i64) -> bool:
    """Whether a partition's records had been there already; `seen`: how far the log went."""
    if row.record_bytes <= 0 or row.fetch_offset == NULL:
        return False
    return seen == NULL or row.fetch_offset < seen


def settle_asks(exchange: Exchange, past: Positions) -> None:
    """Say what had to be left open, now that the positions of its session are known."""
    asks = exchange.asks
    if asks is None:
        return
    for row in asks.rows:
        known = past.get(row.topic_id if row.topic_id != NO_ID else row.topic)
        position = None if known is None else known.get(row.partition)
        if position is not None and row.fetch_offset == NULL:
            row.fetch_offset = position.offset
        if was_waiting(row, NULL if position is None else position.high_watermark):
            asks.was_there = True
    exchange.asks = None
    classify(exchange, asks.was_there, asks.record_bytes)


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


def add_position(state: ConnectionState, row: Partition) -> FetchPosition:
    """A partition that no request named; how far its log goes is worth remembering."""
    key: object = row.topic_id if row.topic_id != NO_ID else row.topic
    known = state.positions.get(key)
    if known is None:
        known = {}
        state.positions[key] = known
    position = FetchPosition(NULL)
    known[row.partition] = position
    return position


def position_of(state: ConnectionState, row: Partition) -> FetchPosition | None:
    """Where the connection's fetch session stands in a partition of a response."""
    key: object = row.topic_id if row.topic_id != NO_ID else row.topic
    known = state.positions.get(key)
    return None if known is None else known.get(row.partition)
