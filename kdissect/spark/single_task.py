"""An analysis of little data as one task, in which DuckDB evaluates it.

Spark needs seconds to plan, compile and shuffle what DuckDB computes in one, and answers with the
same rows. The task may run on any executor; its memory and its threads are bounded.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from kdissect.analysis.engines.duckdb_tables import DuckTables
from kdissect.analysis.engines.stored_tables import Place
from kdissect.dataset.storage import reached_by, remember
from kdissect.errors import KdissectError
from kdissect.spark.arrow_rows import to_arrow
from kdissect.sql.connections import memory_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Bytes of Parquet for which a task takes half a minute at most: docs/spark-performance.md.
LARGEST: Final = 256 << 20
LEAST: Final = 256 << 10  # bytes that a smaller file counts as: it has to be opened, too
BATCH_ROWS: Final = 65_536  # of the answer
ROWS: Final = "error string, rows binary"


def fits(places: Sequence[Place], names: Iterable[str]) -> bool:
    """Return whether the tables are small enough for one task."""
    files = [file for name in names for place in places for file in place.files.get(name, ())]
    return sum(max(file.size, LEAST) for file in files) <= LARGEST


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
    """Rows of an evaluation in one task; raises KdissectError as DuckDB's engine does."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(batch.num_rows):
                yield from answered(evaluation)

    found = to_arrow(session.range(0, 1, 1, 1).mapInArrow(rows, ROWS))
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
            yield row(rows=stream_of(reader.schema))
            for batch in reader:
                yield row(rows=stream_of(reader.schema, batch))
    except KdissectError as error:
        yield row(error=str(error))


def row(*, error: str | None = None, rows: bytes | None = None) -> pa.RecordBatch:
    """A row of `ROWS`."""
    columns = [pa.array([error], pa.string()), pa.array([rows], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["error", "rows"])


def stream_of(schema: pa.Schema, *batches: pa.RecordBatch) -> bytes:
    """Batches as an Arrow stream, compressed."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def cores() -> int:
    """Cores that Spark gives to a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 1 if context is None else context.cpus()
