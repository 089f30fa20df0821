"""An analysis of little data as one task, in which DuckDB evaluates it.

Spark needs seconds to plan, compile and shuffle what DuckDB computes in one, and answers with the
same rows. The task may run on any executor; its memory and its threads are bounded.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from kdissect.analysis.engines.duckdb_tables import DuckTables
from kdissect.analysis.engines.stored_tables import Place, stored_size
from kdissect.dataset.storage import reached_by, remember
from kdissect.errors import KdissectError
from kdissect.spark.arrow_rows import to_arrow
from kdissect.spark.sessions import failures
from kdissect.spark.task_runners import reason_of
from kdissect.sql.memory_limits import memory_limit
from kdissect.tables.arrow_streams import stream_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Bytes of Parquet. Of 109 MB the slowest analysis takes 13 s: docs/spark-performance.md.
LARGEST: Final = 256 << 20
SETTING: Final = "spark.kdissect.singleTaskBytes"  # of a session, in place of `LARGEST`
WHOLE: Final = re.compile("[0-9]{1,18}", re.ASCII)
LEAST: Final = 256 << 10  # bytes that a smaller file counts as: it has to be opened, too
BATCH_ROWS: Final = 65_536  # of the answer
ROWS: Final = "error string, rows binary"


def largest_in(session: "SparkSession") -> int:
    """Bytes of tables up to which this session takes one task; 0 for never.

    Raises KdissectError where its `SETTING` is not a whole number.
    """
    value = session.conf.get(SETTING, None)
    if value is None:
        return LARGEST
    if not WHOLE.fullmatch(value):
        raise KdissectError(f"{SETTING} is a number of bytes, not {value!r}")
    return int(value)


def fits(places: Sequence[Place], names: Iterable[str], largest: int = LARGEST) -> bool:
    """Return whether the tables are small enough for one task."""
    return largest > 0 and stored_size(places, names, LEAST) <= largest


class Evaluation(NamedTuple):
    """What a task evaluates: a statement of DuckDB over tables, as `DuckTables` has them.

    `stores` are locations with options, for tables that are not on this machine.
    """

    places: Sequence[Place]
    names: Sequence[str]
    where: str | None
    sql: str
    memory: str
    stores: tuple[str, ...]


def evaluation_of(
    places: Sequence[Place], names: Sequence[str], where: str | None, sql: str
) -> Evaluation:
    """The evaluation, with the memory limit and the stores that this process knows."""
    stores = reached_by(place.location for place in places if place.scan is not None)
    return Evaluation(places, names, where, sql, memory_limit(), stores)


def rows_by_task(session: "SparkSession", evaluation: Evaluation) -> pa.Table:
    """Rows of an evaluation in one task.

    Raises KdissectError as DuckDB's engine does, and where the task itself failed.
    """

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(batch.num_rows):
                yield from answered(evaluation)

    try:
        found = to_arrow(session.range(0, 1, 1, 1).mapInArrow(rows, ROWS))
    except failures() as error:
        # Such as an executor without kdissect.
        instead = f"{SETTING}=0 uses Spark SQL in place of a task"
        raise KdissectError(f"Spark: {reason_of(error)} ({instead})") from error
    for reason in found["error"].drop_null().to_pylist():
        raise KdissectError(reason)
    return pa.concat_tables(pa.ipc.open_stream(one.as_buffer()).read_all() for one in found["rows"])


def answered(evaluation: Evaluation) -> Iterator[pa.RecordBatch]:
    """Rows of `ROWS`: Arrow streams of the answer, the first one without rows.

    An error of the evaluation is a row, since a task that fails would be run again.
    """
    for one in evaluation.stores:
        remember(one)
    settings = {"threads": str(cores()), "memory_limit": evaluation.memory}
    places, names, where = evaluation.places, evaluation.names, evaluation.where
    try:
        with (
            DuckTables(places, names, where, settings) as tables,
            tables.reader(evaluation.sql, BATCH_ROWS) as reader,
        ):
            yield row(rows=stream_bytes(reader.schema, [], "lz4"))
            for batch in reader:
                yield row(rows=stream_bytes(reader.schema, [batch], "lz4"))
    except KdissectError as error:
        yield row(error=str(error))


def row(*, error: str | None = None, rows: bytes | None = None) -> pa.RecordBatch:
    """A row of `ROWS`."""
    columns = [pa.array([error], pa.string()), pa.array([rows], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["error", "rows"])


def cores() -> int:
    """Cores that Spark gives to a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 1 if context is None else context.cpus()
