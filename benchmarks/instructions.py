"""Instructions of the hot paths, counted by callgrind: what a noisy machine cannot blur.

    python -m benchmarks.instructions (--check | --accept) [--directory DIR] [--compiled DIR]

Each workload is dissected at two sizes, and the difference is what counts: per packet (bulk), per
exchange (small), per record (records). Start-up falls out. kdissect must be compiled; `--check`
fails when a path needs over `TOLERANCE` more instructions than benchmarks/instructions.json says.
Counts are of one Python and one compiler, so accept anew where those change.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import dpkt
from pyarrow import parquet

from benchmarks.workloads import ROOT, Workload, chosen, make

ACCEPTED = ROOT / "benchmarks" / "instructions.json"
TOLERANCE = 0.03
SIZES = (1, 20)  # megabytes, connection after connection, each played to its end
UNITS = {"bulk": "packet", "small": "exchange", "records": "record"}


def environment(compiled: str) -> dict[str, str]:
    """Of a run that is the same each time: no random hashes, one thread of Arrow."""
    found = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    found.pop("PYTHONPATH", None)
    if compiled:
        found["PYTHONPATH"] = compiled
    return found


def counted(capture: Path, tables: str, compiled: str) -> tuple[int, dict[str, int]]:
    """Instructions of one dissection, and the rows of the tables it wrote."""
    with tempfile.TemporaryDirectory() as out:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}/callgrind"]
        command += [sys.executable, "-P", "-m", "kdissect", "dissect", str(capture)]
        command += ["-o", f"{out}/tables", "--tables", tables]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment(compiled)
        )
        found = re.search(r"Collected\s*: (\d+)", done.stderr)
        if found is None:
            sys.exit(f"callgrind counted nothing:\n{done.stderr}")
        files = Path(out, "tables").glob("*.parquet")
        rows = {file.stem: parquet.read_metadata(file).num_rows for file in files}
        return int(found[1]), rows


def packet_count(capture: Path) -> int:
    """Packets of a pcap file as `benchmarks.generate` writes it."""
    with capture.open("rb") as file:
        return sum(1 for _ in dpkt.pcap.Reader(file))


def per_unit(workload: Workload, seeds: Path, compiled: str) -> float:
    """Instructions for one more packet, exchange or record."""
    instructions, units = [], []
    with tempfile.TemporaryDirectory() as directory:
        for megabytes in SIZES:
            capture = make(workload, seeds, Path(directory), megabytes, connections=1)
            count, rows = counted(capture, workload.tables, compiled)
            unit = UNITS[workload.name]
            instructions.append(count)
            units.append(packet_count(capture) if unit == "packet" else rows[f"{unit}s"])
    return (instructions[1] - instructions[0]) / (units[1] - units[0])


def compared(found: dict[str, float], accepted: dict[str, float]) -> list[str]:
    """What needs more instructions than was accepted, in words."""
    return [
        f"{name}: {count:.0f} instructions, accepted are {accepted[name]:.0f}"
        for name, count in found.items()
        if count > accepted[name] * (1 + TOLERANCE)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true")
    what.add_argument("--accept", action="store_true")
    parser.add_argument("--workloads", default=",".join(UNITS))
    parser.add_argument("--directory", type=Path, default=ROOT / "benchmarks" / "captures")
    parser.add_argument("--compiled", default="", help="default: what is installed")
    options = parser.parse_args()
    version = [sys.executable, "-P", "-m", "kdissect", "--version"]
    said = subprocess.run(
        version, check=True, capture_output=True, text=True, env=environment(options.compiled)
    )
    if "(compiled)" not in said.stdout:
        sys.exit(f"only compiled code is counted: {said.stdout.strip()}")
    found = {}
    for workload in chosen(options.workloads):
        unit = UNITS[workload.name]
        count = per_unit(workload, options.directory, options.compiled)
        found[f"{workload.name}, per {unit}"] = round(count)
        print(f"{workload.name}: {count:.0f} instructions per {unit}", flush=True)
    before = json.loads(ACCEPTED.read_text(encoding="utf-8")) if ACCEPTED.exists() else {}
    if options.accept:
        ACCEPTED.write_text(json.dumps(before | found, indent=1) + "\n", encoding="utf-8")
    elif unknown := found.keys() - before.keys():
        sys.exit(f"never accepted: {', '.join(sorted(unknown))}; make bench-accept")
    elif slower := compared(found, before):
        sys.exit("\n".join(slower))


if __name__ == "__main__":
    main()
