"""Instructions of the hot paths, counted by callgrind, hence independent of machine load.

    python -m benchmarks.instructions (--check | --accept) [--compiled DIR]

Captures are made of one that is in the tree. Each path is dissected with few and with many
exchanges on the same connections, and the difference is what counts: per packet (bulk, live), per
exchange (small), per record (records). Start-up and what a connection costs fall out. kdissect must
be compiled; `--check` fails when a path needs over `TOLERANCE` more instructions than
benchmarks/instructions.json says. Counts are of one Python, compiler and Arrow: where those differ
`--check` says so, and they are accepted anew.
"""

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import dpkt
import pyarrow
from pyarrow import parquet

from benchmarks import timing
from benchmarks.workloads import ROOT, made

ACCEPTED = ROOT / "benchmarks" / "instructions.json"
SEED = ROOT / "captures" / "quickstart.pcapng"
TOLERANCE = 0.02
PROFILED = b"kdissect: optimized by a profile"  # by setup.py
COMPILER = re.compile(rb"(?:GCC: \([^)]*\) [\d.]+|clang version [\d.]+)")


class HotPath(NamedTuple):
    """A hot path: its capture and its unit of counting."""

    name: str
    unit: str  # packet, or a row of the table called so with an s
    options: tuple[str, ...]  # of benchmarks.generate
    tables: str
    exchanges: tuple[int, int]  # of each connection: few, many
    is_live: bool = False  # `kdissect live`, with all its threads and files, instead of `dissect`


CONNECTIONS = 8
PATHS = (
    HotPath(
        "bulk",
        "packet",
        ("--apis", "Produce,Fetch", "--min-size", "4000"),
        "exchanges",
        (10, 200),
    ),
    HotPath(
        "small",
        "exchange",
        ("--apis", "Produce,Fetch,Heartbeat,OffsetCommit,Metadata"),
        "exchanges,partitions,errors",
        (50, 1000),
    ),
    HotPath("records", "record", ("--apis", "Produce,Fetch"), "records", (50, 500)),
    HotPath(
        "live",
        "packet",
        # All in less than a second of the capture, so that it counts no ticks.
        ("--apis", "Produce,Fetch,Heartbeat,OffsetCommit,Metadata", "--longest-pause", "2000"),
        "",
        (100, 2100),
        is_live=True,
    ),
)


def words(path: HotPath, capture: Path, tables: Path) -> list[str]:
    """Command line of kdissect."""
    if path.is_live:
        return ["live", str(capture), "-o", str(tables)]
    return ["dissect", str(capture), "-o", str(tables), "--tables", path.tables, "--jobs", "1"]


def counted(capture: Path, path: HotPath, compiled: str) -> tuple[int, dict[str, int]]:
    """Instructions of one dissection, and the rows of the tables it wrote."""
    # The same each time: no random hashes, one thread of Arrow.
    surroundings = timing.environment(compiled) | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as out:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}/callgrind"]
        command += [*timing.KDISSECT, *words(path, capture, Path(out, "tables"))]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env=surroundings, cwd=out
        )
        found = re.search(r"Collected\s*: (\d+)", done.stderr)
        if done.returncode or found is None:
            sys.exit(f"callgrind counted nothing:\n{done.stderr[-2000:]}")
        files = Path(out, "tables").glob("*.parquet")
        rows = {file.stem: parquet.read_metadata(file).num_rows for file in files}
        return int(found[1]), rows


def packet_count(capture: Path) -> int:
    """Packets of a pcap file as `benchmarks.generate` writes it."""
    with capture.open("rb") as file:
        return sum(1 for _ in dpkt.pcap.Reader(file))


def per_unit(path: HotPath, compiled: str) -> float:
    """Instructions for one more packet, exchange or record."""
    instructions, units = [], []
    with tempfile.TemporaryDirectory() as directory:
        for each in path.exchanges:
            size = ("--connections", str(CONNECTIONS), "--exchanges-each", str(each))
            capture = made(Path(directory, f"{each}.pcap"), SEED, (*path.options, *size))
            count, rows = counted(capture, path, compiled)
            instructions.append(count)
            units.append(packet_count(capture) if path.unit == "packet" else rows[f"{path.unit}s"])
    return (instructions[1] - instructions[0]) / (units[1] - units[0])


def built_with(compiled: str) -> dict[str, str]:
    """Environment that a count depends on besides the code."""
    place = Path(compiled) if compiled else Path(_installed())
    # Other packages have mypyc's libraries there, too, which other compilers have built.
    libraries = [file for file in place.glob("kdissect__mypyc*.so") if file.is_file()]
    code = libraries[0].read_bytes() if libraries else b""
    said = COMPILER.search(code)
    return {
        "Python": platform.python_version(),
        "compiler": said[0].decode() if said else "unknown",
        "profile": "of captures/" if PROFILED in code else "none",
        "pyarrow": pyarrow.__version__,
        "machine": platform.machine(),
        "C library": " ".join(platform.libc_ver()),
    }


def _installed() -> str:
    """The directory that holds the installed package."""
    command = [sys.executable, "-P", "-c", "import kdissect; print(kdissect.__path__[0])"]
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env=timing.environment(""),
        cwd=tempfile.gettempdir(),
    )
    return str(Path(done.stdout.strip()).parent)


def compared(found: dict[str, int], accepted: dict[str, int]) -> list[str]:
    """Messages for counts above the accepted ones, or without one."""
    unknown = [f"{name}: never accepted" for name in found if name not in accepted]
    return unknown + [
        f"{name}: {count} instructions, accepted are {accepted[name]}"
        f" ({count / accepted[name] - 1:+.1%})"
        for name, count in found.items()
        if name in accepted and count > accepted[name] * (1 + TOLERANCE)
    ]


def differences(here: dict[str, str], accepted: dict[str, str]) -> list[str]:
    """Messages for differences from the environment of the accepted counts."""
    return [
        f"{name} is {here[name]}, the counts were accepted with {accepted[name]}"
        for name in here
        if accepted.get(name, here[name]) != here[name]
    ]


def check(found: dict[str, int], here: dict[str, str], accepted: dict[str, Any]) -> str:
    """Why the counts are refused; "" when they are not."""
    reasons = compared(found, accepted["counts"])
    if not reasons:
        return ""
    others = differences(here, accepted["built_with"])
    if others:
        reasons += [*others, "that may be why: make bench-accept on the accepted revision first"]
    return "\n".join(reasons)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true")
    what.add_argument("--accept", action="store_true")
    parser.add_argument("--compiled", default="", help="default: what is installed")
    options = parser.parse_args()
    timing.compiled_version(options.compiled)
    here = built_with(options.compiled)
    accepted = json.loads(ACCEPTED.read_text(encoding="utf-8")) if ACCEPTED.exists() else None
    if options.check and accepted is None:
        sys.exit("no counts were accepted yet: make bench-accept")
    for text in differences(here, accepted["built_with"]) if accepted else []:
        print(f"note: {text}", flush=True)
    found = {}
    for path in PATHS:
        name = f"{path.name}, per {path.unit}"
        found[name] = round(per_unit(path, options.compiled))
        before = accepted["counts"].get(name) if accepted else None
        told = f"accepted: {before}" if before else "not accepted before"
        print(f"{name}: {found[name]} instructions ({told})", flush=True)
    if options.accept:
        kept = {"built_with": here, "counts": found}
        ACCEPTED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    elif accepted and (reasons := check(found, here, accepted)):
        sys.exit(reasons)


if __name__ == "__main__":
    main()
