"""The driver's work over taps and captures: processor time, memory and what it gives to tasks.

    python -m benchmarks.driver_growth            # prints the rows of the table as Markdown

Captures have one packet each, so that nothing but the driver's part is measured: finding and
ordering them, planning tasks of the data source, planning a run of the pipeline, where inspecting
captures is the tasks' part, and a later run that finds a hundredth more captures.
"""

import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kdissect.capture.splits import Split
from kdissect.dataset.entries import CaptureEntry, Contents, TapEntry
from kdissect.dataset.planning import Inspected, Planned, plan_taps
from kdissect.dataset.storage import seen
from kdissect.dataset.taps import find_taps, first_time_of
from kdissect.dataset.tasks import Task
from kdissect.pipeline import Options
from tests.capture.writers import Captured, make_pcap

CASES = ((10, 1_000), (10, 10_000), (1_000, 10_000), (10, 100_000), (1_000, 100_000))
HOUR_NS = 3600 * 1_000_000_000


def make_captures(directory: Path, taps: int, first: int, end: int) -> None:
    """Captures number `first` to `end` of all taps together, an hour apart in each tap."""
    for number in range(first, end):
        tap, turn = number % taps, number // taps
        place = directory / f"broker-{tap}"
        place.mkdir(exist_ok=True)
        packet = Captured(bytes(60), (500_000 + turn) * HOUR_NS, 60)
        (place / f"ring_{turn:05}_20261122000000.pcap").write_bytes(make_pcap([packet]))


def inspected(paths: Sequence[str]) -> list[Any]:
    """Stands for the tasks that inspect captures."""
    found = []
    for path in paths:
        size, modified_ns = seen(path)
        first_ns = first_time_of(path, size, modified_ns)
        split = Split(path, 0, 24, size, True, 1, 1, 0)._replace(
            earliest_ns=first_ns, latest_ns=first_ns
        )
        entry = CaptureEntry(path, path, size, modified_ns, first_ns, 1, 1)
        found.append(Inspected(entry, (split,)))
    return found


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """A result and its processor time."""
    begun = time.process_time()
    return function(), time.process_time() - begun


def measure(directory: Path, taps: int, files: int) -> str:
    """One row of the table."""
    from kdissect.spark.source import KdissectDataSource

    given = KdissectDataSource({"path": f"{directory}/*"})
    given.schema()  # its imports are not the driver's work
    partitions, planning = timed(lambda: given.reader(given.schema()).partitions())
    handed = max(len(pickle.dumps(one)) for one in partitions)
    first_time_of.cache_clear()
    planned, run = timed(lambda: planned_run(directory, Contents()))
    contents = Contents(taps=[after(one.tap) for one in planned.works])
    make_captures(directory, taps, files, files + files // 100)
    later, again = timed(lambda: planned_run(directory, contents))
    task = Task("d", "r", 2, Options(), dict(enumerate(later.works)))
    largest = max(len(pickle.dumps(task.of_tap(number))) for number in task.works)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return (
        f"| {taps:,} | {files:,} | {planning:.2f} s | {planning / files * 1e6:.0f} µs "
        f"| {handed / 1000:.1f} kB | {run:.2f} s | {run / files * 1e6:.0f} µs | {again:.2f} s "
        f"| {largest / 1000:.1f} kB | {memory} MB |"
    ).replace(",", " ")


def planned_run(directory: Path, contents: Contents) -> Planned:
    """What a run of the pipeline plans."""
    return plan_taps(find_taps([f"{directory}/*"]).taps, contents, inspected)


def after(tap: TapEntry) -> TapEntry:
    """The tap when its captures are in the dataset."""
    last = tap.captures[-1].first_time_ns
    tap.state, tap.latest_ns, tap.oldest = "_kdissect/states/0/1.state", last, len(tap.captures) - 1
    return tap


def main() -> None:
    if len(sys.argv) > 1:
        taps, files = map(int, sys.argv[1:])
        with tempfile.TemporaryDirectory(prefix="kdissect-growth-") as made:
            make_captures(Path(made), taps, 0, files)
            print(measure(Path(made), taps, files))
        return
    for case in CASES:
        subprocess.run(
            [sys.executable, "-m", "benchmarks.driver_growth", *map(str, case)], check=True
        )


if __name__ == "__main__":
    main()
