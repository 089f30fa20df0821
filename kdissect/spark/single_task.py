"""An analysis of little data as one task, in which DuckDB evaluates it.

Spark needs seconds to plan, compile and shuffle what DuckDB computes in one, and answers with the
same rows. The task may run on any executor; its memory and its threads are bounded. In a local
session, where more executors cannot help, it has all of the session's cores, and more data.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from kdissect.analysis.engines.duckdb_tables import Buckets, DuckTables
from kdissect.analysis.engines.stored_tables import Place, stored_size
from kdissect.dataset.storage import reached_by, remember
from kdissect.errors import KdissectError
from kdissect.spark.arrow_rows import one_binary, to_arrow
from kdissect.spark.sessions import failures
from kdissect.spark.task_runners import reason_of
from kdissect.sql.connections import remove_spills, spill_in
from kdissect.sql.failures import exceeds_limit
from kdissect.sql.memory_limits import memory_limit
from kdissect.system.cores import usable_cores
from kdissect.tables.arrow_streams import stream_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Bytes of Parquet. Of 109 MB the slowest analysis takes 13 s: docs/spark-performance.md.
LARGEST: Final = 256 << 20
# In a local session, where DuckDB is ahead of Spark SQL for all analyses but one that were
# measured: as much as `--engine auto` gives to DuckDB (kdissect/api/engine_choice.py).
LARGEST_LOCAL: Final = 4_000_000_000
LOCAL: Final = re.compile(r"local(\[([0-9]+|\*)(,[0-9]+)?\])?", re.ASCII)
LOCAL_DIRECTORIES: Final = "SPARK_LOCAL_DIRS"  # of an executor, in the environment of its workers
SETTING: Final = "spark.kdissect.singleTaskBytes"  # of a session, in place of these
WHOLE: Final = re.compile("[0-9]{1,18}", re.ASCII)
LEAST: Final = 256 << 10  # bytes that a smaller file counts as: it has to be opened, too
BATCH_ROWS: Final = 65_536  # of the answer
ERROR: Final = "error"
TOO_LARGE: Final = "too_large"
TEXT: Final = ("utf-8", "surrogateescape")  # errors quote names of files
ROWS: Final = f"{ERROR} binary, {TOO_LARGE} binary, rows binary"


def largest_in(session: "SparkSession") -> int:
    """Bytes of tables up to which this session takes one task; 0 for never.

    Raises KdissectError where its `SETTING` is not a whole number.
    """
    value = session.conf.get(SETTING, None)
    if value is None:
        return LARGEST_LOCAL if is_local(session) else LARGEST
    if not WHOLE.fullmatch(value):
        raise KdissectError(f"{SETTING} is a number of bytes, not {value!r}")
    return int(value)


def master_of(session: "SparkSession") -> str:
    """Master of a session, "" if it does not say."""
    return session.conf.get("spark.master", "") or ""


def is_local(session: "SparkSession") -> bool:
    """Return whether one process on this machine is all of a session's executors."""
    return LOCAL.fullmatch(master_of(session)) is not None


def fits(places: Sequence[Place], names: Iterable[str], largest: int = LARGEST) -> bool:
    """Return whether the tables are small enough for one task."""
    return largest > 0 and stored_size(places, names, LEAST) <= largest


class TaskMemoryError(KdissectError):
    """An evaluation needs more memory than its task may take."""


class Evaluation(NamedTuple):
    """What a task evaluates: a statement of DuckDB over tables, as `DuckTables` has them.

    `buckets` are its statements by buckets, where memory is short. `stores` are locations with
    options, for tables that are not on this machine.
    """

    places: Sequence[Place]
    names: Sequence[str]
    where: str | None
    sql: str
    buckets: Buckets | None
    memory: str
    stores: tuple[str, ...]


def evaluation_of(
    places: Sequence[Place],
    names: Sequence[str],
    where: str | None,
    sql: str,
    buckets: Buckets | None = None,
) -> Evaluation:
    """The evaluation, with the memory limit and the stores that this process knows."""
    stores = reached_by(place.location for place in places if place.scan is not None)
    return Evaluation(places, names, where, sql, buckets, memory_limit(), stores)


def rows_by_task(session: "SparkSession", evaluation: Evaluation) -> pa.Table:
    """Rows of an evaluation in one task.

    Raises KdissectError as DuckDB's engine does, and where the task itself failed; TaskMemoryError
    where the answer does not fit into its memory.
    """
    master = master_of(session)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(batch.num_rows):
                yield from answered(evaluation, cores(master))

    try:
        found = to_arrow(session.range(0, 1, 1, 1).mapInArrow(rows, ROWS))
    except failures() as error:
        # Such as an executor without kdissect.
        instead = f"{SETTING}=0 uses Spark SQL in place of a task"
        raise KdissectError(f"Spark: {reason_of(error)} ({instead})") from error
    for kind, name in ((KdissectError, ERROR), (TaskMemoryError, TOO_LARGE)):
        for reason in found[name].drop_null().to_pylist():
            raise kind(reason.decode(*TEXT))
    return pa.concat_tables(pa.ipc.open_stream(one.as_buffer()).read_all() for one in found["rows"])


def answered(evaluation: Evaluation, threads: int) -> Iterator[pa.RecordBatch]:
    """Rows of `ROWS`: Arrow streams of the answer, the first one without rows.

    An error of the evaluation is a row, since a task that fails would be run again.
    """
    for one in evaluation.stores:
        remember(one)
    settings = {"threads": str(threads), "memory_limit": evaluation.memory, **spilling()}
    places, names, where = evaluation.places, evaluation.names, evaluation.where
    try:
        with (
            DuckTables(places, names, where, settings) as tables,
            tables.reader(evaluation.sql, BATCH_ROWS, evaluation.buckets) as reader,
        ):
            yield row(rows=stream_bytes(reader.schema, [], "lz4"))
            for batch in reader:
                yield row(rows=stream_bytes(reader.schema, [batch], "lz4"))
    except KdissectError as error:
        cause = error.__cause__
        lacks_memory = isinstance(cause, Exception) and exceeds_limit(cause)
        yield row(**{TOO_LARGE if lacks_memory else ERROR: str(error).encode(*TEXT)})


def spilling() -> dict[str, str]:
    """Where DuckDB spills: in a directory of the executor, which Spark removes with it.

    A task that is cancelled is killed, and removes nothing; the next one removes what it has left.
    """
    directory = os.environ.get(LOCAL_DIRECTORIES, "").partition(",")[0]
    if not directory:
        return {}
    remove_spills(directory)
    return {"temp_directory": spill_in(directory)}


def row(
    error: bytes | None = None, too_large: bytes | None = None, rows: bytes | None = None
) -> pa.RecordBatch:
    """A row of `ROWS`."""
    columns = [one_binary(value) for value in (error, too_large, rows)]
    return pa.RecordBatch.from_arrays(columns, [ERROR, TOO_LARGE, "rows"])


def cores(master: str) -> int:
    """Cores for a task: all of a local session's, otherwise those that Spark gives to it."""
    if local := LOCAL.fullmatch(master):
        count = local[2] or "1"
        return usable_cores() if count == "*" else min(int(count), usable_cores())
    from pyspark import TaskContext

    context = TaskContext.get()
    return 1 if context is None else context.cpus()
