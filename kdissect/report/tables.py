"""Tables of the page: rows as lists of cells, and each column with its meaning."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kdissect.analysis.question import Question
from kdissect.analysis.questions import failovers, lag, rebalances
from kdissect.tables.schemas import INT64, TABLES

# How a column is shown: as text, a count, bytes, a duration in ns, a share from 0 to 1, a number.
TEXT, COUNT, BYTES, NS, SHARE, NUMBER = "text", "count", "bytes", "ns", "share", "number"


class Shown(NamedTuple):
    """A column: its heading, the path of its value in a row, how it is shown, its meaning."""

    title: str
    path: str
    kind: str
    meaning: str


def declared(table: str, column: str) -> str:
    """The meaning of a column of a table, as in docs/tables.md."""
    return next(one.meaning for one in TABLES[table].columns if one.name == column)


def declared_of(table: str, *columns: str) -> str:
    """The meanings of several columns, each behind its name."""
    return "; ".join(f"{column}: {declared(table, column)}" for column in columns)


def rows_of(table: str) -> str:
    """What is counted where rows of a table are, as in docs/tables.md."""
    return f"rows of {table}: {TABLES[table].row}"


LATENCY: Final = declared("exchanges", "latency_ns")
LATENCIES: Final = (
    Shown("p50", "latency.p50_ns", NS, f"median of latency: {LATENCY}"),
    Shown("p95", "latency.p95_ns", NS, f"95th percentile of latency: {LATENCY}"),
    Shown("p99", "latency.p99_ns", NS, f"99th percentile of latency: {LATENCY}"),
    Shown("max", "latency.max_ns", NS, f"longest latency: {LATENCY}"),
)
EXCHANGES: Final = Shown("exchanges", "exchanges", COUNT, rows_of("exchanges"))
WITH_ERRORS: Final = f"exchanges with {declared('exchanges', 'error_count')}"
REQUESTS: Final = (
    EXCHANGES,
    Shown("answered", "answered", COUNT, f"exchanges with a latency: {LATENCY}"),
    Shown("errors", "with_errors", COUNT, WITH_ERRORS),
)
OF_PARTITION: Final = f"rows of partitions with an error; error: {declared('partitions', 'error')}"
BROKER: Final = Shown("broker", "to", TEXT, declared_of("connections", "broker_ip", "broker_port"))
SIZES: Final = (
    Shown("requests", "request_bytes", BYTES, declared("exchanges", "request_size")),
    Shown("responses", "response_bytes", BYTES, declared("exchanges", "response_size")),
)
# Name → title, key of the rows in the summary, columns.
OF_SUMMARY: Final[dict[str, tuple[str, tuple[Shown, ...]]]] = {
    "apis": ("APIs", (
        Shown("API", "api", TEXT, declared("exchanges", "api")),
        Shown("versions", "versions", TEXT, declared("exchanges", "api_version")),
        *REQUESTS,
        Shown("unanswered", "unanswered", COUNT,
              f"outcome unanswered; outcome: {declared('exchanges', 'outcome')}"),
        *LATENCIES,
        Shown("broker p99", "work.p99_ns", NS, f"work_ns: {declared('exchanges', 'work_ns')}"),
        Shown("long poll", "waited", SHARE, f"share of {declared('exchanges', 'wait_ns')}"),
        *SIZES,
    )),
    "clients": ("Clients", (
        Shown("client id", "client_id", TEXT, declared("exchanges", "client_id")),
        *REQUESTS, *LATENCIES, *SIZES,
    )),
    "topics": ("Topics", (
        Shown("topic", "topic", TEXT, declared("partitions", "topic")),
        Shown("produced", "produced_bytes", BYTES, declared("partitions", "record_bytes")),
        Shown("records produced", "produced_records", COUNT,
              declared("partitions", "record_count")),
        Shown("fetched", "fetched_bytes", BYTES, declared("partitions", "record_bytes")),
        Shown("records fetched", "fetched_records", COUNT, declared("partitions", "record_count")),
        Shown("errors", "with_errors", COUNT, OF_PARTITION),
    )),
    "errors": ("Errors", (
        Shown("error", "name", TEXT, declared("errors", "name")),
        Shown("code", "code", COUNT, declared("errors", "code")),
        Shown("count", "count", COUNT, rows_of("errors")),
        Shown("field", "path", TEXT, declared("errors", "path")),
        Shown("example", "concerns", TEXT, "of the first one, what it has first of "
              + declared_of("errors", "topic", "group_id", "resource", "message")),
        Shown("first packet", "first_packet", COUNT, "of the first one; response_packet: "
              + declared("exchanges", "response_packet")),
    )),
    "problems": ("Problems", (
        Shown("stage", "stage", TEXT, declared("problems", "stage")),
        Shown("kind", "kind", TEXT, declared("problems", "kind")),
        Shown("count", "count", COUNT, rows_of("problems")),
        Shown("bytes", "bytes", BYTES, declared("problems", "bytes")),
        Shown("packet", "packet_number", COUNT, declared("problems", "packet_number")),
        Shown("first message", "message", TEXT, declared("problems", "message")),
    )),
}  # fmt: skip
EDGES: Final = (
    EXCHANGES,
    Shown("errors", "errors", COUNT, WITH_ERRORS),
    Shown("bytes", "bytes", BYTES, declared_of("exchanges", "request_size", "response_size")),
    Shown("p50", "p50_ns", NS, f"median of latency: {LATENCY}"),
    Shown("p99", "p99_ns", NS, f"99th percentile of latency: {LATENCY}"),
    Shown("max", "max_ns", NS, f"longest latency: {LATENCY}"),
)
OF_EDGES: Final[dict[str, tuple[str, tuple[Shown, ...]]]] = {
    "clients_brokers": ("Clients and brokers", (
        Shown("client id", "from", TEXT, declared("exchanges", "client_id")),
        BROKER, *EDGES,
    )),
    "brokers_topics": ("Brokers and topics", (
        BROKER._replace(path="from"),
        Shown("topic", "to", TEXT, declared("partitions", "topic")), *EDGES,
    )),
    "clients_groups": ("Clients and groups", (
        Shown("client id", "from", TEXT, declared("exchanges", "client_id")),
        Shown("group", "to", TEXT, declared("exchanges", "group_id")), *EDGES,
    )),
}  # fmt: skip


OF_PARTITIONS: Final[tuple[Shown, ...]] = (
    Shown("topic", "topic", TEXT, declared("partitions", "topic")),
    Shown("partition", "partition", NUMBER, declared("partitions", "partition")),
    Shown("exchanges", "exchanges", COUNT, rows_of("partitions")),
    Shown("produced", "produced_bytes", BYTES, declared("partitions", "record_bytes")),
    Shown("records produced", "produced_records", COUNT, declared("partitions", "record_count")),
    Shown("fetched", "fetched_bytes", BYTES, declared("partitions", "record_bytes")),
    Shown("records fetched", "fetched_records", COUNT, declared("partitions", "record_count")),
    Shown("errors", "with_errors", COUNT, OF_PARTITION),
)
LAG_WORDS: Final = next(one.meaning for one in lag.COLUMNS if one.name == "lag")
OF_GROUPS: Final[tuple[Shown, ...]] = (
    Shown("group", "group", TEXT, declared("exchanges", "group_id")),
    *EDGES,
    Shown("lag at the end", "lag", COUNT, LAG_WORDS),
)
# Kind → title, question whose columns they are, and names of columns in the evidence.
HAPPENINGS: Final = {
    "rebalance": ("Rebalances", rebalances.QUESTION, {"started": "start", "ended": "end"}, (
        "started", "group_id", "cause", "client_id", "outcome", "stopped_ns", "duration_ns",
        "members", "moved", "reason", "ended", "request_packet",
    )),
    "failover": ("Failovers", failovers.QUESTION, {}, (
        "started", "topic", "partition", "access", "cause", "blackout_ns", "failing_ns",
        "old_broker", "new_broker", "errors", "clients", "unrecovered", "first_packet",
    )),
}  # fmt: skip


def happening_columns(
    question: Question, names: Mapping[str, str], shown: Sequence[str]
) -> tuple[Shown, ...]:
    """Columns of a question's answer, with its words."""
    of = {column.name: column for column in question.columns}
    found = []
    for name in shown:
        column = of[names.get(name, name)]
        kind = NS if name.endswith("_ns") else COUNT if column.type == INT64 else TEXT
        kind = NUMBER if name == "partition" or name.endswith("_packet") else kind
        title = column.name.removesuffix("_ns").replace("_", " ")
        found.append(Shown(title, name, kind, column.meaning))
    return tuple(found)


