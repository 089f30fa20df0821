"""Runs of the pipeline, or questions, in a process of their own: what it prints is JSON.

    python benchmarks/spark_run.py MASTER DIRECTORY BATCH [BATCH ...]
    python benchmarks/spark_run.py MASTER DIRECTORY questions CAPTURE

Each batch is the name of a dataset in the directory, a colon, and captures with commas; they are
brought in one after the other. Apart from that are told how long the session took to start, and its
first Python worker. Questions are answered by DuckDB, by Spark as it decides, and by Spark SQL, on
the dataset of a capture, after another one: no engine's start counts. CPU time is that of all
processes.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from kdissect import analyse
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.spark.pipeline import dissect
from kdissect.spark.sessions import session, tasks_only
from kdissect.spark.single_task import LARGEST, SETTING

# Engine → the bytes of tables up to which Spark takes a single task.
ENGINES = {"duckdb": 0, "spark": LARGEST, "sql": 0}
FIRST = "health"
TICKS = os.sysconf("SC_CLK_TCK")
SEEN: dict[tuple[int, str], float] = {}  # CPU time by process and when it began


def cpu_seconds() -> float:
    """CPU time of this process and its descendants so far: driver, JVM, Python workers.

    Of those that have ended what they had used at the last look: it never decreases.
    """
    parents, used = {}, {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"{entry.path}/stat", encoding="utf-8") as file:  # noqa: PTH123
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            process = int(entry.name)
            parents[process] = int(fields[1])
            used[process, fields[19]] = sum(int(field) for field in fields[11:13]) / TICKS
    for (process, began), seconds in used.items():
        ancestor = process
        while ancestor in parents and ancestor != os.getpid():
            ancestor = parents[ancestor]
        if ancestor == os.getpid():
            SEEN[process, began] = seconds
    return sum(SEEN.values())


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


def shuffled(spark: Any) -> int:
    """Bytes that all shuffles of the session have written."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    return sum(
        context.statusStore().executorSummary(one.id()).totalShuffleWrite()
        for one in executors(context)
    )


def executors(context: Any) -> list[Any]:
    found = context.statusStore().executorList(False)
    return [found.apply(place) for place in range(found.size())]


def peak_of_jvm(spark: Any) -> int:
    """Largest resident set of the JVM, in bytes."""
    process = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak) * 1024


def answered(name: str, dataset: str, spark: Any, engine: str) -> dict[str, Any]:
    """Cost of an answer, and its rows."""
    spark.conf.set(SETTING, str(ENGINES[engine]))
    before = shuffled(spark)
    started, used = time.perf_counter(), cpu_seconds()
    by = "duckdb" if engine == "duckdb" else "spark"
    table = analyse(name, dataset, engine=by, session=spark).to_arrow()
    return {
        "seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(cpu_seconds() - used, 2),
        "rows": table.num_rows,
        "shuffled": shuffled(spark) - before,
    }


def questions(spark: Any, dataset: str, capture: str) -> dict[str, Any]:
    """Each question by each engine."""
    timed(spark, [capture], dataset)
    for engine in ENGINES:
        answered(FIRST, dataset, spark, engine)
    found = {}
    for name in QUESTIONS:
        found[name] = {engine: answered(name, dataset, spark, engine) for engine in ENGINES}
        print(name, found[name], file=sys.stderr, flush=True)
        if len({one["rows"] for one in found[name].values()}) > 1:
            sys.exit(f"{name}: {found[name]}")
    size = sum(path.stat().st_size for path in Path(dataset).rglob("*.parquet"))
    return {"bytes": size, "questions": found, "jvm": peak_of_jvm(spark)}


def main() -> None:
    master, directory, *batches = sys.argv[1:]
    started = time.perf_counter()
    if batches[0] == "questions":
        spark = session(master)
        print(json.dumps(questions(spark, f"{directory}/dataset", batches[1])))
        spark.stop()
        return
    spark = session(master, memory="1g", settings=tasks_only(master))
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
