"""The tables of the screen: their columns, and the target of Enter on a row."""

from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from kdissect.live.counting.snapshot import Focus, Slow, Snapshot
from kdissect.text.escape import escaped
from kdissect.text.grid import SHORTEST_TEXT, Column
from kdissect.text.human import count, counted, duration, rate, size, time

# Fetches and joins are answered when there is data, or after their requested wait: so their
# latency means nothing.
LONG_POLLS: Final = frozenset({"Fetch", "ShareFetch", "JoinGroup", "SyncGroup"})
WARM_NS: Final = 100_000_000
HISTORY_WIDTH: Final = 20
SEVERITIES: Final = ("problem", "warning", "notice")  # of findings, the worst first
# Fits most API names.
NAME_WIDTH: Final = 22
ERROR_WIDTH: Final = 28  # COORDINATOR_LOAD_IN_PROGRESS
HOT_NS: Final = 1_000_000_000
CLOCK: Final = slice(11, 23)  # the part of a time from hours to milliseconds
Say = Callable[[Any], str]


class Field(NamedTuple):
    """A column: the sort value of its rows, and their text at the time `now_ns`."""

    column: Column
    value: Callable[[Any], Any]
    text: Callable[[Any, int], str]
    style: Callable[[Any], str]
    is_history: bool = False


class View(NamedTuple):
    """A table. `key` identifies its rows; `sort` is the number of the initial sort field.

    Without it, rows are in the order of the snapshot. `into` is the target of Enter: the focus, and
    the name of the view to show it in. `nothing` is shown if there are no rows. `seen` is the total
    number of rows, if known: snapshots have only the first ones. `history` is the value that is
    followed from snapshot to snapshot, its name, and how it is formatted.
    """

    name: str
    short: str
    fields: tuple[Field, ...]
    rows: Callable[[Snapshot], Sequence[Any]]
    key: Callable[[Any], Hashable]
    nothing: str
    sort: int | None = None
    into: tuple[Callable[[Focus, Any], Focus], str] | None = None
    seen: Callable[[Snapshot], int] = lambda _: 0
    history: tuple[Callable[[Any], float], str, Say] | None = None


def text_field(
    header: str, name: str, drop: int = 0, style: Say = lambda _: "", least: int = SHORTEST_TEXT
) -> Field:
    """Text from the packets."""
    value = attrgetter(name)
    column = Column(header, is_text=True, drop=drop, least=least)
    return Field(column, value, lambda row, _: escaped(value(row)) or "-", style)


def number_field(
    header: str, value: Callable[[Any], Any], say: Say, drop: int = 0, style: Say = lambda _: ""
) -> Field:
    """A number; `say` formats it."""
    return Field(Column(header, drop=drop), value, lambda row, _: say(value(row)), style)


def latency_field(header: str, name: str, drop: int = 0) -> Field:
    """A latency, coloured by its value."""
    value = attrgetter(name)
    return number_field(header, value, known_duration, drop, lambda row: heat(row, value(row)))


def ago_field(drop: int = 0) -> Field:
    """Time since the last occurrence; sorted by when it was."""
    return Field(
        Column("ago", drop=drop),
        lambda row: row.last_ns,
        lambda row, now: known_duration(now - row.last_ns if row.last_ns > 0 else -1),
        lambda _: "",
    )


def history_field() -> Field:
    """The history of a row; its text is the listing's, which has the values."""
    column = Column("history", is_text=True)
    return Field(column, lambda _: 0, lambda _row, _now: "", lambda _: "spark", is_history=True)


def known_duration(ns: int) -> str:
    """A duration; "-" for -1."""
    return duration(None if ns < 0 else ns)


def some_duration(ns: int) -> str:
    """A duration; "-" unless it is positive."""
    return duration(ns if ns > 0 else None)


def heat(row: Any, ns: int) -> str:
    """Style of a latency of this row; none for long polls."""
    if getattr(row, "name", "") in LONG_POLLS:
        return ""
    return "hot" if ns >= HOT_NS else "warm" if ns >= WARM_NS else ""


def alarm(name: str, style: str = "hot") -> Say:
    """Style of a number that should be 0."""
    value = attrgetter(name)
    return lambda row: style if value(row) > 0 else "dim"


def counted_field(header: str, name: str, drop: int = 0, style: str = "") -> Field:
    """A count; with `style`, one that should be 0."""
    return number_field(
        header, attrgetter(name), count, drop, alarm(name, style) if style else lambda _: ""
    )


def timed_fields(header: str, into: str, out: str) -> tuple[Field, ...]:
    """Columns of `Timed`; bytes are headed `into` and `out`."""
    return (
        text_field(header, "name", style=lambda _: "name", least=NAME_WIDTH),
        number_field("ex/s", attrgetter("rate"), rate),
        number_field("err/s", attrgetter("errors"), rate, style=alarm("errors")),
        number_field(into, attrgetter("bytes_to_broker"), size, drop=3),
        number_field(out, attrgetter("bytes_to_client"), size, drop=3),
        latency_field("p50", "p50_ns", drop=4),
        latency_field("p95", "p95_ns", drop=2),
        latency_field("p99", "p99_ns"),
        latency_field("max", "max_ns", drop=1),
        history_field(),
    )


