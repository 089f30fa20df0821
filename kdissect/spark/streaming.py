"""Directories of rotating captures → a growing dataset, by Structured Streaming.

A batch is a set of complete files (`stream_source`), which `pipeline.dissect_taps` brings into the
dataset in one commit. A batch repeated after a crash finds its files in the dataset and does
nothing, so processing is exactly-once. The Spark checkpoint holds only the files of each batch.
"""

import glob
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kdissect.dataset.complete_files import QUIET_S
from kdissect.dataset.new_files import BATCH, FILES, NewFiles, first_offset
from kdissect.dataset.planning import SPARK_SPLIT_SIZE
from kdissect.dataset.storage import absolute, is_uri, reached_by
from kdissect.dataset.taps import roots_of, taps_of
from kdissect.errors import KdissectError
from kdissect.spark.pipeline import Outcome, dissect_taps
from kdissect.spark.sessions import clear_errors, failures
from kdissect.spark.task_runners import reason_of
from kdissect.tables.schemas import DEFAULT_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

INTERVAL_S: Final = 10.0
# Of captures in a batch: a few splits for each of several cores, and minutes at most.
MAX_BYTES: Final = 1 << 30
# Interval of checks whether the query has ended, or has to.
LOOK_S: Final = 0.2
# Maximum time to wait for the commit of a finished batch.
COMMIT_S: Final = 10.0
STARTING: Final = "Initializing sources"  # Spark's message until its workers have started

STREAMING: Final = "org.apache.spark.sql.execution.streaming"  # the logger of queries

OnBatch = Callable[[int, Outcome], None]


def stream(
    spark: "SparkSession | None",
    sources: Iterable[str | os.PathLike[str]],
    dataset: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    *,
    available_now: bool = False,
    interval_s: float = INTERVAL_S,
    quiet_s: float = QUIET_S,
    max_bytes: int = MAX_BYTES,
    tap: str | None = None,
    tables: Sequence[str] = DEFAULT_TABLES,
    split_size: int = SPARK_SPLIT_SIZE,
    is_over: Callable[[], bool] = lambda: False,
    on_batch: OnBatch = lambda number, outcome: None,  # noqa: ARG005
    **options: Any,
) -> None:
    """Bring captures into a dataset as they become complete, until `is_over` returns true.

    `sources` are paths, globs and directories; `quiet_s`: see `complete_files`. With
    `available_now` the files that are complete now are brought in, in batches of `max_bytes`, then
    it ends; otherwise it looks for files every `interval_s` seconds. `is_over` is checked between
    batches. `on_batch` is called with each batch's number and outcome. The others are as for
    `dissect`. Broken captures and failed taps do not end the stream; other errors do. Through Spark
    Connect, with `spark` None, and with PySpark before 4.2, this process runs the batches itself,
    without a checkpoint: a server would require a `foreachBatch` function that is independent of
    this process, and older versions have no sources in Python with batches of their own. Raises
    KdissectError.
    """
    place = absolute(dataset)
    looked_at = [checked(os.fspath(source)) for source in sources]
    making = {"tables": tuple(tables), "split_size": split_size, **options}
    batches = Batches(partial(dissect_files, place, tap, roots_of(looked_at), making), on_batch)
    if spark is None or is_connect(spark) or not has_stream_sources():
        found = NewFiles(looked_at, place, tap, quiet_s, max_bytes)
        follow_here(spark, found, batches, available_now, interval_s, is_over)
        return
    from kdissect.spark.stream_source import FORMAT, CaptureFiles

    spark.dataSource.register(CaptureFiles)
    given = {
        "sources": json.dumps(looked_at),
        "stores_secret": json.dumps(reached_by([place, *looked_at])),
        "dataset": place,
        "quiet_s": str(quiet_s),
        "max_bytes": str(max_bytes),
        **({} if tap is None else {"tap": tap}),
    }
    files = spark.readStream.format(FORMAT).options(**given).load()
    every = {"availableNow": True} if available_now else {"processingTime": in_ms(interval_s)}
    with clear_errors():
        query = (
            files.writeStream.foreachBatch(batches.run)
            .option("checkpointLocation", os.fspath(checkpoint))
            .trigger(**every)
            .start()
        )
    with ExitStack() as ending:
        ending.callback(query.stop)
        follow(query, batches, is_over, lambda: ending.enter_context(silenced(spark)))


def in_ms(seconds: float) -> str:
    """A time in Spark's syntax."""
    return f"{round(seconds * 1000)} milliseconds"


