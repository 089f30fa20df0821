"""Parquet files of tables on Spark: the engine for data too large for one host.

An analysis of little data is one task, in which DuckDB evaluates it; others are Spark SQL.
"""

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

from kdissect.analysis.engines.chosen_rows import (
    CHOSEN,
    chosen_partitions,
    chosen_rows,
    tables_beside,
)
from kdissect.analysis.engines.duckdb_tables import buckets_of, sql_of
from kdissect.analysis.engines.ibis_tables import (
    EVERY,
    OF_EXCHANGES,
    TAP_COLUMNS,
    askable,
    declared_tables,
    stored,
    tap_columns,
)
from kdissect.analysis.engines.stored_tables import Place, numbered
from kdissect.analysis.question import BucketKeys
from kdissect.errors import KdissectError
from kdissect.spark.arrow_rows import to_arrow
from kdissect.spark.conditions import condition_of
from kdissect.spark.dataset_tables import pattern_of, read_files
from kdissect.spark.interruption import cancellable
from kdissect.spark.sessions import clear_errors, failures, first_line
from kdissect.spark.single_task import (
    TaskMemoryError,
    evaluation_of,
    fits,
    largest_in,
    rows_by_task,
)
from kdissect.spark.statements import statements_of
from kdissect.sql.conditions import check_condition
from kdissect.sql.separate_statements import Statements
from kdissect.tables.ids import id_offsets
from kdissect.tables.schemas import TABLES, TIME, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa
    from ibis.expr.operations import Node
    from pyspark.sql import DataFrame, SparkSession

# ``${env:...}`` in a condition stays text: otherwise Spark replaces it, also in literals, by
# variables of the driver, and shows the values in errors and plans.
LITERAL: Final = {"spark.sql.variable.substitute": "false"}
# Settings for reading and comparing tables, in any session.
READING: Final = {
    **LITERAL,
    "spark.sql.ansi.enabled": "true",  # not the default before 4.0: wrong casts were NULL
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.session.timeZone": "UTC",
}
# Attempts of a query if executors are lost; and Spark's name of the error for a lost block.
ATTEMPTS: Final = 3
LOST: Final = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"


class SparkTables:
    """Tables of directories written by ``kdissect dissect``, and of datasets, in a session.

    `names`, `where` and the errors are those of `DuckTables`. The session keeps its settings, and
    has uniquely named views until the end of `with`. It may be a Spark Connect session.
    """

    def __init__(
        self,
        session: "SparkSession",
        places: Sequence[Place],
        names: Iterable[str],
        where: str | None = None,
    ) -> None:
        self.tables = declared_tables()
        self.session = session
        self.prefix = f"kdissect_{secrets.token_hex(4)}_"
        self._views: list[str] = []
        names = list(names)
        self._askable = askable(names)
        if where:
            check_condition(where, "--where", self._askable)
        self._beside = tables_beside(where)
        self._question = partial(evaluation_of, places, names, where)
        wanted = {stored(name) for name in names} | ({"exchanges"} if where else set())
        ordered = [name for name in TABLES if name in wanted | set(self._beside)]
        self._is_small = fits(places, ordered, largest_in(session))
        self._has_buckets = not fits(places, ordered)
        self._define_views = partial(self._define, ordered, places, where)
        if not self._is_small or where:
            self._define_views()

    def __enter__(self) -> "SparkTables":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with suppress(*failures()) if kind is not None else nullcontext():
            self.close()

    def close(self) -> None:
        """Drop the views from the session."""
        while self._views:
            self.session.catalog.dropTempView(self._views.pop())

    def rows(self, answer: "ir.Table", bucketed_by: BucketKeys = ()) -> "pa.Table":
        """Rows of an expression over the tables."""
        ask = partial(self._rows_of, answer.op(), bucketed_by)
        with configured(self.session, READING), clear_errors("Spark"):
            return cancellable(self.session, ask)

    def _rows_of(self, node: "Node", bucketed_by: BucketKeys) -> "pa.Table":
        if self._is_small:
            # Compiling the buckets takes as long as an answer of little data.
            keys = bucketed_by if self._has_buckets else ()
            buckets = buckets_of(node, keys) if keys else None
            try:
                return rows_by_task(self.session, self._question(sql_of(node), buckets))
            except TaskMemoryError:
                self.close()
                self._is_small = False
                self._define_views()
        return while_lost(partial(self._rows, statements_of(node, self.prefix)))

    def _define(self, names: Sequence[str], places: Sequence[Place], where: str | None) -> None:
        """Define the views, over empty tables for a task: then Spark only checks the condition."""
        what = f"--where {where!r}" if where else "tables"
        try:
            with configured(self.session, READING), clear_errors(what):
                for name in names:
                    self._add_all(name, places)
                if where and self._beside:
                    condition = condition_of(where, self.prefix, self._askable)
                    chosen = chosen_partitions(condition, self._beside, self.prefix)
                    self._call(CHOSEN, self.session.sql(chosen))
                for name in names:
                    self._add(name, where)
        except BaseException:
            self.close()
            raise

    def _rows(self, statements: Statements) -> "pa.Table":
        before = len(self._views)
        try:
            for part in statements.parts:
                self._call(part.name, kept(self.session.sql(part.sql), part.read))
            return to_arrow(self.session.sql(statements.answer))
        finally:
            for name in self._views[before:]:
                self.session.catalog.dropTempView(name)
            del self._views[before:]

    def _add_all(self, name: str, places: Sequence[Place]) -> None:
        if self._is_small:
            frames = [stored_frame(self.session, "", name, ())]
        else:
            frames = [self._frame(name, place, tap) for place, tap in numbered(places)]
        frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
        self._call(f"{EVERY}{name}", frame)

    def _frame(self, name: str, place: Place, tap: int) -> "DataFrame":
        """Rows of a table at a place, with its taps numbered from `tap` on."""
        paths = place.paths(name)
        if place.is_dataset:
            frame = stored_frame(self.session, place.location, name, paths)
        else:
            frame = self.session.read.parquet(*map(pattern_of, paths))
            nulls = [f"CAST(NULL AS STRING) AS {one}" for one in tap_columns(name)]
            frame = frame.selectExpr(*selection(TABLES[name].columns, frame.columns), *nulls)
        moved = id_offsets(tap) if tap else {}
        changed = {
            id_: frame[id_] + offset for id_, offset in moved.items() if id_ in frame.columns
        }
        return frame.withColumns(changed) if changed else frame

    def _add(self, name: str, where: str | None) -> None:
        every = f"SELECT * FROM {self.prefix}{EVERY}{name}"  # noqa: S608  # one of TABLES
        if self._beside:
            every += chosen_rows(name, self._beside, self.prefix)
        elif where and name == "exchanges":
            every += f" WHERE ({condition_of(where, self.prefix, self._askable)})"
        elif where and name in OF_EXCHANGES:
            chosen = f"SELECT exchange_id FROM {self.prefix}exchanges"  # noqa: S608  # ours
            every += f" WHERE exchange_id IN ({chosen})"
        self._call(name, self.session.sql(every))

    def _call(self, name: str, frame: "DataFrame") -> None:
        """Register rows under a name for statements."""
        view = name if name.startswith(self.prefix) else self.prefix + name
        frame.createOrReplaceTempView(view)
        self._views.append(view)


