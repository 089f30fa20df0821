"""kdissect beside its peers on the same captures, in the same run; writes docs/performance.md.

    python -m benchmarks.peers [--runs 5] [--megabytes 300] [--workloads bulk,small]
                               [--directory DIR] [--compiled DIR] [--page PAGE]

Captures of `benchmarks.workloads`, and whole processes in turn, their output thrown away:

- tshark -T fields with API key, API version, correlation id, client id and error code
- a bare loop of dpkt over the packets, for scale
- kdissect compiled and as plain Python: the tables of the workload, written to Parquet
- the same of `kdissect summary`, on bulk

The plain one is a copy of the sources; the compiled one is what is installed, or `--compiled`, a
directory that has the package.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.workloads import ROOT, Workload, chosen, make

PAGE = ROOT / "docs" / "performance.md"
START, STOP = "<!-- peers: start -->", "<!-- peers: stop -->"
FIELDS = (
    "kafka.api_key",
    "kafka.api_version",
    "kafka.correlation_id",
    "kafka.client_id",
    "kafka.error",
)


class Peer(NamedTuple):
    """A program to time; ``{}`` in the command is the capture, ``{out}`` an empty directory."""

    name: str
    command: tuple[str, ...]
    path: str = ""  # PYTHONPATH


class Run(NamedTuple):
    """One whole process."""

    seconds: float
    peak_bytes: int


def peers(workload: Workload, plain: Path, compiled: str) -> list[Peer]:
    tshark = ["tshark", "-r", "{}", "-d", "tcp.port==9092,kafka", "-Y", "kafka", "-T", "fields"]
    for field in FIELDS:
        tshark += ["-e", field]
    # -P: the package that is meant, not the sources in this directory.
    kdissect = (sys.executable, "-P", "-m", "kdissect")
    tables = (*kdissect, "dissect", "{}", "-o", "{out}", "--tables", workload.tables)
    loop = (sys.executable, str(ROOT / "benchmarks" / "dpkt_loop.py"), "{}")
    found = [
        Peer("tshark", tuple(tshark)),
        Peer("dpkt, packets only", loop),
        Peer("kdissect plain", tables, str(plain)),
        Peer("kdissect compiled", tables, compiled),
    ]
    if workload.name == "bulk":
        found.append(Peer("kdissect compiled, summary", (*kdissect, "summary", "{}"), compiled))
    return found


def run(peer: Peer, capture: Path) -> Run:
    """One run; a process that fails ends the measurement."""
    with tempfile.TemporaryDirectory() as out:
        command = [
            part.replace("{out}", f"{out}/tables").replace("{}", str(capture))
            for part in peer.command
        ]
        environment = dict(os.environ)
        environment.pop("PYTHONPATH", None)
        if peer.path:
            environment["PYTHONPATH"] = peer.path
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{peer.name} ended with {process.returncode}: {' '.join(command)}")
        return Run(seconds, usage.ru_maxrss * 1024)  # Linux counts KiB


def measure(programs: list[Peer], capture: Path, runs: int) -> dict[str, list[Run]]:
    """Every run of every peer, the peers taking turns after one warm-up each."""
    found: dict[str, list[Run]] = {peer.name: [] for peer in programs}
    for turn in range(runs + 1):
        for peer in programs:
            result = run(peer, capture)
            if turn:
                found[peer.name].append(result)
    return found


def rows(name: str, size: int, found: dict[str, list[Run]]) -> list[str]:
    """Lines of the table for one workload: medians, the slowest and fastest run, ratios, memory."""
    base = statistics.median(one.seconds for one in found["tshark"])
    lines = []
    for peer, runs in found.items():
        seconds = [one.seconds for one in runs]
        median = statistics.median(seconds)
        peak = max(one.peak_bytes for one in runs)
        lines.append(
            f"| {name}, {size / 1e6:.0f} MB | {peer} | {median:.2f} s "
            f"| {min(seconds):.2f}-{max(seconds):.2f} s | {size / 1e6 / median:.0f} "
            f"| {base / median:.1f} | {peak / 1e6:.0f} MB |"
        )
        print(lines[-1], flush=True)
    return lines


def written(page: str, table: list[str], runs: int) -> str:
    """The page with the new table between its marks."""
    before, rest = page.split(START)
    _, after = rest.split(STOP)
    head = (
        f"Medians of {runs} runs, the programs in turn.\n\n"
        "| workload | program | median | runs | MB/s | against tshark | peak memory |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    return before + START + "\n" + head + "\n".join(table) + "\n" + STOP + after


def copy_sources(directory: Path) -> Path:
    """The package as it is in the tree, without anything compiled."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
    shutil.copytree(ROOT / "kdissect", directory / "kdissect", ignore=ignored)
    return directory


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--workloads", default="", help="names with commas (default: all)")
    parser.add_argument("--directory", type=Path, default=ROOT / "benchmarks" / "captures")
    parser.add_argument("--compiled", default="", help="default: what is installed")
    parser.add_argument("--page", type=Path, help="write the table there (default: print only)")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if shutil.which("tshark") is None:
        sys.exit("tshark is not installed; it is the peer to measure against")
    options.directory.mkdir(parents=True, exist_ok=True)
    table = []
    with tempfile.TemporaryDirectory() as copy:
        plain = copy_sources(Path(copy))
        for workload in chosen(options.workloads):
            capture = make(workload, options.directory, options.directory, options.megabytes)
            programs = peers(workload, plain, options.compiled)
            found = measure(programs, capture, options.runs)
            table += rows(workload.name, capture.stat().st_size, found)
    if options.page:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(written(page, table, options.runs), encoding="utf-8")


if __name__ == "__main__":
    main()
