"""Tables of the page: rows as lists of cells, and each column with its meaning."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kdissect.analysis.question import Question
from kdissect.analysis.questions import failovers, rebalances
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


LATENCY: Final = declared("exchanges", "latency_ns")
LATENCIES: Final = (
    Shown("p50", "latency.p50_ns", NS, f"median of latency: {LATENCY}"),
    Shown("p95", "latency.p95_ns", NS, f"95th percentile of latency: {LATENCY}"),
    Shown("p99", "latency.p99_ns", NS, f"99th percentile of latency: {LATENCY}"),
    Shown("max", "latency.max_ns", NS, f"longest latency: {LATENCY}"),
)
REQUESTS: Final = (
    Shown("exchanges", "exchanges", COUNT, "requests with their responses, or either alone"),
    Shown("answered", "answered", COUNT, "exchanges with a response to measure"),
    Shown("errors", "with_errors", COUNT, "exchanges with an error code other than 0"),
)
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
        Shown("unanswered", "unanswered", COUNT, "requests without a response"),
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
        Shown("errors", "with_errors", COUNT, "partitions answered with an error"),
    )),
    "errors": ("Errors", (
        Shown("error", "name", TEXT, declared("errors", "name")),
        Shown("code", "code", COUNT, declared("errors", "code")),
        Shown("count", "count", COUNT, "times that a response has it"),
        Shown("field", "path", TEXT, declared("errors", "path")),
        Shown("example", "concerns", TEXT, "topic, group or resource of the first one"),
        Shown("first packet", "first_packet", COUNT, "frame number of the first response with it"),
    )),
    "problems": ("Problems", (
        Shown("stage", "stage", TEXT, declared("problems", "stage")),
        Shown("kind", "kind", TEXT, declared("problems", "kind")),
        Shown("count", "count", COUNT, "problems of this kind"),
        Shown("bytes", "bytes", BYTES, declared("problems", "bytes")),
        Shown("packet", "packet_number", COUNT, declared("problems", "packet_number")),
        Shown("first message", "message", TEXT, declared("problems", "message")),
    )),
}  # fmt: skip
EDGES: Final = (
    Shown("exchanges", "exchanges", COUNT, "requests with their responses, or either alone"),
    Shown("errors", "errors", COUNT, "exchanges with an error code other than 0"),
    Shown("bytes", "bytes", BYTES, "size fields of requests and responses"),
    Shown("p50", "p50_ns", NS, f"median of latency: {LATENCY}"),
    Shown("p99", "p99_ns", NS, f"99th percentile of latency: {LATENCY}"),
    Shown("max", "max_ns", NS, f"longest latency: {LATENCY}"),
)
OF_EDGES: Final[dict[str, tuple[str, tuple[Shown, ...]]]] = {
    "clients_brokers": ("Clients and brokers", (
        Shown("client id", "from", TEXT, declared("exchanges", "client_id")),
        Shown("broker", "to", TEXT, "address and port of the broker"), *EDGES,
    )),
    "brokers_topics": ("Brokers and topics", (
        Shown("broker", "from", TEXT, "address and port of the broker"),
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
    Shown("exchanges", "exchanges", COUNT, "exchanges that name the partition"),
    Shown("produced", "produced_bytes", BYTES, declared("partitions", "record_bytes")),
    Shown("records produced", "produced_records", COUNT, declared("partitions", "record_count")),
    Shown("fetched", "fetched_bytes", BYTES, declared("partitions", "record_bytes")),
    Shown("records fetched", "fetched_records", COUNT, declared("partitions", "record_count")),
    Shown("errors", "with_errors", COUNT, "answers for the partition with an error code"),
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
        Shown("client", "client", TEXT, "address and port of the client side"),
        Shown("broker", "broker", TEXT, "address and port of the broker side"),
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
