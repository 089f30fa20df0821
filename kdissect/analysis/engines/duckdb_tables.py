"""Parquet files of tables on DuckDB: the engine without a server."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.analysis.engines.answer_buckets import bucketed
from kdissect.analysis.engines.chosen_rows import (
    CHOSEN,
    chosen_partitions,
    chosen_rows,
    condition_columns,
    tables_beside,
)
from kdissect.analysis.engines.duckdb_sources import scanned, source_of
from kdissect.analysis.engines.ibis_tables import (
    EVERY,
    OF_EXCHANGES,
    askable,
    declared_tables,
    stored,
)
from kdissect.analysis.engines.stored_tables import Place, numbered
from kdissect.analysis.question import BucketKeys
from kdissect.errors import KdissectError
from kdissect.sql.buckets import keep_by_buckets
from kdissect.sql.conditions import check_condition
from kdissect.sql.connections import connected, locked_connection
from kdissect.sql.failures import engine_failures, exceeds_limit, query_error
from kdissect.sql.files import PlainPaths
from kdissect.sql.interruption import arrow_rows, interruptible, short_queries
from kdissect.sql.separate_statements import keep_or_separate
from kdissect.sql.spilled_percentiles import keep
from kdissect.sql.times import with_zone
from kdissect.tables.schemas import TABLES

if TYPE_CHECKING:
    import duckdb
    import ibis.expr.types as ir
    import pyarrow as pa
    from ibis.expr.operations import Node

PLACE: Final = "place in the answer"
ANSWER: Final = '"rows of the answer"'
_COMPILING: Final = Lock()  # Ibis's options are those of the process


class Buckets(NamedTuple):
    """Statements of an answer by buckets, see `keep_by_buckets`, and what divides the rows."""

    queries: tuple[str, str]
    keys: BucketKeys


class DuckTables:
    """Tables of directories written by ``kdissect dissect``, and of datasets; a context manager.

    `where` is an SQL condition over the columns of `exchanges`: other exchanges, and their rows
    in other tables, are filtered out. ``all_exchanges`` and so on name the unfiltered tables,
    also in the condition. `settings` are DuckDB's. `limits` are those of its memory: an answer that
    does not fit into the first one is asked for in other ways, then with the next one.
    Raises KdissectError for an invalid condition, and for files without tables.
    """

    def __init__(
        self,
        places: Sequence[Place],
        names: Iterable[str],
        where: str | None = None,
        settings: Mapping[str, str] | None = None,
        limits: Sequence[str] = (),
    ) -> None:
        self._has_condition = bool(where)
        self._where = where
        self._settings = dict(settings or {})
        self._limits = list(limits)
        self._what = f"--where {where!r}" if where else "tables"
        names = list(names)
        if where:
            check_condition(where, "--where", askable(names))
        self._beside = tables_beside(where)
        wanted = {stored(name) for name in names} | ({"exchanges"} if where else set())
        self._names = sorted(wanted | set(self._beside), key=list(TABLES).index)
        with ExitStack() as opened:
            self._paths = opened.enter_context(PlainPaths())
            self._plain = [plain_place(place, self._names, self._paths) for place in places]
            self.connection = opened.enter_context(self._connected())
            self._opened = opened.pop_all()

    def __enter__(self) -> "DuckTables":
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @property
    def tables(self) -> "Mapping[str, ir.Table]":
        """The tables of expressions."""
        return declared_tables()

    def rows(self, answer: "ir.Table", bucketed_by: BucketKeys = ()) -> "pa.Table":
        """The rows of an expression over the tables."""
        node = answer.op()
        buckets = partial(buckets_of, node, bucketed_by) if bucketed_by else None
        with self._answered(partial(self._keep, sql_of(node), buckets)) as rows:
            return rows.to_arrow_table()

    @contextmanager
    def reader(
        self, sql: str, size: int, buckets: Buckets | None = None
    ) -> "Iterator[pa.RecordBatchReader]":
        """The rows of a statement over the tables (`sql_of`), at most `size` at a time."""
        given = None if buckets is None else lambda: buckets
        with self._answered(partial(self._keep, sql, given)) as rows:
            yield rows.to_arrow_reader(size)

    @contextmanager
    def _answered(self, keep_rows: Callable[[], None]) -> "Iterator[duckdb.DuckDBPyRelation]":
        """The rows of an answer, kept as a table.

        As a statement the query is parsed, bound and planned once, which takes longer than all the
        rest where tables are small; as a relation it is bound three times.
        """
        try:
            with short_queries():
                interruptible(keep_rows, self.interrupt)
                try:
                    yield self.connection.sql(f"FROM {ANSWER}")
                finally:
                    self.connection.execute(f"DROP TABLE {ANSWER}")
        except engine_failures() as error:
            # For damaged files, and for a condition, which is only applied here.
            raise self._query_error(error) from error

    def interrupt(self) -> None:
        """End the query that another thread executes."""
        self.connection.interrupt()

    def _connected(self) -> "duckdb.DuckDBPyConnection":
        """A connection that has the tables, with the next limit."""
        limit = {"memory_limit": self._limits.pop(0)} if self._limits else {}
        files = local_files(self._names, self._plain)
        connection = connected(files, self._settings | limit)
        try:
            with short_queries():
                for name in self._names:
                    add_all(connection, name, self._plain)
                if self._beside:
                    chosen = chosen_partitions(self._where or "", self._beside)
                    connection.execute(f"CREATE VIEW {CHOSEN} AS {chosen}")
                for name in self._names:
                    self._add(connection, name)
        except engine_failures() as error:
            connection.close()
            raise self._query_error(error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _keep(self, sql: str, buckets: Callable[[], Buckets] | None) -> None:
        """Keep the rows of an answer, in the first way that memory suffices for."""
        ways: list[Callable[[], None]] = [lambda: keep_or_separate(self.connection, ANSWER, sql)]
        if buckets is not None:
            by_buckets = partial(self._keep_by_buckets, buckets)
            ways = [lambda: keep(self.connection, ANSWER, sql), by_buckets]
        while True:
            for way in ways:
                try:
                    way()
                except engine_failures() as error:
                    if not exceeds_limit(error) or (way is ways[-1] and not self._limits):
                        raise
                else:
                    return
            self.connection.close()
            self.connection = self._opened.enter_context(self._connected())
            ways = ways[1:] or ways

    def _keep_by_buckets(self, buckets: Callable[[], Buckets]) -> None:
        queries, keys = buckets()
        there = [(name, columns) for name, columns in keys if name in self._names]
        choose = partial(self._add, self.connection)
        keep_by_buckets(self.connection, ANSWER, queries, there, choose)

    def _query_error(self, error: Exception) -> KdissectError:
        """DuckDB's message, as an error that names the query."""
        found = query_error(self._what, error, condition_columns())
        kind = type(found) if self._has_condition else KdissectError
        return kind(self._paths.with_targets(str(found)))

    def _add(self, connection: "duckdb.DuckDBPyConnection", name: str, condition: str = "") -> None:
        """Add a table with the chosen rows, or with those for which a condition holds, too."""
        where = self._where
        source = f"SELECT * FROM {EVERY}{name}"  # noqa: S608  # one of TABLES
        if self._beside:
            source += chosen_rows(name, self._beside)
        elif where and name == "exchanges":
            # The condition is the user's: in separate parentheses, on separate lines.
            source += f" WHERE (\n{where}\n)"
        elif where and name in OF_EXCHANGES:
            source += " WHERE exchange_id IN (SELECT exchange_id FROM exchanges)"
        if condition:
            source = f"SELECT * FROM ({source}) WHERE {condition}"  # noqa: S608  # ours
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS {source}")


