"""Fetch sessions: offsets that a request leaves out, and how a long poll ended (KIP-227).

A session lives on the broker, which numbers it. A client that reconnects continues it, so sessions
are kept by broker and number, and the one in use by connection.

In a split of a capture the past of a session is unknown. Its positions then have the key PAST, and
high watermarks that may have been stated before are ASK; the columns that depend on them are left
to the merger, which knows the past (`Exchange.asks`, `settle_asks`).

Where requests or responses of a session are missing, in whole or in part, its past is lost, for the
whole capture too. Its positions then have the key LOST, high watermarks that may have been stated
before are UNSTATED, and columns that depend on them are null. A full fetch request names all
positions anew.

Longer than other modules: the states PAST, LOST and UNSTATED change together.
"""

from itertools import islice
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from kdissect.exchanges.connection_state import (
    ASK,
    AT_MARK,
    AT_OFFSET,
    LOST,
    PAST,
    POSITION_WIDTH,
    TOPIC_BYTES,
    UNSTATED,
    ConnectionState,
    Positions,
    TopicPositions,
)
from kdissect.exchanges.exchange import Asks, Exchange
from kdissect.exchanges.long_polls import (
    MAY_HAVE_BEEN_THERE,
    WAS_NOT_THERE,
    WAS_THERE,
    classify,
)
from kdissect.limits import DECODED_BYTES
from kdissect.messages.extracted import FieldSink
from kdissect.messages.partitions import (
    AT_FETCH_OFFSET,
    AT_HIGH_WATERMARK,
    AT_PARTITION,
    AT_RECORD_BYTES,
    NO_ID,
    WIDTH,
    Partitions,
)
from kdissect.protocol.readers import NULL
from kdissect.streams.events import OPENER, SHARED_PAST

# A broker keeps 1 000 (max.incremental.fetch.session.cache.slots); each holds the partitions that
# its requests named.
SESSION_LIMIT: Final = 5_000
POSITION_BYTES: Final = 8 * POSITION_WIDTH
MAX_NOTED: Final = 50_000  # sessions that a split notes; a broker keeps 1 000
FORGOTTEN_SHARE: Final = 16  # dropped at once, one in so many: finding a dict's first key is slow
NOWHERE: Final = TopicPositions()  # of an unknown topic; nothing is added to it


class SessionUsers:
    """Connections that have used the same sessions, and sessions that were closed, in a split.

    The merger may dissect a connection again; of a session that others use too, it would have the
    positions of another moment. `shared` are the ids of such connections. `is_unknown`: there were
    too many sessions, or a connection has left the one that it had before the split for another.
    """

    __slots__ = ("shared", "closed", "is_unknown", "_last", "_most")

    def __init__(self, most: i64 = MAX_NOTED) -> None:
        self._most = most
        self.shared: set[int] = set()
        self.closed: set[tuple[bytes, int]] = set()
        self.is_unknown: bool = False
        self._last: dict[tuple[bytes, int], int] = {}

    def use(self, session: tuple[bytes, int], connection_id: i64) -> None:
        """Note that a connection uses a session."""
        last: i64 = self._last.get(session, connection_id)
        if last != connection_id:
            self.shared.add(last)
            self.shared.add(connection_id)
        if session in self._last or len(self._last) < self._most:
            self._last[session] = connection_id
        else:
            self.is_unknown = True

    def close(self, session: tuple[bytes, int], connection_id: i64) -> None:
        """Note that a connection closes a session."""
        self.use(session, connection_id)
        if not self.is_unknown:
            self.closed.add(session)