OF_HAPPENINGS: Final = {
    kind: (title, happening_columns(question, names, shown))
    for kind, (title, question, names, shown) in HAPPENINGS.items()
}


def connection_columns(shown: Sequence[str], texts: Sequence[str]) -> tuple[Shown, ...]:
    """The columns of the table of connections."""
    kinds = {"connection_id": COUNT, "exchanges": COUNT}
    return (
        Shown("client", "client", TEXT, declared_of("connections", "client_ip", "client_port")),
        BROKER._replace(path="broker"),
        *(
            Shown(name.replace("_", " "), name, kinds.get(name) or kind_of(name),
                  declared("connections", name))
            for name in shown
        ),
        *(Shown(name.replace("_", " "), name, TEXT, declared("connections", name))
          for name in texts),
    )  # fmt: skip


def kind_of(column: str) -> str:
    """Return the format of a number, by the prefix or suffix of its column's name."""
    if column.endswith("_ns"):
        return NS
    return BYTES if "bytes" in column else COUNT


def table(
    name: str, title: str, columns: Sequence[Shown], rows: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """A table for the page."""
    return {
        "name": name, "title": title, "columns": [column._asdict() for column in columns],
        "rows": [[cell(row, column.path) for column in columns] for row in rows],
    }  # fmt: skip


def cell(row: Mapping[str, Any], path: str) -> Any:
    """The value at a path like ``latency.p50_ns``; lists are joined."""
    value: Any = row
    for name in path.split("."):
        value = value[name]
    return ", ".join(map(str, value)) if isinstance(value, list) else value
