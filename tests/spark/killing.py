"""Runs in processes of their own that are killed at random moments, and done again.

Meanwhile captures appear in any order, are deleted and renamed.
"""

import hashlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from kdissect.dataset.entries import TapEntry
from kdissect.spark import steps
from kdissect.spark.pipeline import dissect
from tests.dataset.passes import rows_of_passes
from tests.spark.publishing import CHOICES
from tests.spark.rotated import ALL, contents_of, dataset_rows, rotate

ROOT = Path(__file__).parents[2]
PATIENCE = 900.0  # for machines that are out of breath
LOOK = 0.01

DRIVER = "driver"  # the Python process of the driver
JVM = "jvm"  # that of Spark beside it
ALL_AT_ONCE = "all"  # as when the machine stops
ALONE = "alone"  # a run without Spark, which is one process
WORKER = "worker"  # a Python process that does tasks; Spark does them again
EXECUTOR = "executor"  # a JVM of local-cluster with its Python processes; likewise
ENDING = (DRIVER, JVM, ALL_AT_ONCE)


class Ended(NamedTuple):
    """Result of a process: the kill that ended it ("" for none), and its working time."""

    code: int
    kill: str
    worked: float
    error: str


SPLIT_SIZE = 40 << 10  # so that a capture has several


class Place:
    """Two taps of rotated files, more of which appear from run to run, and their dataset.

    Of what was deleted or renamed, `kept` has the content, by its hash.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.directory = directory
        self.dataset = directory / "dataset"
        self.coming = [
            (Path(path), directory / "rings" / name / Path(path).name)
            for name, capture in (("one", "groups-4.3.1"), ("two", "sasl-4.3.1"))
            for path in rotate(
                f"{capture}.pcapng",
                directory / "made" / name,
                self.chance.randint(2, 4),
                self.chance.randint(0, 999),
            )
        ]
        self.chance.shuffle(self.coming)
        self.kept = {digest_of(source): source.read_bytes() for source, _ in self.coming}
        self.moved = 0
        for name in ("one", "two"):
            (directory / "rings" / name).mkdir(parents=True)

    def more(self, count: int) -> None:
        """So many more files are complete, in any order, so that some arrive too late."""
        for source, path in self.coming[:count]:
            then = time.time() - 1000
            os.utime(source, (then, then))
            source.rename(path)
        del self.coming[:count]

    @property
    def sources(self) -> str:
        """A glob of both rings."""
        return str(self.directory / "rings" / "*")

    def there(self) -> list[Path]:
        """The captures in both rings."""
        return sorted(self.directory.glob("rings/*/*"))

    def disturb(self) -> str:
        """Delete a capture, or give it another name and time; return what was done."""
        found = self.there()
        if not found:
            return ""
        path = self.chance.choice(found)
        is_last = len([*path.parent.iterdir()]) == 1  # each tap keeps one
        if self.chance.random() < 0.5 and not is_last:
            path.unlink()
            return "deleted"
        self.moved += 1
        then = time.time() - self.chance.randint(1000, 9000)
        os.utime(path, (then, then))
        path.rename(path.with_name(f"ring.pcap{self.chance.randint(1, 9)}{self.moved:03}"))
        return "renamed"

    def command(self, master: str) -> list[str]:
        return [
            sys.executable, "-m", "kdissect", "spark", "stream", self.sources,
            "-o", str(self.dataset), "--checkpoint", str(self.directory / "checkpoint"),
            "--available-now", "--max-bytes", "150K", "--split-size", str(SPLIT_SIZE),
            "--tables", ",".join(ALL), "--master", master, "--memory", "512m",
            "--json", "--no-progress",
        ]  # fmt: skip

    def check(self) -> int:
        """Compare the dataset with the library's rows, tap by tap; return the number of rows."""
        count = 0
        taps = {Path(tap.chain).parent.name: tap for tap in contents_of(self.dataset).taps}
        assert sorted(taps) == ["one", "two"]
        for name, tap in taps.items():
            ring = self.directory / "rings" / name
            known = [one.sha256 for one in tap.captures]
            assert len({*known}) == len(known), "a capture is in the dataset twice"
            assert {digest_of(path) for path in ring.iterdir()} <= {*known}, "a capture is missing"
            self.restore(tap)
            expected = rows_of_passes(tap)
            found = dataset_rows(self.dataset, tap.name)
            for table in {*expected, *found}:
                assert found.get(table, []) == expected.get(table, []), f"{name}: {table}"
                count += len(found.get(table, []))
        assert list(self.dataset.glob("_kdissect/run-*")) == []
        return count

    def restore(self, tap: TapEntry) -> None:
        """Put back the captures that a tap has, at the paths that they had."""
        for one in tap.captures:
            Path(one.path).write_bytes(self.kept[one.sha256])


