"""Requests that wait for a response now, read from the connections' state.

The state of a connection is only visible by polling: at each tick a bounded number of connections
is polled, in turn, and also those found waiting before. Connections of protocols from before 0.8
are not polled.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kdissect.capture.packet import SECOND_NS
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import (
    API_FETCH,
    API_JOIN_GROUP,
    API_SHARE_FETCH,
    API_SYNC_GROUP,
    Exchange,
)
from kdissect.live.counting.grace import Grace
from kdissect.protocol.apis import vendor_api_name
from kdissect.protocol.readers import NULL
from kdissect.streams.events import OPENER
from kdissect.tables.row_buffers import address_text

# Connections polled per tick: about a millisecond. 100 000 of them have their turn within 50 s.
ASKED: Final = 2_000
# Of overdue connections, the oldest are polled again at every tick, with more details.
KEPT: Final = 500
# Labels of ages, and the least age in seconds.
AGES: Final = (("under 1s", 0), ("1s to 10s", 1), ("10s to 60s", 10), ("over 60s", 60))
TOPICS: Final = 100  # topics reported per request
MS: Final = 1_000_000
# A rebalance takes as long as the members' poll intervals allow; brokers' default is a minute.
GROUP_WAIT_NS: Final = 60_000_000_000


class Waits(NamedTuple):
    """Waiting requests of a connection: their number, and `since_ns` of the oldest.

    It is overdue after `due_ns`, not before: a fetch asks the broker to wait, and each API takes
    its time, see `Grace`. `ages` is how many of them waited for how long at the poll, see `AGES`.
    """

    waiting: int
    since_ns: int
    due_ns: int
    api_key: int
    vendor: int = 0
    ages: tuple[int, ...] = ()

    @property
    def api(self) -> str:
        return vendor_api_name(self.vendor, self.api_key)


class Late(NamedTuple):
    """A connection with an overdue request, or waiting for its group; `topics` of the request."""

    waits: Waits
    client: str
    group_id: str
    topics: tuple[str, ...]


class Waiting:
    """Polls the connections in `states`, which belong to the thread that calls `look`.

    `by_connection` are those that wait. `late` are overdue ones, or those that wait for their
    group; it is replaced at each look. Another thread may read both; `topics` are names by id.
    The owner adds rows to `grace`.
    """

    def __init__(
        self,
        states: Mapping[int, ConnectionState],
        topics: Mapping[bytes, str],
        asked: int = ASKED,
    ) -> None:
        self.by_connection: dict[int, Waits] = {}
        self.late: Mapping[int, Late] = {}
        self.count = 0
        self.ages = [0] * len(AGES)
        self.grace = Grace()
        self._states = states
        self._topics = topics
        self._asked = asked
        self._turn: Iterator[int] = iter(())

    def look(self, now_ns: int) -> None:
        """Poll the next connections, and again those that were late."""
        late = {}
        for connection_id in dict.fromkeys([*self.late, *self._next()]):
            self._forget(connection_id)
            state = self._states.get(connection_id)
            if state is None or len(state.pending) <= state.pending_head:
                continue
            oldest = state.pending[state.pending_head]
            waits = waits_of(oldest, len(state.pending) - state.pending_head)
            due_ns = waits.due_ns + self.grace.of(waits.api)
            ages = ages_of(state.pending, state.pending_head, now_ns)
            waits = waits._replace(due_ns=due_ns, ages=ages)
            self.by_connection[connection_id] = waits
            self._count(waits, 1)
            if waits.due_ns < now_ns or waits_for_group(oldest):
                late[connection_id] = self._late(oldest, waits)
        if len(late) > KEPT:
            oldest_first = sorted(late.items(), key=lambda item: item[1].waits.due_ns)
            late = dict(oldest_first[:KEPT])
        self.late = late

    def _forget(self, connection_id: int) -> None:
        waits = self.by_connection.pop(connection_id, None)
        if waits is not None:
            self._count(waits, -1)

    def _count(self, waits: Waits, sign: int) -> None:
        self.count += sign * waits.waiting
        self.ages = [sum_ + sign * one for sum_, one in zip(self.ages, waits.ages, strict=True)]

    def _next(self) -> list[int]:
        turn = list(islice(self._turn, self._asked))
        if len(turn) < self._asked:
            # A new round; connections that ended are not polled any more.
            for connection_id in [one for one in self.by_connection if one not in self._states]:
                self._forget(connection_id)
            self._turn = iter(list(self._states))
            turn += islice(self._turn, self._asked - len(turn))
        return turn

    def _late(self, oldest: Exchange, waits: Waits) -> Late:
        topics: list[str] = []
        if oldest.partitions is not None:
            names, ids = oldest.partitions.topics[:TOPICS], oldest.partitions.topic_ids
            known = [name or self._topics.get(ids[i], "") for i, name in enumerate(names)]
            topics = [name for name in known if name]
        return Late(waits, oldest.client_id or "", oldest.asked.group_id, tuple(topics))


def since_ns(request: Exchange) -> int:
    """Time since which a request waits."""
    return request.request_end if request.request_end != NULL else request.request_start


def ages_of(pending: Sequence[Exchange], head: int, now_ns: int) -> tuple[int, ...]:
    """How many requests from `head` on wait for how long; they are in order of time."""
    last = len(pending)
    counts = []
    for _, seconds in AGES[:0:-1]:
        at = bisect_right(pending, now_ns - seconds * SECOND_NS, head, last, key=since_ns)
        counts.append(at - head)
        head = at
    return (*(last - head, *counts[::-1]),)


def waits_of(oldest: Exchange, count: int) -> Waits:
    """Summary for any connection with `count` waiting requests, without grace."""
    since = since_ns(oldest)
    return Waits(count, since, since + allowed_ns(oldest), oldest.api_key, oldest.vendor)


def waits_for_group(exchange: Exchange) -> bool:
    return exchange.api_key in (API_JOIN_GROUP, API_SYNC_GROUP)


def allowed_ns(exchange: Exchange) -> int:
    """Wait that a request allows the broker, as in a long poll."""
    if waits_for_group(exchange):
        return GROUP_WAIT_NS
    if exchange.api_key in (API_FETCH, API_SHARE_FETCH) and exchange.asked.max_wait_ms != NULL:
        return max(0, exchange.asked.max_wait_ms) * MS
    return 0


def addresses_of(state: ConnectionState) -> tuple[str, str]:
    """Address and port of client and broker; if unknown, the opener is taken for the client."""
    flow = state.connection.flow
    width = (len(flow) - 4) // 2
    opener = address_and_port(flow[:width], int.from_bytes(flow[-4:-2], "big"))
    accepter = address_and_port(flow[width : 2 * width], int.from_bytes(flow[-2:], "big"))
    if state.request_direction in (-1, OPENER):
        return opener, accepter
    return accepter, opener


def address_and_port(address: bytes, port: int) -> str:
    """Format like 10.0.0.4:51812 or [::1]:9092."""
    return endpoint_text(address_text(address), port)


def endpoint_text(address: str, port: int) -> str:
    """Format an address and a port.

    >>> endpoint_text("10.0.0.4", 51812), endpoint_text("::1", 9092)
    ('10.0.0.4:51812', '[::1]:9092')
    """
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
