"""Workloads: captures made of recorded sessions, and the commands run on each."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BATCHES = ("--apis", "Produce,Fetch", "--min-size", "16000")
# So large that start-up does not hide the rate, and so small that tshark is done: it does 50 MB/s
# of bulk, 9 of small, 18 of records, and takes 1.7 GB of memory for each GB.
BULK_MEGABYTES = 3000
MEGABYTES = 1200
CODEC_MEGABYTES = 600
SUMMARY_MEGABYTES = 1000
FEW_MEGABYTES = 20
# A broker with versions that tshark 4.0 knows; otherwise it would skip the measured messages.
OLDER_BROKERS = {"records": "2.4.1", "wide": "2.4.1"}
NEWEST = "-newest"  # the same session with the newest broker


class Workload(NamedTuple):
    """A capture to make, its seed, and kdissect's results for it."""

    name: str
    seed: str
    options: tuple[str, ...]  # of benchmarks.generate
    tables: str  # that are written; none: the summary is printed
    megabytes: int = MEGABYTES
    peers: tuple[str, ...] = ("tshark", "dpkt", "plain", "compiled")
    target: float = 0.0  # times tshark; 0: none is set
    rate: tuple[str, str] = ("", "")  # the table whose rows a second are reported, and the target
    jobs_target: float = 0.0  # times as fast with two processes; 0: not measured


def of_codec(codec: str, clients: str, rate_target: str = "") -> Workload:
    """Only the batches of some clients, for the rate."""
    return Workload(
        f"records, {codec}",
        "records",
        ("--apis", "Produce,Fetch", "--clients", clients),
        "records",
        CODEC_MEGABYTES,
        peers=("compiled",),
        rate=("records", rate_target),
    )


WORKLOADS = (
    Workload(
        "bulk",
        "bulk",
        BATCHES,
        "exchanges,partitions,batches",
        BULK_MEGABYTES,
        target=40.0,
        rate=("", "900 MB/s"),
        jobs_target=1.8,
    ),
    Workload(
        "small",
        "small",
        (),
        "exchanges,partitions,errors",
        target=25.0,
        rate=("exchanges", "300 000/s"),
        jobs_target=1.8,
    ),
    Workload(
        "small, a little",
        "small",
        (),
        "exchanges,partitions,errors",
        FEW_MEGABYTES,
        peers=(),
        jobs_target=1.0,
    ),
    Workload(
        "wide",
        "wide",
        ("--apis", "Fetch,Metadata", "--min-size", "30000"),
        "partitions",
        peers=("tshark", "dpkt", "compiled"),
        target=20.0,
        rate=("partitions", ""),
    ),
    # Fetch 16 and 18, which tshark 4.0 passes over.
    Workload(
        "wide, newest",
        f"wide{NEWEST}",
        ("--apis", "Fetch,Metadata", "--min-size", "30000"),
        "partitions",
        CODEC_MEGABYTES,
        peers=("tshark", "compiled"),
        rate=("partitions", ""),
    ),
    Workload(
        "records",
        "records",
        ("--apis", "Produce,Fetch"),
        "records",
        peers=("tshark", "dpkt", "compiled"),
        target=20.0,
        rate=("records", ""),
    ),
    of_codec("uncompressed", "records-java-none,reader-clicks", "5 000 000/s"),
    of_codec("lz4", "records-rd-lz4,reader-moves"),
    of_codec("zstd", "records-java-zstd,reader-sales"),
    Workload(
        "summary", "bulk", BATCHES, "", SUMMARY_MEGABYTES, ("tshark", "dpkt", "compiled"), 30.0
    ),
)


def chosen(names: str) -> list[Workload]:
    """Workloads of a list with commas, ``records`` and ``records-lz4``; all when it is empty."""
    found = []
    for name in names.split(",") if names else [""]:
        those = [one for one in WORKLOADS if f"{file_name(one)}-".startswith(name and f"{name}-")]
        if not those:
            sys.exit(f"no such workload: {name}")
        found += those
    return [one for one in WORKLOADS if one in found]


def file_name(workload: Workload) -> str:
    """Its name without spaces and commas."""
    return re.sub(r"\W+", "-", workload.name)


def capture_of(workload: Workload, directory: Path, connections: int = 8) -> Path:
    """The capture of a workload, made if it is missing.

    Connections are played to their end, so a capture may be larger than requested.
    """
    name = file_name(workload) if workload.tables else workload.seed
    capture = directory / f"{name}-{workload.megabytes}-{connections}.pcap"
    size = ("--megabytes", str(workload.megabytes), "--connections", str(connections))
    return made(capture, recorded(workload.seed, directory), (*workload.options, *size))


@contextmanager
def lent(workload: Workload, directory: Path) -> Iterator[Path]:
    """The capture of a workload; removed afterwards, unless it was there before."""
    before = set(directory.iterdir())
    capture = capture_of(workload, directory)
    try:
        yield capture
    finally:
        if capture not in before:
            capture.unlink()


def recorded(name: str, directory: Path) -> Path:
    """A recorded session, recorded if it is not there."""
    seed = directory / f"{name}.pcapng"
    if not seed.exists():
        scenario = name.removesuffix(NEWEST)
        record = [sys.executable, "-m", "tools.record", scenario, "-o", str(seed)]
        record += ["--heap-megabytes", "1024"]
        if name in OLDER_BROKERS:
            record += ["--kafka-version", OLDER_BROKERS[name]]
        subprocess.run(record, check=True, cwd=ROOT)
    return seed


def made(capture: Path, seed: Path, options: tuple[str, ...]) -> Path:
    """A capture of `benchmarks.generate`, made if it is not there."""
    if capture.exists():
        return capture
    part = capture.with_suffix(".part")
    command = [sys.executable, "-m", "benchmarks.generate", str(seed), str(part), *options]
    subprocess.run(command, check=True, cwd=ROOT)
    return part.rename(capture)
