"""What is measured: captures made of recorded sessions, and the tables asked of each."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Workload(NamedTuple):
    """A capture to make, out of which seed, and the tables that are written."""

    name: str
    seed: str
    options: tuple[str, ...]
    tables: str


WORKLOADS = (
    Workload(
        "bulk",
        "bulk",
        ("--apis", "Produce,Fetch", "--min-size", "16000"),
        "exchanges,partitions,batches",
    ),
    Workload("small", "small", (), "exchanges,partitions,errors"),
    Workload("records", "bulk", ("--apis", "Produce,Fetch", "--min-size", "16000"), "records"),
)


def chosen(names: str) -> list[Workload]:
    """The workloads of a list with commas; all when it is empty."""
    wanted = names.split(",") if names else [one.name for one in WORKLOADS]
    unknown = set(wanted) - {one.name for one in WORKLOADS}
    if unknown:
        sys.exit(f"no such workload: {', '.join(sorted(unknown))}")
    return [one for one in WORKLOADS if one.name in wanted]


def make(
    workload: Workload, seeds: Path, directory: Path, megabytes: int, connections: int = 8
) -> Path:
    """The capture of a workload, made if it is not there; its session is recorded if need be.

    Connections are played to their end, so a capture may be larger than asked.
    """
    capture = directory / f"{workload.seed}-{megabytes}-{connections}.pcap"
    if capture.exists():
        return capture
    seed = seeds / f"{workload.seed}.pcapng"
    if not seed.exists():
        record = [sys.executable, "-m", "tools.record", workload.seed, "-o", str(seed)]
        subprocess.run(record, check=True, cwd=ROOT)
    part = capture.with_suffix(".part")
    generate = [sys.executable, "-m", "benchmarks.generate", str(seed), str(part)]
    generate += ["--megabytes", str(megabytes), *workload.options]
    generate += ["--connections", str(connections)]
    subprocess.run(generate, check=True, cwd=ROOT)
    return part.rename(capture)
