"""What a screen shows of the last seconds, as values; `Meters` makes them, nothing else is known.

Rates are a second, over `window_s`; times are ns. Names are as they were on the wire: who shows
them escapes them.
"""

from typing import NamedTuple

from kdissect.live.listener import Status


class Focus(NamedTuple):
    """What to look at alone; "" is all."""

    api: str = ""
    client: str = ""
    topic: str = ""


class Timed(NamedTuple):
    """Exchanges with something in common: an API, a client, or a topic.

    Percentiles are of latency, of answered exchanges, within 3 %; -1 where there are none. Of an
    API and a client, bytes are those of requests and responses; of a topic, those of its records
    produced and fetched.
    """

    name: str
    rate: float
    errors: float
    bytes_to_broker: float
    bytes_to_client: float
    p50_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int


class Failing(NamedTuple):
    """An error code, of an API, and where it was met last."""

    error: str
    api: str
    errors: int
    rate: float
    is_retriable: bool
    last_ns: int
    client: str
    topic: str


class DegradedConnection(NamedTuple):
    """A connection of which something was lost, sent again or refused.

    `waiting_ns` is the age of its oldest request without an answer, -1 without one; `waiting` how
    many there are.
    """

    connection_id: int
    client: str
    client_address: str
    broker_address: str
    retransmits: int
    zero_windows: int
    missing_bytes: int
    unanswered: int
    waiting: int
    waiting_ns: int
    waiting_api: str


class Grouped(NamedTuple):
    """A consumer group with membership events: joins, syncs, leaves, heartbeats that failed."""

    group_id: str
    events: int
    members: int
    generation: int
    last_event: str
    last_ns: int
    is_rebalancing: bool


class Slow(NamedTuple):
    """One exchange."""

    exchange_id: int
    time_ns: int
    api: str
    client: str
    topic: str
    latency_ns: int
    queue_ns: int
    wait_ns: int
    request_size: int
    response_size: int
    error: str
    client_address: str


class Snapshot(NamedTuple):
    """Everything at one moment; each list is in the order of what matters most.

    `problems` are kinds of problems and how many there were since the beginning.
    `is_sampled`: there was more in the window than is kept, so it is shorter than asked for.
    Lists have the first 100 by each of their measures, `slowest` 50: `clients_seen` and
    `topics_seen` are how many there were. `waiting` requests have no answer now, whatever the focus
    is; on `late` connections the oldest waits longer than it asked for.
    """

    status: Status
    focus: Focus
    window_s: float
    is_sampled: bool
    whole: Timed
    packets_rate: float
    apis: tuple[Timed, ...]
    clients: tuple[Timed, ...]
    topics: tuple[Timed, ...]
    errors: tuple[Failing, ...]
    connections: tuple[DegradedConnection, ...]
    groups: tuple[Grouped, ...]
    slowest: tuple[Slow, ...]
    problems: tuple[tuple[str, int], ...]
    waiting: int = 0
    late: int = 0
    clients_seen: int = 0
    topics_seen: int = 0