def stored_frame(
    session: "SparkSession", dataset: str, table: str, files: Sequence[str]
) -> "DataFrame":
    """Rows of files of a dataset's table, with the columns that analyses see."""
    frame = read_files(session, dataset, table, files)
    return frame.drop(*[one for one in TAP_COLUMNS if one not in tap_columns(table)])


def while_lost(ask: "Callable[[], pa.Table]") -> "pa.Table":
    """Result of `ask`, retried if an executor that kept parts of the query was lost.

    Raises KdissectError after `ATTEMPTS` attempts.
    """
    for _ in range(ATTEMPTS):
        try:
            return ask()
        except failures() as error:
            if LOST not in str(error):
                raise
            reason = first_line(error)
    raise KdissectError(
        f"Spark: executors that kept parts of the question were lost {ATTEMPTS} times: {reason}"
    )


def kept(frame: "DataFrame", read: Collection[str] | None) -> "DataFrame":
    """The rows, computed now and kept on the executors; only columns that are `read`.

    Not cached: plans on cached rows are analysed together with those that made them. Each column
    gets a new identity, by which Spark distinguishes it from the one it was in another join.
    """
    columns = [name for name in frame.columns if read is None or name in read]
    named = [f"`{name}` AS `{name}`" for name in columns or frame.columns[:1]]
    return frame.selectExpr(*named).localCheckpoint()


@contextmanager
def configured(session: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings within the context."""
    before = [(name, session.conf.get(name, None)) for name in settings]
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    except BaseException:
        with suppress(*failures()):  # a signal may have ended the JVM, too
            restore(session, before)
        raise
    restore(session, before)


def restore(session: "SparkSession", settings: Iterable[tuple[str, str | None]]) -> None:
    """Give the session settings that it had; None for one that was not set."""
    for name, former in settings:
        if former is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, former)


def selection(declared: Iterable[Column], there: Sequence[str]) -> list[str]:
    """Select list by which a table's rows have the declared columns.

    Times are nanoseconds, in the column itself or in a separate one, and are rounded to
    microseconds as DuckDB does. Columns missing in tables of older versions are left out.
    """
    selected = []
    for column in declared:
        name = f"`{column.name}`"
        if column.name not in there:
            continue
        if column.type != TIME:
            selected.append(name)
            continue
        beside = f"`{column.name}_ns`"
        exact = beside if f"{column.name}_ns" in there else name
        rounded = f"timestamp_micros(({exact} + 500) div 1000) AS {name}"
        selected += [rounded, f"{exact} AS {beside}"]
    return selected