def add_all(connection: "duckdb.DuckDBPyConnection", name: str, places: Sequence[Place]) -> None:
    """Add a table with all its rows."""
    for place, tap in numbered(places):
        if place.scan is not None and place.paths(name):
            connection.register(scanned(name, tap), place.scan(name))
    connection.execute(f"CREATE VIEW {EVERY}{name} AS {source_of(name, places)}")


def plain_place(place: Place, names: Collection[str], paths: PlainPaths) -> Place:
    """The place with the paths by which DuckDB opens the files of these tables.

    The files are checked under their own paths.
    """
    if place.scan is not None:
        return place
    root = place.location if place.is_dataset else ""
    there = [name for name in place.files if name in names]
    files = {
        name: [
            file._replace(path=paths.of(path, root))
            for path, file in zip(place.paths(name), place.files[name], strict=True)
        ]
        for name in there
    }
    return place._replace(files={**place.files, **files}, root="")


def local_files(names: Iterable[str], places: Sequence[Place]) -> list[str]:
    """The files of tables that DuckDB reads itself."""
    return [
        path
        for name in names
        for place in places
        if place.scan is None
        for path in place.paths(name)
    ]


def rows_having(table: "pa.Table", condition: str) -> "pa.Table":
    """Rows of an answer for which an SQL condition over its columns holds, in their order.

    Raises KdissectError for an invalid condition.
    """
    import pyarrow as pa

    check_condition(condition, "--having")
    times = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    changed = ", ".join(with_zone(name) for name in times)
    columns = f"* REPLACE ({changed})" if times else "*"
    rows = table.append_column(PLACE, pa.array(range(table.num_rows), pa.int64()))
    with locked_connection() as connection:
        connection.register("answer", rows)
        chosen = f"SELECT {columns} FROM answer"  # noqa: S608  # columns are ours
        query = f'SELECT "{PLACE}" FROM ({chosen}) WHERE (\n{condition}\n) ORDER BY 1'  # noqa: S608
        try:
            places = arrow_rows(connection, query)
        except engine_failures() as error:
            what = f"--having {condition!r}"
            raise query_error(what, error, table.column_names) from error
    return table.take(places[PLACE])


def buckets_of(answer: "Node", keys: BucketKeys) -> Buckets:
    """The statements of an expression by buckets of these columns."""
    bucket, whole = (sql_of(one.op()) for one in bucketed(answer))
    return Buckets((bucket, whole), keys)


@lru_cache(maxsize=64)
def sql_of(answer: "Node") -> str:
    """An expression compiled to DuckDB's SQL; compiling takes longer than a small table's query."""
    import ibis

    # Merging nested SELECTs takes half of the compiling, and DuckDB's optimizer does it anyway.
    settings = ibis.options.sql
    with _COMPILING:
        is_fused, settings.fuse_selects = settings.fuse_selects, False
        try:
            return str(ibis.to_sql(answer.to_expr(), dialect="duckdb"))
        finally:
            settings.fuse_selects = is_fused
