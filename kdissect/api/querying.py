"""SQL over the tables of captures, directories of tables, datasets and live captures."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kdissect.analysis.engines.duckdb_tables import DuckTables
from kdissect.analysis.engines.ibis_tables import columns_of
from kdissect.analysis.engines.live_tables import asked_again, noticing
from kdissect.api.answers import places_of
from kdissect.capture.files import Source
from kdissect.errors import InvalidArgument, not_among
from kdissect.sql.failures import engine_failures, query_error
from kdissect.sql.interruption import arrow_rows
from kdissect.sql.queries import shortened, tables_of
from kdissect.tables.schemas import TABLES

if TYPE_CHECKING:
    from kdissect.pipeline import Balance


class Queryable:
    """Opened tables that can be queried; `balance` is of the captures, None for stored tables."""

    def __init__(self, tables: DuckTables, names: Sequence[str], balance: "Balance | None") -> None:
        self._tables = tables
        self.names = list(names)
        self.balance = balance

    def query(self, text: str) -> pa.Table:
        """The rows of one SELECT; raises InvalidArgument for anything else."""
        asked = tables_of(text, TABLES)
        if missing := [name for name in asked if name not in self.names]:
            raise InvalidArgument(not_among(f"table {missing[0]} was not made", self.names))
        try:
            found = arrow_rows(self._tables.connection, text)
        except engine_failures() as error:
            columns = dict.fromkeys(one for name in asked for one in columns_of(TABLES[name]))
            raise query_error(f"query {shortened(text)!r}", error, columns) from error
        return plain(found)


@contextmanager
def opened_tables(
    source: Source | Sequence[Source],
    names: Sequence[str],
    *,
    jobs: int = 0,
    reading: dict[str, Any] | None = None,
) -> Iterator[Queryable]:
    """These tables of captures, or of what `write`, `watch` or Spark stored, until `with` ends."""
    with (
        places_of(source, names, jobs, reading or {}) as (places, balance),
        noticing(places),
        DuckTables(places, names) as tables,
    ):
        yield Queryable(tables, names, balance)


@asked_again
def query(
    source: Source | Sequence[Source],
    text: str,
    *,
    jobs: int = 0,
    reading: dict[str, Any] | None = None,
) -> pa.Table:
    """The rows of an SQL query: ``query("a.pcap", "SELECT count(*) FROM exchanges")``.

    `source` is one or several captures, directories with tables, or datasets; `reading` are
    keywords of `Options`. The query is one SELECT in DuckDB's SQL over the tables of
    docs/tables.md, with times in microseconds and their nanoseconds beside them
    (``request_start_ns``). It can read nothing else. Raises InvalidArgument for another query.
    """
    with opened_tables(source, tables_of(text, TABLES), jobs=jobs, reading=reading) as tables:
        return tables.query(text)


def plain(found: pa.Table) -> pa.Table:
    """The rows with types that every output format has, and each column name once.

    Sums of whole numbers are wider in DuckDB: they become int64, or float64 where they do not fit.
    """
    names: list[str] = []
    for name in found.column_names:
        number, unique = 1, name
        while unique in names:
            number += 1
            unique = f"{name}_{number}"
        names.append(unique)
    return pa.table([plain_column(column) for column in found.columns], names)


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of a simple type; lists, structs and the like become text."""
    types, kind = pa.types, column.type
    if types.is_decimal(kind):
        if kind.scale:
            return column.cast(pa.float64())
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            return column.cast(pa.float64())
    is_simple = (
        types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        or types.is_timestamp(kind) or types.is_string(kind) or types.is_binary(kind)
        or types.is_null(kind) or types.is_dictionary(kind)
    )  # fmt: skip
    if is_simple:
        return column
    return pa.chunked_array([pa.array(map(text_of, column.to_pylist()), pa.string())])


def text_of(value: Any) -> str | None:
    """A value of another type as text, JSON for lists and structs."""
    import json

    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
