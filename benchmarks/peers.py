"""kdissect beside tshark on the same captures, in the same run: medians and ratios.

    python -m benchmarks.peers [--runs 5] [--megabytes 500] [--directory DIR]

Makes two captures of at least `--megabytes` out of recorded sessions (see `benchmarks.generate`):
*bulk* (Produce and Fetch with large batches, MSS 1448) and *small* (many small exchanges). The
sessions are `bulk.pcapng` and `small.pcapng` in the directory; what is not there is recorded first
(`tools.record`, which needs a JDK and Maven). Then
runs, in turn and `--runs` times each, as whole processes with their output thrown away:

- tshark -T fields with API key, API version, correlation id, client id and error code
- kdissect, the same five columns as CSV
- kdissect, the exchanges, partitions, batches and errors tables written to Parquet
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FIELDS = (
    "kafka.api_key",
    "kafka.api_version",
    "kafka.correlation_id",
    "kafka.client_id",
    "kafka.error",
)
COLUMNS = "api_key,api_version,correlation_id,client_id,error_code"
TABLES = "exchanges,partitions,batches,errors"


class Workload(NamedTuple):
    """A capture to make, and out of what."""

    name: str
    seed: Path
    options: tuple[str, ...]


class Peer(NamedTuple):
    """A program to time; ``{}`` in the command is the capture, ``{out}`` an empty directory."""

    name: str
    command: tuple[str, ...]


def workloads(directory: Path) -> list[Workload]:
    bulk = ("--apis", "Produce,Fetch", "--min-size", "16000")
    return [
        Workload("bulk", directory / "bulk.pcapng", bulk),
        Workload("small", directory / "small.pcapng", ()),
    ]


def make(workload: Workload, capture: Path, megabytes: int) -> None:
    """Make the capture of a workload; records the session first when it is not there."""
    if not workload.seed.exists():
        record = [sys.executable, "-m", "tools.record", workload.name, "-o", str(workload.seed)]
        subprocess.run(record, check=True, cwd=ROOT)
    generate = [sys.executable, "-m", "benchmarks.generate", str(workload.seed), str(capture)]
    generate += ["--megabytes", str(megabytes), *workload.options]
    subprocess.run(generate, check=True, cwd=ROOT)


def peers() -> list[Peer]:
    tshark = ["tshark", "-r", "{}", "-d", "tcp.port==9092,kafka", "-Y", "kafka", "-T", "fields"]
    for field in FIELDS:
        tshark += ["-e", field]
    # -P: the installed package, not the sources in this directory.
    kdissect = (sys.executable, "-P", "-m", "kdissect")
    return [
        Peer("tshark", tuple(tshark)),
        Peer(
            "kdissect csv",
            (*kdissect, "table", "exchanges", "{}", "--columns", COLUMNS, "--format", "csv"),
        ),
        Peer("kdissect parquet", (*kdissect, "dissect", "{}", "-o", "{out}", "--tables", TABLES)),
    ]


def run(peer: Peer, capture: Path) -> float:
    """Seconds of one run, as a whole process."""
    with tempfile.TemporaryDirectory() as out:
        target = f"{out}/tables"
        command = [
            part.replace("{out}", target).replace("{}", str(capture)) for part in peer.command
        ]
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - started


def measure(capture: Path, runs: int) -> dict[str, list[float]]:
    """Seconds of every run of every peer, the peers taking turns after one warm-up each."""
    found: dict[str, list[float]] = {peer.name: [] for peer in peers()}
    for turn in range(runs + 1):
        for peer in peers():
            seconds = run(peer, capture)
            if turn:
                found[peer.name].append(seconds)
    return found


def report(name: str, capture: Path, found: dict[str, list[float]]) -> None:
    """Print the medians, rates and ratios of one workload."""
    size = capture.stat().st_size / 1e6
    base = statistics.median(found["tshark"])
    print(f"\n{name}: {size:.0f} MB")
    print(f"  {'':18} {'median s':>9} {'MB/s':>8} {'x tshark':>9}   min..max s")
    for peer, seconds in found.items():
        median = statistics.median(seconds)
        spread = f"{min(seconds):.2f}..{max(seconds):.2f}"
        print(f"  {peer:18} {median:9.2f} {size / median:8.0f} {base / median:9.1f}   {spread}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--directory", type=Path, default=ROOT / "benchmarks" / "captures")
    options = parser.parse_args()
    if shutil.which("tshark") is None:
        sys.exit("tshark is not installed; it is the peer to measure against")
    options.directory.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-P", "-m", "kdissect", "--version"], check=True)
    for workload in workloads(options.directory):
        capture = options.directory / f"{workload.name}-{options.megabytes}.pcap"
        if not capture.exists():
            make(workload, capture, options.megabytes)
        report(workload.name, capture, measure(capture, options.runs))


if __name__ == "__main__":
    main()