class FetchSessions:
    """The sessions of all brokers; the oldest are forgotten when there are too many.

    Positions of all connections may take `max_size` bytes; `size` counts those added since the last
    count. `users` is for splits of captures.
    """

    def __init__(self, limit: i64 = SESSION_LIMIT, max_size: i64 = DECODED_BYTES) -> None:
        self.by_number: dict[tuple[bytes, int], Positions] = {}
        self.limit = limit
        self.max_size = max_size
        self.size: i64 = 0
        self.users: SessionUsers | None = None

    def note(self, partition_count: i64, topic_count: i64) -> None:
        """Note positions of so many partitions that may be new; known ones are noted too."""
        self.size += partition_count * POSITION_BYTES + topic_count * TOPIC_BYTES

    def has_too_many(self) -> bool:
        """Return whether positions have to be counted, and possibly forgotten."""
        return self.size > self.max_size

    def count(self, states: list[ConnectionState]) -> bool:
        """Count the positions of all and forget them if too many; return True then."""
        known: dict[int, Positions] = {id(state.positions): state.positions for state in states}
        for positions in self.by_number.values():
            known[id(positions)] = positions
        self.size = 0
        for positions in known.values():
            for topic in positions.values():
                self.size += topic.size
        # A quarter of it may be added before the next count.
        if self.size <= self.max_size // 4 * 3:
            return False
        for state in states:
            # Not PAST: the state left by an earlier split is older than the forgotten one.
            state.positions = {LOST: NOWHERE}
        self.by_number = {}
        self.size = 0
        return True

    def go_on(self, state: ConnectionState, number: i64) -> None:
        """Continue a session that was made on another connection, or before the capture."""
        session = (broker_of(state), number)
        known = self.by_number.get(session)
        connection = state.connection
        if self.users is not None:
            self.users.use(session, connection.id)
        if known is not None:
            state.positions = known
            if PAST in known:
                connection.use_history(SHARED_PAST)
        elif connection.is_suppressed() and state.session_id == 0:
            self.keep(session, state.positions)
        else:
            connection.use_history(SHARED_PAST)
            if state.session_id != 0:
                state.positions = {}
            state.positions[LOST] = NOWHERE
        state.session_id = number

    def made(self, state: ConnectionState, number: i64) -> None:
        """The broker assigned the connection's session its number."""
        state.session_id = number
        session = (broker_of(state), number)
        if self.users is not None:
            self.users.use(session, state.connection.id)
        self.keep(session, state.positions)

    def keep(self, session: tuple[bytes, int], positions: Positions) -> None:
        """Store the positions of a session, by broker and number."""
        self.by_number[session] = positions
        if len(self.by_number) > self.limit:
            count = max(1, self.limit // FORGOTTEN_SHARE)
            for oldest in list(islice(self.by_number, count)):
                del self.by_number[oldest]

    def close(self, state: ConnectionState, number: i64) -> None:
        """The client ends a session, whether or not it begins another."""
        session = (broker_of(state), number)
        if self.users is not None:
            self.users.close(session, state.connection.id)
        self.by_number.pop(session, None)
        state.session_id = 0


def broker_of(state: ConnectionState) -> bytes:
    """Address and port of the broker's side."""
    flow = state.connection.flow
    size = len(flow)
    width = (size - 4) // 2
    if state.request_direction == OPENER:
        return flow[width : width * 2] + flow[size - 2 :]
    return flow[:width] + flow[size - 4 : size - 2]


def remember_positions(
    state: ConnectionState, exchange: Exchange, sink: FieldSink, sessions: FetchSessions
) -> None:
    """Store the fetch offsets of a Fetch request; epoch 0 or -1 lists all of them (KIP-227)."""
    state.newest_fetch = exchange.exchange_id
    if sink.session_epoch == NULL or sink.session_epoch <= 0:
        users = sessions.users
        if users is not None and leaves_past(state, sink.session_id):
            users.is_unknown = True
        if sink.session_id > 0:
            sessions.close(state, sink.session_id)
        fresh: Positions = {}
    else:
        if sink.session_id != state.session_id:
            sessions.go_on(state, sink.session_id)
        fresh = state.positions
    partitions = exchange.partitions
    if partitions is not None:
        remember_rows(state, partitions, fresh)
        sessions.note(partitions.count, len(partitions.topics))
    state.positions = fresh


def leaves_past(state: ConnectionState, closed: i64) -> bool:
    """Return whether a full fetch leaves the session from before the split, without closing it."""
    if state.session_id in (0, closed):
        return False
    return state.connection.is_synchronized() and PAST in state.positions


def forget_positions(state: ConnectionState) -> None:
    """Forget the session: its requests may have been missed, in whole or in part."""
    positions = state.positions
    positions.clear()
    if state.connection.is_suppressed():
        # The merger, which has the state before the split, also knows the missed requests.
        positions[PAST] = NOWHERE
    else:
        positions[LOST] = NOWHERE


def forget_marks(state: ConnectionState) -> None:
    """Forget the ends of logs: responses of the session, or parts, may have been missed."""
    positions = state.positions
    if state.connection.is_suppressed():
        forget_positions(state)
        return
    for known in positions.values():
        known.forget_marks()
    positions[LOST] = NOWHERE


def remember_rows(state: ConnectionState, partitions: Partitions, fresh: Positions) -> None:
    """Add the requested rows to `fresh`; the high watermarks are carried over from the state."""
    unknown = unknown_mark(state.positions)
    cells = partitions.cells
    known = NOWHERE
    before = NOWHERE
    topic: i64 = -1
    guess: i64 = 0
    place: i64 = 0
    at: i64 = 0
    while at < len(cells):
        if cells[at] != topic:
            topic = cells[at]
            key = topic_key(partitions, topic)
            before = state.positions.get(key, NOWHERE)
            known = fresh.get(key, NOWHERE)
            if known is NOWHERE:
                # Nearly always the same partitions are requested again.
                is_same = names_same(before, cells, at)
                known = before.copied() if is_same else TopicPositions()
                fresh[key] = known
            guess = place = 0
        partition = cells[at + AT_PARTITION]
        offset = cells[at + AT_FETCH_OFFSET]
        guess = before.place(partition, guess)
        mark = unknown if guess < 0 else before.cells[guess + AT_MARK]
        place = known.place(partition, place)
        if place < 0:
            place = known.add(partition, offset, mark)
        else:
            known.cells[place + AT_OFFSET] = offset
            known.cells[place + AT_MARK] = mark
        place += POSITION_WIDTH
        guess = guess + POSITION_WIDTH if guess >= 0 else place
        at += WIDTH


def unknown_mark(positions: Positions) -> i64:
    """High watermark of a partition that the session is not known to have.

    After missed responses (LOST) the past is not asked for it: its knowledge is older.
    """
    if LOST in positions:
        return UNSTATED
    return ASK if PAST in positions else NULL


def names_same(known: TopicPositions, cells: vec[i64], at: i64) -> bool:
    """Return whether the rows of the topic that begin at `at` have the partitions of `known`."""
    numbers = known.cells
    topic = cells[at]
    place: i64 = 0
    while place < len(numbers):
        if at >= len(cells) or cells[at] != topic or cells[at + AT_PARTITION] != numbers[place]:
            return False
        place += POSITION_WIDTH
        at += WIDTH
    return place > 0 and (at >= len(cells) or cells[at] != topic)


def topic_key(partitions: Partitions, topic: i64) -> object:
    """Key of a topic in `Positions`."""
    topic_id = partitions.topic_ids[topic]
    return topic_id if topic_id != NO_ID else partitions.topics[topic]


def positions_in(positions: Positions, key: object) -> TopicPositions:
    """Positions in a topic, created if absent."""
    known = positions.get(key)
    if known is None:
        known = TopicPositions()
        positions[key] = known
    return known


def settle_fetch(
    state: ConnectionState,
    exchange: Exchange,
    answered: i64,
    sink: FieldSink,
    sessions: FetchSessions,
) -> None:
    """Fill in fetch offsets the session left out, and set how the long poll ended.

    The first `answered` partitions are those of the response. Data was present already when the
    requested offset was below the high watermark last stated on this connection (or none was stated
    yet); otherwise the broker waited for it.
    """
    if sink.session_id > 0 and sink.session_id != state.session_id:
        sessions.made(state, sink.session_id)
    was_there: i64 = WAS_NOT_THERE
    partitions = exchange.partitions
    if partitions is not None and answered > 0:
        sessions.note(answered, len(partitions.topics))
        # After a later request the session has other positions.
        is_overtaken = state.newest_fetch != exchange.exchange_id
        was_there, asks = settle_rows(state, partitions, answered, is_overtaken)
        if asks is not None:
            asks.was_there = was_there
            asks.record_bytes = sink.record_bytes
            exchange.asks = asks
            return
    classify(exchange, was_there, sink.record_bytes)


def settle_rows(
    state: ConnectionState, partitions: Partitions, count: i64, is_overtaken: bool
) -> tuple[i64, Asks | None]:
    """Fill in offsets; return whether data was present, and the rows that need the past.

    If a later request came first, the requested offsets are unknown.
    """
    was_there: i64 = WAS_NOT_THERE
    asks: Asks | None = None
    unknown = unknown_mark(state.positions)
    has_past = PAST in state.positions
    is_session_lost = LOST in state.positions
    cells = partitions.cells
    known = NOWHERE
    topic: i64 = -1
    guess: i64 = 0
    at: i64 = 0
    while at < count * WIDTH:
        if cells[at] != topic:
            topic = cells[at]
            known = positions_in(state.positions, topic_key(partitions, topic))
            guess = 0
        partition = cells[at + AT_PARTITION]
        place = known.place(partition, guess)
        if place < 0:
            # No request named it; the end of its log is worth remembering.
            place = known.add(partition, NULL, unknown)
        mark = known.cells[place + AT_MARK]
        is_lost = is_session_lost
        offset = cells[at + AT_FETCH_OFFSET]
        if offset == NULL:
            offset = known.cells[place + AT_OFFSET]
            if is_overtaken:
                is_lost = is_lost or offset != NULL
            else:
                cells[at + AT_FETCH_OFFSET] = offset
        is_known = cells[at + AT_FETCH_OFFSET] != NULL
        if (is_known and mark == ASK) or (has_past and offset == NULL):
            if asks is None:
                asks = Asks([], [], WAS_NOT_THERE, 0, is_overtaken, is_session_lost)
            asks.rows.append(at // WIDTH)
            asks.stated.append(mark)
        else:
            was_there = max(was_there, was_waiting(cells, at, mark, is_lost))
        if cells[at + AT_HIGH_WATERMARK] != NULL:
            known.cells[place + AT_MARK] = cells[at + AT_HIGH_WATERMARK]
        guess = place + POSITION_WIDTH
        at += WIDTH
    return was_there, asks


def was_waiting(cells: vec[i64], at: i64, seen: i64, is_lost: bool) -> i64:
    """Return whether a partition's records were present already; `seen`: end of the log.

    `is_lost`: an unknown offset was in a request that was missed, or overtaken.
    """
    offset = cells[at + AT_FETCH_OFFSET]
    if cells[at + AT_RECORD_BYTES] <= 0:
        return WAS_NOT_THERE
    if seen == UNSTATED or (is_lost and offset == NULL):
        return MAY_HAVE_BEEN_THERE
    if offset == NULL:
        return WAS_NOT_THERE
    return WAS_THERE if seen == NULL or offset < seen else WAS_NOT_THERE


def settle_asks(exchange: Exchange, past: Positions) -> None:
    """Complete the columns left open, now that the positions of the session are known."""
    asks = exchange.asks
    partitions = exchange.partitions
    if asks is None or partitions is None:
        return
    cells = partitions.cells
    unknown = unknown_mark(past)
    is_session_lost = asks.is_lost or LOST in past
    for index, stated in zip(asks.rows, asks.stated, strict=True):
        at = i64(index) * WIDTH
        known = past.get(topic_key(partitions, cells[at]), NOWHERE)
        place = known.place(cells[at + AT_PARTITION], 0)
        is_lost = is_session_lost
        if place >= 0 and cells[at + AT_FETCH_OFFSET] == NULL:
            offset = known.cells[place + AT_OFFSET]
            if asks.is_overtaken:
                is_lost = is_lost or offset != NULL
            else:
                cells[at + AT_FETCH_OFFSET] = offset
        mark = i64(stated)
        if mark == ASK:
            mark = unknown if place < 0 else known.cells[place + AT_MARK]
        was_there = was_waiting(cells, at, mark, is_lost)
        asks.was_there = max(asks.was_there, was_there)
    exchange.asks = None
    classify(exchange, asks.was_there, asks.record_bytes)
