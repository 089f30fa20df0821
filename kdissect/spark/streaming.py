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
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kdissect.errors import KdissectError
from kdissect.spark.pipeline import Outcome, dissect_taps
from kdissect.spark.planning import SPARK_PIECE_SIZE
from kdissect.spark.running import reason_of
from kdissect.spark.sessions import clear_errors, failures
from kdissect.spark.storage import absolute, is_uri, reached_by
from kdissect.spark.stream_files import QUIET_S
from kdissect.spark.stream_source import FORMAT, CaptureFiles
from kdissect.spark.taps import taps_of
from kdissect.tables.schemas import DEFAULT_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

INTERVAL_S: Final = 10.0
# Of captures in a batch: some pieces for each of several cores, and minutes at most.
MAX_BYTES: Final = 1 << 30
# How often it is looked whether the query has ended, or has to.
LOOK_S: Final = 0.2
# So long a batch that is done may take to be written down as done.
COMMIT_S: Final = 10.0

OnBatch = Callable[[int, Outcome], None]


def stream(
    spark: "SparkSession",
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
    piece_size: int = SPARK_PIECE_SIZE,
    is_over: Callable[[], bool] = lambda: False,
    on_batch: OnBatch = lambda number, outcome: None,  # noqa: ARG005
    **options: Any,
) -> None:
    """Bring captures into a dataset as they become complete, until `is_over` says so.

    `sources` are paths, globs and directories; `quiet_s`: see `complete_files`. With
    `available_now` what is complete now is brought in, in batches of `max_bytes`, and that is all;
    else it is looked every `interval_s` seconds. `is_over` is heard between batches. `on_batch` is
    told each batch's number and outcome; through Spark Connect batches are done by the server, and
    it is not called. The others are as for `dissect`. Broken captures and taps that failed do not
    end the stream; what else goes wrong does. Raises KdissectError.
    """
    place = absolute(dataset)
    looked_at = [checked(os.fspath(source)) for source in sources]
    bring_in: Any = partial(
        dissect_files, place, tap, {"tables": tuple(tables), "piece_size": piece_size, **options}
    )
    batches = Batches(bring_in, on_batch)
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
    every = (
        {"availableNow": True}
        if available_now
        else {"processingTime": f"{round(interval_s * 1000)} milliseconds"}
    )
    with clear_errors():
        query = (
            files.writeStream.foreachBatch(bring_in if is_connect(spark) else batches.run)
            .option("checkpointLocation", os.fspath(checkpoint))
            .trigger(**every)
            .start()
        )
    try:
        follow(query, batches, is_over)
    finally:
        query.stop()


def follow(query: "StreamingQuery", batches: "Batches", is_over: Callable[[], bool]) -> None:
    """Wait until the query ends, or is over and between two batches; raises what ended it."""
    try:
        while not query.awaitTermination(LOOK_S):  # type: ignore[arg-type]  # a float will do
            if is_over():
                batches.close()
                settle(query)
                return
    except failures() as error:
        if batches.error is not None:
            raise batches.error from error
        raise KdissectError(f"Spark: {reason_of(error)}") from error


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
    frame: "DataFrame",
    number: int,  # noqa: ARG001
) -> Outcome:
    """Bring the files of a batch into the dataset, in the tasks of the batch's session."""
    paths = [row.path for row in frame.collect()]
    return dissect_taps(
        frame.sparkSession, taps_of(dict.fromkeys(paths, True), tap), dataset, **making
    )


class Batches:
    """What Spark calls for each batch, one after the other; `close` waits for the one that runs."""

    def __init__(self, bring_in: Callable[["DataFrame", int], Outcome], on_batch: OnBatch) -> None:
        self.bring_in = bring_in
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
                self.on_batch(number, self.bring_in(frame, number))
            except KdissectError as error:
                self.error = error
                raise

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
    """Whether batches are done by a server of Spark Connect, not in this process."""
    return "connect" in type(spark).__module__
