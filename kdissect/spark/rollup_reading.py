"""Reading and merging of a dataset's rollups, in this process or on Spark."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.engines.stored_tables import Place, check_files
from kdissect.dataset.entries import OWN
from kdissect.dataset.rollup_answers import Asked, Groups
from kdissect.dataset.rollup_rows import COUNTERS, KLL_K, LARGEST, MEASURES, SETS, rollup_schema
from kdissect.dataset.storage import is_uri, joined, reached_by
from kdissect.errors import KdissectError
from kdissect.spark.arrow_rows import to_arrow
from kdissect.spark.conditions import condition_of
from kdissect.spark.dataset_tables import located, pattern_of
from kdissect.spark.interruption import cancellable
from kdissect.spark.rollups import (
    VERSION,
    Unit,
    contents_at,
    read_rollup,
    rolled_up,
    rolled_up_there,
    rollups_in,
    units_of,
)
from kdissect.spark.sessions import clear_errors
from kdissect.spark.spark_tables import LITERAL, configured
from kdissect.spark.task_runners import on_spark
from kdissect.sql.conditions import check_condition
from kdissect.sql.connections import locked_connection
from kdissect.sql.failures import engine_failures, reason_of
from kdissect.sql.interruption import arrow_rows
from kdissect.tables.stored_rows import believed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

VALUES: Final = (*COUNTERS, *LARGEST, *MEASURES, *SETS)
OF_FILES: Final = {"date", "tap"}


def answer_of_rollups(
    places: Sequence[Place],
    asked: Asked,
    session: "SparkSession | None" = None,
    notice: Callable[[str], None] | None = None,
) -> "pa.Table":
    """Rows of the answer; with a session, Spark merges the stored rollups.

    Missing rollups are computed for this answer, which is reported to `notice`.
    """
    if asked.where:
        check_condition(asked.where, "--where")
    groups = Groups(asked)
    for place in places:
        if not place.is_dataset:
            raise KdissectError(f"{place.name} is no dataset: rollups are of datasets")
        location = place.location
        units = chosen_units(units_of(contents_at(location), [asked.level]), asked.where)
        there = rollups_in(location)
        written = [unit for unit in units if unit.rollup in there]
        missing = [unit for unit in units if unit.rollup not in there]
        if missing and notice is not None:
            notice(
                f"{place.name}: {len(missing)} of {len(units)} files have no rollup yet; "
                f"kdissect spark rollup {place.name}"
            )
        if session is not None:
            groups.add(merged_on_spark(session, location, written, asked))
            made = on_spark(session)(
                partial(rolled_up_there, location, reached_by([location])), missing
            )
            for unit, rows in zip(missing, made, strict=True):
                groups.add(keyed(rows, unit, asked))
            continue
        for unit in units:
            rows = read_rollup(location, unit) if unit.rollup in there else None
            with believed(f"the rollup of {joined(location, unit.path)}"):
                groups.add(keyed(rolled_up(location, unit) if rows is None else rows, unit, asked))
    with believed("rollups"):
        return groups.answer()


def keyed(rows: "pa.Table", unit: Unit, asked: Asked) -> "pa.Table":
    """Rows that satisfy the condition, with the values of `by` as columns."""
    import pyarrow as pa

    for name, text in (("date", unit.date), ("tap", unit.tap)):
        rows = rows.append_column(name, pa.array([text] * rows.num_rows, pa.string()))
    columns = [*[f"{sql} AS {name}" for name, sql in asked.keys.items()], *VALUES]
    every = "SELECT *, make_timestamptz(request_start_ns // 1000) AS request_start FROM rollup"
    query = f"SELECT {', '.join(columns)} FROM ({every})"  # noqa: S608  # ours
    if asked.where:
        query += f" WHERE (\n{asked.where}\n)"
    with locked_connection() as connection:
        connection.register("rollup", rows)
        try:
            return arrow_rows(connection, query)
        except engine_failures() as error:
            raise KdissectError(f"--where {asked.where!r}: {reason_of(error)}") from error


def chosen_units(units: Sequence[Unit], where: str | None) -> list[Unit]:
    """Units whose day and tap may satisfy the condition."""
    conditions = conditions_of_files(where) if where else []
    if not conditions:
        return list(units)
    import pyarrow as pa

    rows = [{"date": unit.date, "tap": unit.tap, "place": at} for at, unit in enumerate(units)]
    schema = pa.schema([("date", pa.string()), ("tap", pa.string()), ("place", pa.int64())])
    # Rewritten by another parser, so they are checked again.
    for condition in conditions:
        check_condition(condition, "--where")
    with locked_connection() as connection:
        connection.register("units", pa.Table.from_pylist(rows, schema))
        query = f"SELECT place FROM units WHERE {' AND '.join(conditions)} ORDER BY 1"  # noqa: S608
        try:
            places = arrow_rows(connection, query).column(0).to_pylist()
        except engine_failures() as error:
            raise KdissectError(f"--where {where!r}: {reason_of(error)}") from error
    return [units[place] for place in places]


def conditions_of_files(where: str) -> list[str]:
    """Parts of a condition on days and taps only, in DuckDB's SQL."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        condition = sqlglot.condition(where, dialect="duckdb")
    except SqlglotError:
        return []
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    conditions = []
    for part in parts:
        columns = {one.name for one in part.find_all(exp.Column)}
        if columns and columns <= OF_FILES and not part.find(exp.Select):
            conditions.append(f"({part.sql(dialect='duckdb')})")
    return conditions


def merged_on_spark(
    session: "SparkSession", location: str, units: Sequence[Unit], asked: Asked
) -> "pa.Table":
    """One row per group, with sketches merged by Spark."""
    from pyspark.sql import functions as f

    frame = stored_rollups(session, location, units, asked.level)
    what = f"--where {asked.where!r}" if asked.where else "Spark"
    with clear_errors(what), configured(session, LITERAL):
        frame = frame.withColumn(
            "request_start", f.expr("timestamp_micros(request_start_ns div 1000)")
        )
        if asked.where:
            frame = frame.where(condition_of(asked.where, ""))
        keys = [f.expr(sql).alias(name) for name, sql in asked.keys.items()]
        merged: list[Any] = [f.sum(name).alias(name) for name in COUNTERS]
        merged += [f.max(name).alias(name) for name in LARGEST]
        merged += [f.kll_merge_agg_float(name, f.lit(KLL_K)).alias(name) for name in MEASURES]
        merged += [f.hll_union_agg(name).alias(name) for name in SETS]
        return cancellable(session, partial(to_arrow, frame.groupBy(*keys).agg(*merged)))


def stored_rollups(
    session: "SparkSession", location: str, units: Sequence[Unit], level: str
) -> "DataFrame":
    """Rows of the stored rollups."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StringType, StructField, StructType

    partitions = [StructField(name, StringType()) for name in ("date", "tap")]
    schema = StructType([*from_arrow_schema(rollup_schema(level)), *partitions])
    if not units:
        return session.createDataFrame([], schema)
    base = located(joined(location, OWN, "rollups", VERSION, level))
    paths = [joined(location, unit.rollup) for unit in units]
    if not is_uri(location):
        check_files(location, paths)
    patterns = (pattern_of(path) for path in paths)
    return session.read.schema(schema).option("basePath", base).parquet(*patterns)
