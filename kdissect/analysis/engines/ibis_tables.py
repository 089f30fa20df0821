"""The tables as Ibis sees them: by their declarations, independent of the engine.

Times have microseconds there, which all engines can compare; beside each is its number of
nanoseconds since 1970, ``request_start_ns`` beside ``request_start``.

A condition over the exchanges filters out the others and their rows in other tables. A question
that also needs those, such as other clients, reads ``all_exchanges``, ``all_partitions``.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kdissect.tables import schemas
from kdissect.tables.schemas import TABLES, TIME, Table

if TYPE_CHECKING:
    import ibis.expr.types as ir

IBIS_TYPES: Final = {
    schemas.TIME: "timestamp('UTC', 6)",
    schemas.INT64: "int64",
    schemas.INT32: "int32",
    schemas.INT16: "int16",
    schemas.INT8: "int8",
    schemas.BOOL: "boolean",
    schemas.TEXT: "string",
    schemas.BINARY: "binary",
}


EVERY: Final = "all_"  # prefix of a table's name: without the condition
# Tables with rows of one exchange: filtered by a condition over the exchanges.
OF_EXCHANGES: Final = ("partitions", "batches", "records", "errors", "members", "bodies")
# Tables that have the tap and the day of a dataset's rows; null elsewhere.
OF_TAPS: Final = ("exchanges", "connections")
TAP_COLUMNS: Final = ("date", "tap")


@cache
def declared_tables() -> "Mapping[str, ir.Table]":
    """All tables, without rows; the same ones each time."""
    import ibis

    names = [*TABLES, *[EVERY + name for name in ("exchanges", *OF_EXCHANGES)]]
    tables = {name: ibis.table(columns_of(TABLES[stored(name)]), name=name) for name in names}
    return MappingProxyType(tables)


def unconditional_tables() -> "dict[str, ir.Table]":
    """The same without a condition: the tables of all exchanges equal the filtered ones."""
    tables = declared_tables()
    return {name: tables[stored(name)] for name in tables}


def stored(name: str) -> str:
    """The stored table behind this name: exchanges for all_exchanges."""
    return name.removeprefix(EVERY)


def files_of(names: Iterable[str]) -> tuple[str, ...]:
    """The tables whose files hold the rows of all these, in the order of TABLES."""
    wanted = {stored(name) for name in names}
    return tuple(name for name in TABLES if name in wanted)


def askable(names: Iterable[str]) -> list[str]:
    """The tables that subqueries of a condition may use, where these tables are opened."""
    return [f"{EVERY}{name}" for name in files_of([*names, "exchanges"])]


def columns_of(table: Table) -> dict[str, str]:
    """Name → Ibis type of the columns, including the numbers of nanoseconds."""
    columns = {column.name: IBIS_TYPES[column.type] for column in table.columns}
    columns |= {f"{name}_ns": "int64" for name in times_of(table)}
    return columns | dict.fromkeys(tap_columns(table.name), "string")


def tap_columns(table: str) -> tuple[str, ...]:
    """The columns of a table that are derived from a dataset's file paths."""
    return TAP_COLUMNS if table in OF_TAPS else ()


def times_of(table: Table) -> list[str]:
    """The time columns."""
    return [column.name for column in table.columns if column.type == TIME]
