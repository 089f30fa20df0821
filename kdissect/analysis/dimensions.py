"""Dimensions of exchanges: their own columns, those of their connection, their topics.

A dimension has the name of the column of the tables that it is: `client_id`, `group_id`. That name
is printed, and is the one of --by, --where, --columns and --sort. Expressions of questions use the
short name, `client`, so that a dimension and the column of an exchange do not meet; users may, too.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.analysis.question import DURATION, NAMES, Option, Tables
from kdissect.analysis.shared_columns import CLIENT_IP, GROUP_ID
from kdissect.errors import InvalidArgument
from kdissect.tables.schemas import INT32, INT64, TEXT, TIME, Column
from kdissect.text.suggestions import nearest

if TYPE_CHECKING:
    import ibis.expr.types as ir

MS: Final = 1_000_000
SECOND_NS: Final = 1_000_000_000
DEFAULT_WINDOW_NS: Final = 10 * SECOND_NS
CLIENT: Final = ("client", "client_ip")  # what identifies a client by default


class Dimension(NamedTuple):
    """A column to group by, and the table beside `exchanges` that has it."""

    column: Column
    table: str = "exchanges"


def _named(name: str, type_: str, meaning: str, table: str = "exchanges") -> Dimension:
    return Dimension(Column(name, type_, "", meaning), table)


DIMENSIONS: Final = {
    dimension.column.name: dimension
    for dimension in (
        _named("api", TEXT, "API"),
        _named("api_version", INT32, "version of the API"),
        _named("client", TEXT, "client id"),
        _named("client_ip", TEXT, CLIENT_IP.meaning, "connections"),
        _named("user", TEXT, "SASL user", "connections"),
        _named("broker", TEXT, "address and port of the broker", "connections"),
        _named("connection", INT64, "the connection, see `connections`"),
        _named("topic", TEXT, "topic; an exchange counts for each of its topics", "partitions"),
        _named("partition", INT32, "partition of the topic", "partitions"),
        _named("group", TEXT, GROUP_ID.meaning),
        _named("transaction", TEXT, "transactional id"),
        _named("rack", TEXT, "rack that a consumer says it is in"),
        _named("acks", INT32, "acks that a produce request asks for"),
        _named("error", TEXT, "error of the response as a whole"),
        _named("capture", TEXT, "the file"),
        _named("tap", TEXT, "tap of a dataset that saw it"),
        _named("date", TEXT, "day (UTC) of a dataset on which the capture began"),
        _named("window", TIME, "start of the time window in which the request was sent"),
    )
}  # fmt: skip


# Short names → the columns of the tables that they stand for.
COLUMNS: Final = {
    "client": "client_id",
    "connection": "connection_id",
    "group": "group_id",
    "rack": "rack_id",
    "transaction": "transactional_id",
    "user": "sasl_user",
}
SHORT: Final = {column: short for short, column in COLUMNS.items()}


def column_name(name: str) -> str:
    """The name of a dimension outside expressions.

    >>> column_name("client"), column_name("client_id"), column_name("topic")
    ('client_id', 'client_id', 'topic')
    """
    return COLUMNS.get(name, name)


def short_name(name: str) -> str:
    """The name of a dimension in expressions."""
    return SHORT.get(name, name)


def dimension_column(name: str) -> Column:
    """The declaration of a dimension's column in an answer."""
    return DIMENSIONS[short_name(name)].column._replace(name=column_name(name))


def by_option(default: tuple[str, ...], own: Iterable[str] = ()) -> Option:
    """The option `by` of an analysis that has additional dimensions."""
    return group_option(default, tuple(dict.fromkeys((*own, *DIMENSIONS))))


def group_option(default: tuple[str, ...], names: tuple[str, ...]) -> Option:
    """The option `by` of a question with only these dimensions."""
    return named_option(
        default, f"Group by any of these: {', '.join(map(column_name, names))}.", names
    )


def client_option(names: tuple[str, ...]) -> Option:
    """The option `by` of a question about clients."""
    meaning = f"Identify clients by any of these: {', '.join(map(column_name, names))}."
    return named_option(CLIENT, meaning, names)


def named_option(default: tuple[str, ...], meaning: str, names: tuple[str, ...]) -> Option:
    """The option `by`, with the names of columns."""
    columns = tuple(map(column_name, names))
    return Option("by", NAMES, tuple(map(column_name, default)), meaning, columns)


BY: Final = by_option(("api",))
WINDOW: Final = Option("window", DURATION, DEFAULT_WINDOW_NS, "Width of the time windows.")


def check_names(by: Sequence[str], known: Iterable[str] = DIMENSIONS) -> None:
    """Raise KdissectError for an unknown dimension."""
    columns = list(dict.fromkeys(map(column_name, known)))
    for name in by:
        if column_name(name) not in columns:
            near = nearest(name, [*columns, *[SHORT[one] for one in columns if one in SHORT]])
            meant = f"did you mean {column_name(near)!r}? " if near is not None else ""
            raise InvalidArgument(
                f"cannot group by {name!r}; {meant}there are: {', '.join(columns)}"
            )


def in_order(rows: "ir.Table", by: Sequence[str], *first: "ir.Value") -> "ir.Table":
    """The rows in order of time where `by` has windows, then by `first`, then by the others."""
    times = [name for name in by if name == "window"]
    return rows.order_by([*times, *first, *[name for name in by if name != "window"]])


def tables_for(by: Sequence[str]) -> tuple[str, ...]:
    """The tables that have the dimensions."""
    names = map(short_name, by)
    return tuple(dict.fromkeys(DIMENSIONS[name].table for name in names if name in DIMENSIONS))


def with_dimensions(tables: Tables, by: Sequence[str], window_ns: int) -> "ir.Table":
    """The exchanges with the dimensions as columns; by topic or partition, one row for each."""
    check_names(by)
    exchanges = tables["exchanges"]
    needed = tables_for(by)
    if "connections" in needed:
        exchanges = with_ends(tables, exchanges)
    columns = {
        "client": lambda t: t.client_id,
        "connection": lambda t: t.connection_id,
        "group": lambda t: t.group_id,
        "rack": lambda t: t.rack_id,
        "transaction": lambda t: t.transactional_id,
        "window": lambda t: window_of(t.request_start_ns, window_ns),
    }
    asked = {name: columns[name] for name in by if name in columns}
    if asked:
        exchanges = exchanges.mutate(**asked)
    if "partitions" in needed:
        topics = tables["partitions"].select(
            "exchange_id", *[name for name in by if DIMENSIONS[name].table == "partitions"]
        )
        exchanges = exchanges.inner_join(topics.distinct(), "exchange_id")
    return exchanges


def with_ends(tables: Tables, rows: "ir.Table") -> "ir.Table":
    """Rows that have a connection_id, with the connection's endpoints."""
    connections = tables["connections"]
    ends = connections.select(
        "connection_id",
        "client_ip",
        broker=connections.broker_ip + ":" + connections.broker_port.cast("string"),
        user=connections.sasl_user,
    )
    return rows.left_join(ends, "connection_id").drop("connection_id_right")


def window_of(time_ns: "ir.IntegerColumn", window_ns: int) -> "ir.TimestampColumn":
    """The start of the time window that contains a time; windows have whole milliseconds."""
    import ibis

    window_ms = max(1, window_ns // MS)
    time_ms = (time_ns // MS).cast("int64")
    # Not `as_timestamp("ms")`, which Spark does not support.
    start = ibis.timestamp("1970-01-01", timezone="UTC")
    since = (time_ms - time_ms % window_ms).as_interval("ms")
    return (start + since).cast("timestamp('UTC', 6)")
