"""Times whole processes on one core, and checks which others run there."""

import compileall
import datetime
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import parquet

from benchmarks.processes import TICKS, adopt_orphans, machine_cpu_seconds, own_cpu_seconds
from benchmarks.workloads import ROOT

# -P: the package that is meant, not the sources in this directory.
KDISSECT = (sys.executable, "-P", "-m", "kdissect")
BEGINNING_SIZE = 1 << 16
PCAP_HEADER_SIZE, RECORD_HEADER_SIZE = 24, 16


class Program(NamedTuple):
    """A command to time; ``{}`` in it is the capture, ``{out}`` a new directory."""

    name: str
    command: tuple[str, ...]
    path: str = ""  # PYTHONPATH


class Run(NamedTuple):
    """One whole process; `rows` of the Parquet files in ``{out}``."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    rows: dict[str, int]


def run(program: Program, capture: Path) -> Run:
    """One run; a process that fails ends the measurement."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            part.replace("{out}", f"{scratch}/out").replace("{}", str(capture.resolve()))
            for part in program.command
        ]
        with Path(scratch, "errors").open("wb") as errors:
            started = time.perf_counter()
            process = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=environment(program.path),
                cwd=scratch,
            )
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said = Path(scratch, "errors").read_text(errors="replace")[-2000:]
            sys.exit(f"{' '.join(command)}\nended with {process.returncode}: {said}")
        rows = {
            file.stem: parquet.read_metadata(file).num_rows
            for file in Path(scratch, "out").glob("*.parquet")
        }
    # Linux counts KiB.
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, rows)


def environment(path: str) -> dict[str, str]:
    """Environment of a process that imports the package from `path`, or the installed one.

    Without other settings of Python in the caller's environment, such as keeping no compiled
    sources.
    """
    found = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return found | ({"PYTHONPATH": path} if path else {})


def in_turn(
    programs: list[Program],
    capture: Path,
    rounds: int,
    timed: Callable[[Program, Path], Run] = run,
    once: Collection[str] = (),
) -> dict[str, list[Run]]:
    """Every run of every program, one after the other in each round.

    The capture is read before each: systems that reclaim unused pages after a while would make a
    program after a slow one read it from the disk. Those named `once` run in the first round only.
    """
    found: dict[str, list[Run]] = {program.name: [] for program in programs}
    for number in range(rounds):
        for program in programs:
            if not number or program.name not in once:
                warm(capture)
                found[program.name].append(timed(program, capture))
    return found


def beginning(capture: Path, target: Path) -> Path:
    """The first packets of a capture of `benchmarks.generate` as a capture of their own."""
    with capture.open("rb") as file:
        found = file.read(BEGINNING_SIZE)
    end = after = PCAP_HEADER_SIZE
    while after <= len(found):
        end = after
        after = end + RECORD_HEADER_SIZE + int.from_bytes(found[end + 8 : end + 12], "little")
    target.write_bytes(found[:end])
    return target


def warm(capture: Path) -> None:
    """Read the file, or those of a directory, so that they lie in the page cache."""
    for path in capture.rglob("*") if capture.is_dir() else [capture]:
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 22):
                    pass


def figures(runs: list[Run]) -> dict[str, Any]:
    """Medians, the extremes and the highest peak, as they are kept."""
    seconds = [one.seconds for one in runs]
    return {
        "seconds": round(statistics.median(seconds), 3),
        "fastest": round(min(seconds), 3),
        "slowest": round(max(seconds), 3),
        "cpu_seconds": round(statistics.median(one.cpu_seconds for one in runs), 3),
        "peak_bytes": max(one.peak_bytes for one in runs),
        "rows": runs[0].rows,
        "runs": len(runs),
    }


@contextmanager
def on_one_core() -> Iterator[None]:
    """Bind this process and all it starts to the last core it may use, meanwhile."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def compiled_version(path: str) -> str:
    """Version of the compiled kdissect; ends the measurement when it is not compiled."""
    said = subprocess.run(
        [*KDISSECT, "--version"],
        check=True,
        capture_output=True,
        text=True,
        env=environment(path),
        cwd=tempfile.gettempdir(),
    ).stdout.strip()
    if "(compiled)" not in said:
        sys.exit(f"this is not compiled: {said}")
    return said


def copy_sources(directory: Path) -> Path:
    """The package as it is in the tree, and as pip installs it where nothing is compiled to C."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
    shutil.copytree(ROOT / "kdissect", directory / "kdissect", ignore=ignored)
    compileall.compile_dir(directory / "kdissect", quiet=2)
    return directory


class Circumstances:
    """Date, machine and versions, and the CPU time of unrelated processes during a measurement.

    Unrelated are all that this process did not start, and the hypervisor ("steal"). The load
    average of the minute before is mostly that of the previous measurement.
    """

    def __init__(self, kdissect: str) -> None:
        adopt_orphans()
        self._facts = circumstances() | {"kdissect": kdissect}
        self._began, self._used = time.monotonic(), self._unrelated_seconds()

    def told(self) -> dict[str, Any]:
        """The facts, and the mean number of cores that unrelated processes used so far."""
        passed = max(time.monotonic() - self._began, 1 / TICKS)
        used = max(0.0, self._unrelated_seconds() - self._used)
        return self._facts | {"others": round(used / passed, 3)}

    def _unrelated_seconds(self) -> float:
        return machine_cpu_seconds() - own_cpu_seconds()


def circumstances() -> dict[str, Any]:
    """Date, machine and versions."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "revision": _said(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]),
        "python": platform.python_version(),
        "tshark": _said(["tshark", "--version"]).removeprefix("TShark (Wireshark) "),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),  # of the minute before
    }


def _said(command: list[str]) -> str:
    """The first line a program prints; "" when it cannot."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout.splitlines()[0].strip(" .") if done.stdout else ""


def _processor() -> str:
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return found[1] if found else platform.machine()
