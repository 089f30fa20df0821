"""Signals cancel the jobs of a call, and only these; what killed tasks have spilled is removed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kdissect import analyse
from kdissect.analysis.engines.stored_tables import directory_place
from kdissect.spark.interruption import cancellable
from kdissect.spark.single_task import evaluation_of, rows_by_task
from kdissect.sql.connections import PREFIX, remove_spills, spill_in
from tests.spark.conftest import Tables
from tests.spark.endless import ENDLESS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Signalled(Exception):
    """What the handler raises."""


def until(is_so: Callable[[], bool]) -> None:
    """Waits at most a minute."""
    last = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < last
        time.sleep(0.05)


def raise_signalled(_: int, __: FrameType | None) -> None:
    raise Signalled


def sleeping(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(300)
    yield from batches


def waiting_for(path: str) -> Any:
    """A task that waits until there is a file."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while not Path(path).exists():
            time.sleep(0.05)
        yield from batches

    return rows


@pytest.mark.slow
def test_a_signal_cancels_the_jobs_of_a_call_and_no_others(
    spark: "SparkSession", tmp_path: Path
) -> None:
    tracker = spark.sparkContext.statusTracker()
    found: list[list[Any]] = []

    def other() -> None:
        rows = spark.range(0, 1, 1, 1).mapInArrow(waiting_for(str(tmp_path / "go")), "id long")
        found.append(rows.collect())

    def send() -> None:
        until(lambda: len(tracker.getActiveJobsIds()) == 2)
        os.kill(os.getpid(), signal.SIGUSR1)

    threads = [threading.Thread(target=one) for one in (other, send)]
    before = signal.signal(signal.SIGUSR1, raise_signalled)
    try:
        for thread in threads:
            thread.start()
        with pytest.raises(Signalled):
            cancellable(
                spark, lambda: spark.range(0, 1, 1, 1).mapInArrow(sleeping, "id long").collect()
            )
    finally:
        signal.signal(signal.SIGUSR1, before)
        until(lambda: len(tracker.getActiveJobsIds()) <= 1)
        (tmp_path / "go").touch()
        for thread in threads:
            thread.join(60)
    assert [[row.id for row in rows] for rows in found] == [[0]]


# As in a notebook: no handler of ours, and the session is used again.
CELLS = """
import os, signal, sys, threading
from kdissect import analyse
from kdissect.spark.sessions import session
tables, where = sys.argv[1:]
spark = session("local[2]", memory="1g")
tracker = spark.sparkContext.statusTracker()
def interrupt():
    while not tracker.getActiveJobsIds():
        pass
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    analyse("errors", tables, where=where, session=spark)
except KeyboardInterrupt:
    print("interrupted", len(tracker.getActiveJobsIds()))
print(analyse("errors", tables, session=spark).to_arrow().num_rows)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_an_interrupted_cell_of_a_notebook_leaves_no_job_and_a_session_of_use(
    tables: Tables,
) -> None:
    directory = tables.of("incident-lagging-follower-4.3.1")
    words = [sys.executable, "-c", CELLS, str(directory), ENDLESS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    rows = analyse("errors", directory).to_arrow().num_rows
    assert done.stdout == f"interrupted 0\n{rows}\n", done.stderr[-2000:]


@pytest.mark.slow
def test_a_task_spills_into_a_directory_of_the_executor(
    spark: "SparkSession", tables: Tables
) -> None:
    place = directory_place(tables.of("retries-4.3.1"))
    sql = "SELECT current_setting('temp_directory') AS name"
    (name,) = rows_by_task(spark, evaluation_of([place], [], None, sql))["name"].to_pylist()
    assert Path(name).name.startswith(PREFIX)
    assert "blockmgr-" in Path(name).parent.name  # Spark's name, which it removes in the end


def test_what_killed_processes_have_spilled_is_removed(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True, check=True).stdout.strip()  # fmt: skip
    kept = [Path(spill_in(str(tmp_path))), tmp_path / f"{PREFIX}x-1", tmp_path / "blocks"]
    gone = tmp_path / f"{PREFIX}{ended}-1"
    for one in (*kept, gone):
        one.mkdir()
        (one / "block").write_bytes(b"rows")
    remove_spills(str(tmp_path))
    assert sorted(tmp_path.iterdir()) == sorted(kept)