def known_count(number: float) -> str:
    """A count; "-" for -1."""
    return "-" if number < 0 else count(round(number))


def partitions_text(number: int) -> str:
    """Number of partitions; "-" for 0."""
    return counted(number, "partition") if number else "-"


class ProblemKind(NamedTuple):
    """Problems of a kind: their number, and the last one."""

    kind: str
    number: int
    message: str
    last_ns: int
    stage: str


def problem_rows(snapshot: Snapshot) -> list[ProblemKind]:
    """Kinds of problems with their messages."""
    last = {one.kind: one for one in snapshot.problem_messages}
    rows = []
    for kind, number in snapshot.problems:
        one = last.get(kind)
        said = ("", 0, "") if one is None else (one.message, one.time_ns, one.stage)
        rows.append(ProblemKind(kind, number, *said))
    return rows


RATE_HISTORY: Final = (attrgetter("rate"), "exchanges/s", rate)


def work_ns(row: Slow) -> int:
    """Latency without the time in the queue, and without the requested wait."""
    return max(0, row.latency_ns - row.queue_ns - row.wait_ns)


APIS: Final = View(
    "APIs",
    "APIs",
    timed_fields("API", "in/s", "out/s"),
    lambda snapshot: snapshot.apis,
    lambda row: row.name,
    "no exchanges",
    1,
    (lambda focus, row: focus._replace(api=row.name), "Clients"),
    history=RATE_HISTORY,
)
CLIENTS: Final = View(
    "Clients",
    "Cli",
    timed_fields("client", "in/s", "out/s"),
    lambda snapshot: snapshot.clients,
    lambda row: row.name,
    "no clients",
    1,
    (lambda focus, row: focus._replace(client=row.name), "APIs"),
    lambda snapshot: snapshot.clients_seen,
    RATE_HISTORY,
)
TOPICS: Final = View(
    "Topics",
    "Top",
    timed_fields("topic", "produced/s", "fetched/s"),
    lambda snapshot: snapshot.topics,
    lambda row: row.name,
    "no topics",
    1,
    (lambda focus, row: focus._replace(topic=row.name), "Clients"),
    lambda snapshot: snapshot.topics_seen,
    RATE_HISTORY,
)
ERRORS: Final = View(
    "Errors",
    "Err",
    (
        text_field(
            "error",
            "error",
            style=lambda row: "warm" if row.is_retriable else "hot",
            least=ERROR_WIDTH,
        ),
        text_field("API", "api"),
        counted_field("errors", "errors"),
        number_field("errors/s", attrgetter("rate"), rate, drop=2),
        number_field(
            "retried", attrgetter("is_retriable"), lambda is_: "yes" if is_ else "no", drop=1
        ),
        ago_field(),
        text_field("client", "client", drop=4),
        text_field("topic", "topic", drop=3),
        history_field(),
    ),
    lambda snapshot: snapshot.errors,
    lambda row: (row.error, row.api),
    "no errors",
    2,
    history=(attrgetter("rate"), "errors/s", rate),
)
CONNECTIONS: Final = View(
    "Connections",
    "Conn",
    (
        text_field("client", "client", style=lambda _: "name"),
        text_field("from", "client_address"),
        text_field("broker", "broker_address", drop=3),
        counted_field("waiting", "waiting", style="warm"),
        number_field(
            "oldest",
            attrgetter("waiting_ns"),
            known_duration,
            style=lambda row: "hot" if row.waiting_ns >= HOT_NS else "",
        ),
        text_field("waits for", "waiting_api", drop=4),
        counted_field("unanswered", "unanswered", drop=5, style="hot"),
        counted_field("retrans", "retransmits", style="warm"),
        counted_field("0-window", "zero_windows", drop=1, style="warm"),
        number_field(
            "missing", attrgetter("missing_bytes"), size, drop=2, style=alarm("missing_bytes")
        ),
    ),
    lambda snapshot: snapshot.connections,
    lambda row: row.connection_id,
    "no connections in trouble (o: all connections)",
)
ALL_CONNECTIONS: Final = View(
    "All connections",
    "Conn",
    (
        text_field("client", "client", style=lambda _: "name"),
        text_field("from", "client_address"),
        text_field("broker", "broker_address", drop=3),
        number_field("ex/s", attrgetter("rate"), rate),
        number_field("err/s", attrgetter("errors"), rate, drop=4, style=alarm("errors")),
        number_field("in/s", attrgetter("bytes_to_broker"), size, drop=2),
        number_field("out/s", attrgetter("bytes_to_client"), size, drop=2),
        latency_field("max", "max_ns", drop=1),
        ago_field(drop=5),
        history_field(),
    ),
    lambda snapshot: snapshot.connection_rates,
    lambda row: row.connection_id,
    "no connections",
    3,
    seen=lambda snapshot: snapshot.connections_seen,
    history=RATE_HISTORY,
)
GROUPS: Final = View(
    "Groups",
    "Grp",
    (
        text_field("group", "group_id", style=lambda _: "name"),
        Field(
            Column("state", is_text=True),
            attrgetter("is_rebalancing"),
            lambda row, _: "rebalancing" if row.is_rebalancing else "stable",
            lambda row: "hot" if row.is_rebalancing else "good",
        ),
        counted_field("members", "members"),
        counted_field("generation", "generation", drop=2),
        counted_field("events", "events", drop=1),
        number_field("lag", attrgetter("lag"), known_count, drop=3),
        number_field("of", attrgetter("lag_partitions"), partitions_text, drop=1),
        text_field("last event", "last_event"),
        ago_field(),
        history_field(),
    ),
    lambda snapshot: snapshot.groups,
    lambda row: row.group_id,
    "no membership events or commits of groups",
    history=(attrgetter("lag"), "lag", known_count),
)
SLOWEST: Final = View(
    "Slowest",
    "Slow",
    (
        Field(
            Column("time", drop=4),
            attrgetter("time_ns"),
            lambda row, _: time(row.time_ns)[CLOCK],
            lambda _: "dim",
        ),
        text_field("API", "api"),
        text_field("client", "client", style=lambda _: "name"),
        text_field("topic", "topic", drop=3),
        number_field(
            "latency",
            attrgetter("latency_ns"),
            known_duration,
            style=lambda row: heat(None, row.latency_ns - max(0, row.wait_ns)),
        ),
        number_field("queue", attrgetter("queue_ns"), some_duration, drop=5),
        number_field("wait", attrgetter("wait_ns"), some_duration, drop=6),
        number_field("broker time", work_ns, known_duration),
        number_field("request", attrgetter("request_size"), size, drop=1),
        number_field("response", attrgetter("response_size"), size, drop=1),
        text_field("error", "error", drop=2, style=lambda row: "hot" if row.error else "dim"),
    ),
    lambda snapshot: snapshot.slowest,
    lambda row: row.exchange_id,
    "no answered exchanges",
)
PROBLEMS: Final = View(
    "Problems",
    "Prob",
    (
        Field(
            Column("problem", is_text=True),
            attrgetter("kind"),
            lambda row, _: escaped(row.kind),
            lambda _: "hot",
        ),
        number_field("number", attrgetter("number"), count),
        ago_field(drop=2),
        Field(
            Column("message", is_text=True, least=20),
            attrgetter("message"),
            lambda row, _: escaped(row.message) or "-",
            lambda _: "",
        ),
    ),
    lambda snapshot: problem_rows(snapshot),
    lambda row: row.kind,
    "no problems since the beginning",
    1,
)
PARTITIONS: Final = View(
    "Partitions",
    "Part",
    (
        text_field("topic", "topic", style=lambda _: "name"),
        number_field("partition", attrgetter("partition"), str),
        number_field("records/s", attrgetter("rate"), rate),
        counted_field("end", "end", drop=2),
        number_field("lag", attrgetter("lag"), known_count),
        text_field("group", "group"),
        number_field("committed", attrgetter("committed"), known_count, drop=1),
        counted_field("groups", "groups", drop=1),
        history_field(),
    ),
    lambda snapshot: snapshot.partitions,
    lambda row: (row.topic, row.partition),
    "no offsets",
    4,
    history=(attrgetter("lag"), "lag", known_count),
)
FINDINGS: Final = View(
    "Findings",
    "Find",
    (
        Field(
            Column("severity", is_text=True, least=8),
            attrgetter("severity"),
            lambda row, _: escaped(row.severity),
            lambda row: "hot" if row.severity == SEVERITIES[0] else "warm",
        ),
        text_field("finding", "id", style=lambda _: "name", least=20),
        Field(
            Column("for", drop=1),
            lambda row: -row.since_ns,
            lambda row, now: known_duration(max(0, now - row.since_ns)),
            lambda _: "",
        ),
        text_field("what", "text", least=20),
    ),
    lambda snapshot: snapshot.current_findings or (),
    lambda row: (row.id, row.text),
    "no findings",
)
VIEWS: Final = (
    APIS, CLIENTS, TOPICS, ERRORS, CONNECTIONS, GROUPS, SLOWEST, PROBLEMS, PARTITIONS, FINDINGS,
)  # fmt: skip
ALL_VIEWS: Final = (*VIEWS, ALL_CONNECTIONS)
NUMBERS: Final = {view.name: number for number, view in enumerate(VIEWS)}
