"""Values shown on the screen for the last seconds, made by `Meters`; independent of other modules.

Rates are per second, over `window_s`; times are ns. Names are as in the packets: they are escaped
where they are displayed.
"""

from typing import Final, NamedTuple

from kdissect.live.listener import Status

# Limit of listed items by each measure: the most exchanges, errors, bytes, the longest latencies.
LISTED: Final = 100


class Focus(NamedTuple):
    """Restriction of a snapshot; "" means no restriction."""

    api: str = ""
    client: str = ""
    topic: str = ""


class Timed(NamedTuple):
    """Measures of the exchanges of an API, a client, or a topic.

    Percentiles are of latency, of answered exchanges, within 0.4 %; -1 if there are none. For an
    API and a client, bytes are those of requests and responses; for a topic, those of its records
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
    """An error code of an API, with its last occurrence."""

    error: str
    api: str
    errors: int
    rate: float
    is_retriable: bool
    last_ns: int
    client: str
    topic: str


class DegradedConnection(NamedTuple):
    """A connection with missing bytes, retransmissions, zero windows or unanswered requests.

    `waiting_ns` is the age of its oldest unanswered request, -1 if none; `waiting` their number.
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
    """A consumer group with membership events: joins, syncs, leaves, failed heartbeats.

    `lag` is the number of records that it has not committed, of `lag_partitions` whose end is
    known; -1 without any. A group that only commits has no events.
    """

    group_id: str
    events: int
    members: int
    generation: int
    last_event: str
    last_ns: int
    is_rebalancing: bool
    lag: int = -1
    lag_partitions: int = 0


class PartitionLag(NamedTuple):
    """A partition: its `end`, the next offset, and the records added per second.

    Of the `groups` that have committed there, `group` is furthest behind: its offset `committed`,
    and `lag`, both -1 without one.
    """

    topic: str
    partition: int
    end: int
    rate: float
    group: str
    committed: int
    lag: int
    groups: int


class ConnectionRate(NamedTuple):
    """A connection: its exchanges of the window. `max_ns` is -1, `last_ns` 0, without any."""

    connection_id: int
    client: str
    client_address: str
    broker_address: str
    rate: float
    errors: float
    bytes_to_broker: float
    bytes_to_client: float
    max_ns: int
    last_ns: int


class ProblemMessage(NamedTuple):
    """The last problem of a kind; `time_ns` is 0, `connection_id` -1, if it has none."""

    kind: str
    stage: str
    message: str
    time_ns: int
    connection_id: int


class CurrentFinding(NamedTuple):
    """A finding that has begun and is not over."""

    id: str
    severity: str
    text: str
    since_ns: int


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
    """All figures at one moment; each list begins with the most important rows.

    `problems` are counts since the start, by kind, see `Status.problems`. `is_sampled`: the window
    had more rows than are kept, so it is shorter than requested. Lists have the first 100 by each
    of their measures, `slowest` 50: `clients_seen` and `topics_seen` are the total numbers.
    `waiting` requests have no response now, independent of the focus; on `late` connections the
    oldest is overdue. Of one in `connections_share` connections: rates, bytes, errors, `waiting`
    and `late` are multiplied by that, other values are those of the connections that were captured.
    `partitions` have the first by lag and by rate. `connection_rates` are all connections, up to
    the limit, of `connections_seen`. `current_findings` is None where findings are not searched.
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
    connections_share: int = 1
    partitions: tuple[PartitionLag, ...] = ()
    connection_rates: tuple[ConnectionRate, ...] = ()
    connections_seen: int = 0
    problem_messages: tuple[ProblemMessage, ...] = ()
    current_findings: tuple[CurrentFinding, ...] | None = None


def scaled(snapshot: Snapshot, share: int) -> Snapshot:
    """A snapshot of one in `share` connections, with counts and rates as of all."""
    if share == 1:
        return snapshot
    return snapshot._replace(
        connections_share=share,
        whole=scaled_timed(snapshot.whole, share),
        apis=tuple(scaled_timed(one, share) for one in snapshot.apis),
        clients=tuple(scaled_timed(one, share) for one in snapshot.clients),
        topics=tuple(scaled_timed(one, share) for one in snapshot.topics),
        errors=tuple(
            one._replace(errors=one.errors * share, rate=one.rate * share)
            for one in snapshot.errors
        ),
        packets_rate=snapshot.packets_rate * share,
        waiting=snapshot.waiting * share,
        late=snapshot.late * share,
    )


def scaled_timed(timed: Timed, share: int) -> Timed:
    return timed._replace(
        rate=timed.rate * share,
        errors=timed.errors * share,
        bytes_to_broker=timed.bytes_to_broker * share,
        bytes_to_client=timed.bytes_to_client * share,
    )
