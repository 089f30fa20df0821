"""Directories of rotating captures → a dataset that grows while they do, by Structured Streaming.

A batch is some files that are complete (`stream_source`), which `pipeline.dissect_taps` brings
into the dataset in one step. A batch that is done again, after a crash at any moment, finds its
files in the manifest and does nothing: that is what makes it exactly once. The checkpoint holds
which files a batch has, no more.
"""

import glob
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kdissect.dataset.complete_files import QUIET_S
from kdissect.dataset.planning import SPARK_SPLIT_SIZE
from kdissect.dataset.storage import absolute, is_uri, reached_by
from kdissect.dataset.taps import taps_of
from kdissect.errors import KdissectError
from kdissect.spark.pipeline import Outcome, dissect_taps
from kdissect.spark.running import reason_of
from kdissect.spark.sessions import clear_errors, failures
from kdissect.spark.stream_source import BATCH, FILES, FORMAT, CaptureFiles, CompleteFiles
from kdissect.tables.schemas import DEFAULT_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

INTERVAL_S: Final = 10.0
# Of captures in a batch: some splits for each of several cores, and minutes at most.
MAX_BYTES: Final = 1 << 30
# How often it is looked whether the query has ended, or has to.
LOOK_S: Final = 0.2
# So long a batch that is done may take to be written down as done.
COMMIT_S: Final = 10.0

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
    """Bring captures into a dataset as they become complete, until `is_over` says so.

    `sources` are paths, globs and directories; `quiet_s`: see `complete_files`. With
    `available_now` what is complete now is brought in, in batches of `max_bytes`, and that is all;
    else it is looked every `interval_s` seconds. `is_over` is heard between batches. `on_batch` is
    told each batch's number and outcome. The others are as for `dissect`. Broken captures and taps
    that failed do not end the stream; what else goes wrong does. Through Spark Connect, and with
    None for `spark`, this process makes the batches itself, and there is no checkpoint: a server
    would want `foreachBatch` to be a function that knows nothing of this process. Raises
    KdissectError.
    """
    place = absolute(dataset)
    looked_at = [checked(os.fspath(source)) for source in sources]
    making = {"tables": tuple(tables), "split_size": split_size, **options}
    batches = Batches(partial(dissect_files, place, tap, making), on_batch)
    if spark is None or is_connect(spark):
        found = CompleteFiles(looked_at, place, tap, quiet_s, max_bytes)
        follow_here(spark, found, batches, available_now, interval_s, is_over)
        return
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
    """A time as Spark reads it."""
    return f"{round(seconds * 1000)} milliseconds"


def follow_here(
    spark: "SparkSession | None",
    found: CompleteFiles,
    batches: "Batches",
    available_now: bool,
    interval_s: float,
    is_over: Callable[[], bool],
) -> None:
    """What the query does, in this process: it needs no more than the manifest to go on."""
    start = found.initialOffset()
    if available_now:
        found.prepareForTriggerAvailableNow()
    while not is_over():
        end = found.latestOffset(start, found.getDefaultReadLimit())
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
    """Wait until the query ends, or stop it between two batches when `is_over`.

    Calls `silence` before the first batch is refused. Raises what ended the query.
    """
    try:
        while not query.awaitTermination(LOOK_S):  # type: ignore[arg-type]  # a float will do
            if is_over():
                silence()
                batches.close()
                settle(query)
                query.stop()
                return
    except failures() as error:
        if batches.error is not None:
            raise batches.error from error
        raise KdissectError(f"Spark: {reason_of(error)}") from error


@contextmanager
def silenced(spark: "SparkSession") -> Iterator[None]:
    """Keep Spark from logging the batch that `close` refuses as an error, with two stack traces."""
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    level = log4j.LogManager.getLogger(STREAMING).getLevel()
    log4j.core.config.Configurator.setLevel(STREAMING, log4j.Level.OFF)
    try:
        yield
    finally:
        log4j.core.config.Configurator.setLevel(STREAMING, level)


def settle(query: "StreamingQuery") -> None:
    """Give a batch that is done the time to be written down; else it is looked at once more."""
    for _ in range(int(COMMIT_S / LOOK_S)):
        if not query.isActive or not query.status["isTriggerActive"]:
            return
        time.sleep(LOOK_S)


def dissect_files(
    dataset: str,
    tap: str | None,
    making: Mapping[str, Any],
    spark: "SparkSession | None",
    paths: Sequence[str],
) -> Outcome:
    """Bring the files of a batch into the dataset."""
    return dissect_taps(spark, taps_of(dict.fromkeys(paths, True), tap), dataset, **making)


class Batches:
    """What Spark calls for each batch, one after the other; `close` waits for the one that runs."""

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
        """Do a batch; raises what it raises, which `error` keeps, as Spark would make it text."""
        with self._running:
            if self._is_closed:
                raise KdissectError("the stream is over")  # or Spark would take it for done
            try:
                paths = [row.path for row in frame.collect()]
                self.bring_in(frame.sparkSession, paths, number)
            except KdissectError as error:
                self.error = error
                raise

    def bring_in(self, spark: "SparkSession | None", paths: Sequence[str], number: int) -> None:
        """Do the batch of these files, in the tasks of a session."""
        self.on_batch(number, self.dissected(spark, paths))

    def close(self) -> None:
        """When the batch that runs is done, there are no more."""
        with self._running:
            self._is_closed = True


def checked(source: str) -> str:
    """A source that means the same everywhere; KdissectError where nothing is, and can be."""
    found = absolute(source)
    if not is_uri(found) and not glob.has_magic(found) and not Path(found).exists():
        raise KdissectError(f"{source}: no such directory")
    return found


def is_connect(spark: "SparkSession") -> bool:
    """Whether it is one of Spark Connect."""
    return "connect" in type(spark).__module__
