"""Time and memory over size, 100 MB to 10 GB, and over connections, 10 to 100 000.

    python -m benchmarks.scaling [--sizes 100,300,1000,3000,10000] [--connections 10,...,100000]
                                 [--scratch DIR] [--directory DIR] [--compiled DIR]

Size: the bulk workload, made as large as asked. Connections: the same number of small exchanges
spread over more and more connections, 10 000 of them open at once at most. Peers run up to a size
only, to be done in minutes. Captures are made in `--scratch` one after the other and removed again.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import page, peers, results, timing
from benchmarks.timing import Program
from benchmarks.workloads import BATCHES, ROOT, made, recorded

SIZES = (100, 300, 1000, 3000, 10_000)  # megabytes
CONNECTIONS = (10, 100, 1000, 10_000, 100_000)
EXCHANGES = 400_000  # over all connections
SHORT = 1000  # megabytes; above it kdissect runs once, and alone
ROUNDS = 3  # of kdissect; peers run once
SMALL_APIS = ("--apis", "Produce,Fetch,Heartbeat,OffsetCommit,Metadata")
BULK_TABLES, SMALL_TABLES = "exchanges,partitions,batches", "exchanges,partitions,errors"


def over_size(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A point for each size."""
    seed = recorded("bulk", options.directory)
    points = []
    for megabytes in numbers(options.sizes):
        capture = made(
            options.scratch / f"scaling-{megabytes}.pcap",
            seed,
            (*BATCHES, "--megabytes", str(megabytes)),
        )
        own = peers.kdissect("compiled", BULK_TABLES, options.compiled)
        is_short = megabytes <= SHORT
        others = [peers.dpkt(), peers.tshark()] if is_short else []
        points.append(point(capture, own, ROUNDS if is_short else 1, others))
    return points


def over_connections(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A point for each number of connections."""
    seed = recorded("small", options.directory)
    points = []
    for count in numbers(options.connections):
        each = EXCHANGES // count
        capture = made(
            options.scratch / f"scaling-connections-{count}.pcap",
            seed,
            (*SMALL_APIS, "--connections", str(count), "--exchanges-each", str(each)),
        )
        own = peers.kdissect("compiled", SMALL_TABLES, options.compiled)
        others = [peers.dpkt(), peers.tshark()]
        points.append(point(capture, own, ROUNDS, others) | {"connections": count})
    return points


def point(capture: Path, own: Program, rounds: int, others: list[Program]) -> dict[str, Any]:
    """Measure one capture, which is then removed, and keep the result."""
    size = capture.stat().st_size
    runs = timing.in_turn([own], capture, rounds) | timing.in_turn(others, capture, 1)
    capture.unlink()
    found = {name: timing.figures(of_one) for name, of_one in runs.items()}
    told = ", ".join(f"{name} {figures['seconds']:.2f} s" for name, figures in found.items())
    print(f"{capture.name}, {size / 1e6:.0f} MB: {told}", flush=True)
    return {"bytes": size, "programs": found}


def numbers(text: str) -> list[int]:
    """Items of a comma-separated list."""
    return [int(part) for part in text.split(",") if part]


def joined(values: tuple[int, ...]) -> str:
    """A list with commas."""
    return ",".join(str(value) for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", default=joined(SIZES), help="megabytes")
    parser.add_argument("--connections", default=joined(CONNECTIONS))
    parser.add_argument("--directory", type=Path, default=ROOT / "benchmarks" / "captures")
    parser.add_argument("--scratch", type=Path, help="default: a new one that is removed")
    parser.add_argument("--compiled", default="", help="default: what is installed")
    options = parser.parse_args()
    version = timing.compiled_version(options.compiled)
    where = timing.Circumstances(version)
    with (
        tempfile.TemporaryDirectory(prefix="kdissect-scaling-") as scratch,
        timing.on_one_core(),
    ):
        options.scratch = options.scratch or Path(scratch)
        options.scratch.mkdir(parents=True, exist_ok=True)
        scaling = results.read().get("scaling", {})
        for name, sweep in (("size", over_size), ("connections", over_connections)):
            if points := sweep(options):
                scaling |= {name: points, "circumstances": where.told()}
                kept = results.read() | {"scaling": scaling}
                results.write(kept)
                page.write(kept)


if __name__ == "__main__":
    main()
