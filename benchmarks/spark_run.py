"""One run of the pipeline in a process of its own: what it prints is JSON.

    python -m benchmarks.spark_run MASTER DIRECTORY BATCH [BATCH ...]

Each batch is the name of a dataset in the directory, a colon, and captures with commas; they are
brought in one after the other. Apart from that are told how long the session took to start, and its
first Python worker.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kdissect.spark.pipeline import dissect
from kdissect.spark.sessions import session

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """CPU time of this process and its descendants: driver, JVM, Python workers."""
    parents, used = {}, {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"{entry.path}/stat", encoding="utf-8") as file:  # noqa: PTH123
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(int(field) for field in fields[11:15]) / TICKS
    total = 0.0
    for process in used:
        ancestor = process
        while ancestor in parents and ancestor != os.getpid():
            ancestor = parents[ancestor]
        total += used[process] if ancestor == os.getpid() else 0.0
    return total


def imported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Initialize a worker."""
    import kdissect.dataset.tasks  # noqa: F401

    yield from batches


def timed(spark: Any, captures: list[str], dataset: str) -> dict[str, Any]:
    """Cost and output of one batch."""
    started, used = time.perf_counter(), cpu_seconds()
    outcome = dissect(spark, captures, dataset)
    if outcome.failed or outcome.broken:
        sys.exit(f"{outcome.failed} {outcome.broken}")
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": cpu_seconds() - used,
        "bytes": outcome.capture_bytes,
        "splits": outcome.splits,
        "boundary_bytes": outcome.boundary_bytes,
        "row_bytes": outcome.row_bytes,
    }


def main() -> None:
    master, directory, *batches = sys.argv[1:]
    started = time.perf_counter()
    spark = session(master, memory="1g")
    session_seconds = time.perf_counter() - started
    workers = int(master.removeprefix("local[").removesuffix("]"))
    spark.range(0, workers, 1, workers).mapInArrow(imported, "id long").collect()
    begun_seconds = time.perf_counter() - started
    found = []
    for batch in batches:
        dataset, _, captures = batch.partition(":")
        found.append(timed(spark, captures.split(","), f"{directory}/{dataset}"))
    spark.stop()
    told = {"session": session_seconds, "begun": begun_seconds, "batches": found}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
