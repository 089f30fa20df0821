"""What a smaller snaplen costs in rows, and saves in CPU time: ``python -m benchmarks.snaplen``.

Captures are cut as a kernel cuts packets, by editcap, and their exchanges compared with those of
whole packets, column by column. CPU time is that of dissecting them, the median of `--rounds`.
Prints the table of docs/live.md.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import kdissect
from benchmarks.workloads import BATCHES, ROOT, made

SNAPLENS = (96, 128, 192, 256, 384, 512, 1024, 2048)
# What is known of a request's and a response's header, and of TCP.
IDENTITY = (
    "connection_id", "exchange_id", "api", "api_version", "correlation_id", "client_id", "outcome",
)  # fmt: skip
TIMES = (
    "request_start", "request_end", "response_start", "response_end", "latency_ns", "queue_ns",
    "request_size", "response_size",
)  # fmt: skip
CONTENT = ("topic_count", "partition_count", "record_count", "group_id", "error", "error_count")
SECONDS = 600
# Kept traffic of all kinds: the bulk of a broker, and small messages.
SETS = ("quickstart", "consumer-groups-4.3.1", "transactions-4.3.1", "sasl-4.3.1", "streams-4.3.1")


class Compared(NamedTuple):
    """Shares of the exchanges of whole packets: found again, with equal times, with equal content.

    `bytes_share` of the captured bytes, and CPU time of whole packets and of cut ones.
    """

    found: float
    times: float
    content: float
    bytes_share: float
    cpu: float


Key = tuple[Any, ...]


def exchanges(capture: Path) -> dict[Key, dict[str, Any]]:
    """Rows by what identifies them: an id is the same wherever all were found."""
    columns = [*IDENTITY, *TIMES, *CONTENT]
    table = kdissect.read(capture, table="exchanges", columns=columns).to_arrow()
    rows = (row for batch in table.to_batches() for row in batch.to_pylist())
    return {(row["connection_id"], row["correlation_id"], row["api"], row["request_start"],
             row["response_start"]): row for row in rows}  # fmt: skip


def shares(whole: dict[Key, dict[str, Any]], cut: dict[Key, dict[str, Any]]) -> Iterator[float]:
    """Of the exchanges of whole packets, those with equal columns of each kind."""
    kinds: Sequence[Sequence[str]] = (IDENTITY, (*IDENTITY, *TIMES), (*IDENTITY, *TIMES, *CONTENT))
    for kind in kinds:
        columns = [name for name in kind if name != "exchange_id"]
        same = sum(
            key in cut and all(cut[key][name] == row[name] for name in columns)
            for key, row in whole.items()
        )
        yield same / len(whole)


def cut_to(capture: Path, snaplen: int, directory: Path) -> Path:
    """The capture as one with this snaplen."""
    made_ = directory / f"{capture.stem}-{snaplen}.pcap"
    command = ["editcap", "-F", "pcap", "-s", str(snaplen), str(capture), str(made_)]
    subprocess.run(command, check=True, timeout=SECONDS)
    return made_


def cpu_seconds(capture: Path, rounds: int) -> float:
    """Median CPU time of the exchanges, less that of starting."""
    times = [
        cpu_of("table", "exchanges", str(capture), "--limit", "1000000000") for _ in range(rounds)
    ]
    return statistics.median(times) - cpu_of("--version")


def cpu_of(*words: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "kdissect", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compared(capture: Path, snaplen: int, directory: Path, rounds: int) -> Compared:
    """One capture with one snaplen."""
    whole, cut = cut_to(capture, 262_144, directory), cut_to(capture, snaplen, directory)
    found, times, content = shares(exchanges(whole), exchanges(cut))
    cpu = cpu_seconds(cut, rounds) / cpu_seconds(whole, rounds) if rounds else 0.0
    return Compared(found, times, content, cut.stat().st_size / whole.stat().st_size, cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        captures = {name: ROOT / "captures" / f"{name}.pcapng" for name in SETS}
        size = ("--megabytes", str(options.megabytes), "--connections", "8")
        for name, words in (("small", ()), ("bulk", BATCHES)):
            seed = ROOT / "captures" / "quickstart.pcapng"
            captures[name] = made(place / f"{name}.pcap", seed, (*words, *size))
        sys.stdout.write(
            "| capture | snaplen | bytes | exchanges | times, sizes | topics, errors | CPU time |\n"
        )
        sys.stdout.write("|---|---|---|---|---|---|---|\n")
        for name, capture in captures.items():
            for snaplen in SNAPLENS:
                rounds = options.rounds if name in ("small", "bulk") else 0
                one = compared(capture, snaplen, place, rounds)
                cells = [f"{100 * value:.2f} %" for value in one[:3]]
                cpu = f"{100 * one.cpu:.0f} %" if rounds else ""
                row = [name, str(snaplen), f"{100 * one.bytes_share:.1f} %", *cells, cpu]
                sys.stdout.write(f"| {' | '.join(row)} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