def digest_of(path: Path) -> str:
    """Hash of a capture, by which a dataset knows it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_alone(place: Place, after: float = -1.0, disturbed: float = -1.0) -> Ended:
    """Do a run without Spark; kill it after so many seconds, and disturb it after others."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        raise RuntimeError("processes without threads are needed")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.spark.killing"])
    few = place.chance.choice(CHOICES)
    process = context.Process(target=brought_in, args=(place.sources, str(place.dataset), few))
    process.start()
    begun = time.monotonic()
    killed = ""
    for moment, action in sorted([(after, "kill"), (disturbed, "disturb")]):
        if moment >= 0:
            process.join(max(0.0, moment - (time.monotonic() - begun)))
            if action == "disturb":
                place.disturb()
            elif process.exitcode is None:
                process.kill()
                killed = ALONE
    process.join(PATIENCE)
    assert process.exitcode is not None, "the run does not end"
    return Ended(process.exitcode, killed, time.monotonic() - begun, "")


def brought_in(sources: str, dataset: str, few: int) -> None:
    """Bring captures into a dataset, without Spark; `few` is `FEW_ROW_BYTES`."""
    with mock.patch.object(steps, "FEW_ROW_BYTES", few):
        dissect(None, [sources], dataset, tables=ALL, split_size=SPLIT_SIZE)


def run(
    place: Place, master: str, kill: str = "", after: float = 0.0, disturbed: float = -1.0
) -> Ended:
    """Run the stream; kill one of its processes when it has worked for `after` seconds.

    Disturb it after `disturbed` seconds.
    """
    with started(place.command(master)) as process:
        begun = wait_until_it_works(process, place)
        killed = ""
        while process.poll() is None:
            assert time.monotonic() - begun < PATIENCE, "the stream does not end"
            if 0 <= disturbed <= time.monotonic() - begun:
                place.disturb()
                disturbed = -1.0
            if kill and not killed and time.monotonic() - begun >= after:
                killed = kill if strike(process.pid, kill) else ""
            time.sleep(LOOK)
        worked = time.monotonic() - begun
        assert process.stderr is not None
        return Ended(process.returncode, killed, worked, process.stderr.read())


@contextmanager
def started(command: list[str]) -> "Iterator[subprocess.Popen[str]]":
    """A process in a session of its own, all of whose processes are gone at the end."""
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    process = subprocess.Popen(
        command, cwd=ROOT, env=surroundings, text=True, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    family = {process.pid}
    try:
        yield process
    finally:
        try:
            family |= {process.pid, *group_of(process.pid)}
        finally:  # whatever else fails, no later test meets a process that is left over
            for pid in family:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def wait_until_it_works(process: "subprocess.Popen[str]", place: Place) -> float:
    """Until the first file of this run is in the dataset's own directory; gives that time."""
    before = {path.name for path in place.dataset.glob("_kdissect/run-*")}
    start = time.monotonic()
    while process.poll() is None and time.monotonic() - start < PATIENCE:
        if {path.name for path in place.dataset.glob("_kdissect/run-*")} - before:
            break
        time.sleep(LOOK)
    return time.monotonic()


def strike(driver: int, kill: str) -> bool:
    """Kill it; false if not started yet."""
    chosen = {
        DRIVER: lambda: [driver],
        JVM: lambda: jvms(driver)[:1],
        ALL_AT_ONCE: lambda: group_of(driver),
        WORKER: lambda: workers(driver)[:1],
        EXECUTOR: lambda: executors(driver)[:1],
    }[kill]()
    for pid in chosen:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(chosen)


class Process(NamedTuple):
    pid: int
    parent: int
    session: int
    words: str


def processes() -> list[Process]:
    """Processes that run here."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            status = os.fsdecode((directory / "stat").read_bytes()).rpartition(")")[2].split()
            # Arguments are arbitrary bytes: other tests start programs with such names.
            words = os.fsdecode((directory / "cmdline").read_bytes().replace(b"\0", b" "))
        except OSError:
            continue  # it has ended
        if status[0] != "Z":
            found.append(Process(int(directory.name), int(status[1]), int(status[3]), words))
    return found


def group_of(session: int) -> list[int]:
    """All processes started by a process with a session of its own."""
    return [one.pid for one in processes() if one.session == session]


def jvms(driver: int) -> list[int]:
    """The driver's JVM."""
    return [one.pid for one in processes() if one.parent == driver and "java" in one.words]


def executors(driver: int) -> list[int]:
    """JVMs that were started by the driver's: executors of local-cluster."""
    parents = set(jvms(driver))
    return [
        one.pid
        for one in processes()
        if one.parent in parents and "CoarseGrainedExecutorBackend" in one.words
    ]


def workers(driver: int) -> list[int]:
    """Python processes that do tasks."""
    return [
        one.pid
        for one in processes()
        if one.session == driver and one.pid != driver and "pyspark" in one.words
        and "java" not in one.words
    ]  # fmt: skip