def follow_here(
    spark: "SparkSession | None",
    found: NewFiles,
    batches: "Batches",
    available_now: bool,
    interval_s: float,
    is_over: Callable[[], bool],
) -> None:
    """Run the query's batches in this process; the dataset is its only state."""
    start = first_offset()
    if available_now:
        found.freeze()
    while not is_over():
        end = found.next_batch(start)
        if end != start:
            batches.bring_in(spark, end[FILES], start[BATCH])
            start = end
            continue
        if available_now:
            return
        again = time.monotonic() + interval_s
        while time.monotonic() < again and not is_over():
            time.sleep(min(LOOK_S, interval_s))


def follow(
    query: "StreamingQuery",
    batches: "Batches",
    is_over: Callable[[], bool],
    silence: Callable[[], object],
) -> None:
    """Wait until the query ends, or stop it between two batches when `is_over` is true.

    Calls `silence` before the first batch is rejected. Raises the error that ended the query.
    """
    try:
        while not query.awaitTermination(LOOK_S):  # type: ignore[arg-type]  # a float will do
            if is_over():
                silence()
                batches.close()
                settle(query)
                query.stop()
                return
    except KeyboardInterrupt:
        silence()
        raise
    except failures() as error:
        if batches.error is not None:
            raise batches.error from error
        raise KdissectError(f"Spark: {reason_of(error)}") from error


@contextmanager
def silenced(spark: "SparkSession") -> Iterator[None]:
    """Keep Spark from logging the batch that `close` rejects as an error, with two stack traces."""
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    level = log4j.LogManager.getLogger(STREAMING).getLevel()
    log4j.core.config.Configurator.setLevel(STREAMING, log4j.Level.OFF)
    try:
        yield
    finally:
        log4j.core.config.Configurator.setLevel(STREAMING, level)


def settle(query: "StreamingQuery") -> None:
    """Wait for a query that still starts, and for the commit of a finished batch.

    A worker that starts while its query is stopped prints a stack trace; without the commit the
    batch would be checked once more.
    """
    for _ in range(int(COMMIT_S / LOOK_S)):
        status = query.status
        is_busy = status["isTriggerActive"] or status["message"] == STARTING
        if not query.isActive or not is_busy:
            return
        time.sleep(LOOK_S)


def dissect_files(
    dataset: str,
    tap: str | None,
    roots: Sequence[str],
    making: Mapping[str, Any],
    spark: "SparkSession | None",
    paths: Sequence[str],
) -> Outcome:
    """Bring the files of a batch into the dataset."""
    found = taps_of(dict.fromkeys(paths, True), tap, roots)
    return dissect_taps(spark, found, dataset, **making)


class Batches:
    """Callback of Spark for each batch, sequentially; `close` waits for the running one."""

    def __init__(
        self,
        dissected: Callable[["SparkSession | None", Sequence[str]], Outcome],
        on_batch: OnBatch,
    ) -> None:
        self.dissected = dissected
        self.on_batch = on_batch
        self.error: KdissectError | None = None
        self._running = threading.Lock()
        self._is_closed = False

    def run(self, frame: "DataFrame", number: int) -> None:
        """Run a batch; keeps its exception in `error`, as Spark would convert it to text."""
        with self._running:
            if self._is_closed:
                raise KdissectError("the stream is over")  # otherwise Spark would commit it
            try:
                paths = [row.path for row in frame.collect()]
                self.bring_in(frame.sparkSession, paths, number)
            except KdissectError as error:
                self.error = error
                raise

    def bring_in(self, spark: "SparkSession | None", paths: Sequence[str], number: int) -> None:
        """Run the batch of these files, in the tasks of a session."""
        self.on_batch(number, self.dissected(spark, paths))

    def close(self) -> None:
        """Wait for the running batch and accept no more."""
        with self._running:
            self._is_closed = True


def checked(source: str) -> str:
    """A source as an absolute location; KdissectError if nothing exists there, or can."""
    found = absolute(source)
    if not is_uri(found) and not glob.has_magic(found) and not Path(found).exists():
        raise KdissectError(f"{source}: no such directory")
    return found


def is_connect(spark: "SparkSession") -> bool:
    """Return whether it is a Spark Connect session."""
    return "connect" in type(spark).__module__


def has_stream_sources() -> bool:
    """Return whether PySpark (from 4.2 on) has sources in Python with batches of their own."""
    return find_spec("pyspark.sql.streaming.datasource") is not None
