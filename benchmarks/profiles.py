"""Where the time of each workload goes, and what no program could save.

    python -m benchmarks.profiles [--workloads bulk,small] [--directory DIR] [--compiled DIR]

`perf record` samples the compiled kdissect by the CPU clock; a sample belongs to the stage whose
code ran, known by the symbol (mypyc's are called after the module) or the library. The floor is
what must be done whatever the program is like: the file read, its bytes copied once, its records
unpacked. Start-up is the same command on a capture that is next to nothing. Numbers go to
benchmarks/results.json.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import peers, results, timing
from benchmarks.workloads import ROOT, Workload, capture_of, chosen

SAMPLES_A_SECOND = 1999
STAGES = (
    "capture", "packets", "streams", "tls", "frames", "exchanges", "messages", "protocol", "seams",
    "tables",
)  # fmt: skip
IN_STAGE = {"searching": "frames", "edges": "seams", "dissector": "tables"}
UNPACKING = "unpacking"
LIBRARIES = {
    "libarrow": "Arrow, Parquet",
    "libparquet": "Arrow, Parquet",
    "pyarrow": "Arrow, Parquet",
    "lib.cpython": "Arrow, Parquet",
    "backend_c": UNPACKING,  # of zstandard
    "_frame.cpython": UNPACKING,  # of lz4
    "zstd": UNPACKING,
    "lz4": UNPACKING,
    "zlib": UNPACKING,
    "libz": UNPACKING,
    "snappy": UNPACKING,
    "libc.so": "C library: copies, memory",
    "kernel": "kernel: reading, memory",
}
PYTHON = "Python: interpreter, objects, start-up"
SAMPLE = re.compile(r"^\s*(?P<share>[\d.]+)%\s+(?P<library>\S+)\s+\[.\]\s+(?P<symbol>\S+)")
BUFFER_SIZE = 1 << 20
BLOCK_SIZE = 1 << 27
FLOOR_ROUNDS = 5
START_ROUNDS = 3


def modules() -> dict[str, str]:
    """The stage of each compiled module, by its last name, and of each package, by its own."""
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    compiled = text.split('COMPILED = """')[1].split('"""')[0].split()
    found = {}
    for place in compiled:
        package, _, module = place.rpartition("/")
        found[module] = IN_STAGE.get(module, package or module)
    # mypyc puts the package before a module's name when several are called the same.
    return found | {stage: stage for stage in STAGES}


def stage_of(library: str, symbol: str, known: dict[str, str]) -> str:
    """Where a sample belongs."""
    if "kdissect" in library:
        names = symbol.removeprefix("CPyDef_").removeprefix("CPyPy_").split("___")
        for name in (names[0], names[1] if len(names) > 1 else ""):
            if known.get(name) in STAGES:
                return known[name]
        return PYTHON  # mypyc's own: lists, integers, counting references
    for part, stage in LIBRARIES.items():
        if part in library:
            return stage
    return PYTHON


def shares(report: str, known: dict[str, str]) -> dict[str, float]:
    """Percent of the samples of each stage, the largest first."""
    found: Counter[str] = Counter()
    for line in report.splitlines():
        if match := SAMPLE.match(line):
            found[stage_of(match["library"], match["symbol"], known)] += float(match["share"])
    return {name: round(share, 1) for name, share in found.most_common()}


def profiled(workload: Workload, capture: Path, compiled: str) -> tuple[float, dict[str, float]]:
    """CPU seconds of one run under perf, and the shares of them."""
    with tempfile.TemporaryDirectory() as scratch:
        program = peers.kdissect("compiled", workload.tables, compiled)
        kept = f"{scratch}/perf"
        record = ["perf", "record", "-e", "cpu-clock", "-F", str(SAMPLES_A_SECOND), "-o", kept]
        command = tuple(part.replace("{out}", f"{scratch}/tables") for part in program.command)
        ran = timing.run(program._replace(command=(*record, "--", *command)), capture)
        report = ["perf", "report", "-i", kept, "--no-children", "--sort", "dso,symbol"]
        report += ["-g", "none", "--stdio"]
        said = subprocess.run(report, check=True, capture_output=True, text=True).stdout
    return ran.cpu_seconds, shares(said, modules())


def reading_seconds(capture: Path) -> float:
    """CPU time of reading the file from the page cache into one buffer, over and over."""
    buffer = bytearray(BUFFER_SIZE)
    started = time.process_time()
    with capture.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.process_time() - started


def copying_seconds(size: int) -> float:
    """CPU time of copying as many bytes from one block into another, larger than any cache."""
    source, target = bytes(BLOCK_SIZE), bytearray(b"\1") * BLOCK_SIZE
    started = time.process_time()
    for start in range(0, size, BLOCK_SIZE):
        target[: size - start] = source[: size - start]
    return time.process_time() - started


def measured(workload: Workload, options: argparse.Namespace) -> dict[str, Any]:
    """What is kept of one workload."""
    capture = capture_of(workload, options.directory)
    timing.warm(capture)
    size = capture.stat().st_size
    seconds, found = profiled(workload, capture, options.compiled)
    program = peers.kdissect("compiled", workload.tables, options.compiled)
    starts = timing.in_turn([program], peers.QUICKSTART, START_ROUNDS)["compiled"]
    floor = {
        "reading": min(reading_seconds(capture) for _ in range(FLOOR_ROUNDS)),
        "copying": min(copying_seconds(size) for _ in range(FLOOR_ROUNDS)),
        UNPACKING: seconds * found.get(UNPACKING, 0.0) / 100,
    }
    told = ", ".join(f"{name} {share} %" for name, share in found.items())
    print(f"{workload.name}: {seconds:.2f} s; {told}", flush=True)
    return {
        "bytes": size,
        "seconds": round(seconds, 3),
        "start_up": timing.figures(starts)["cpu_seconds"],
        "shares": found,
        "floor": {name: round(value, 3) for name, value in floor.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--workloads", default="", help="names with commas (default: all)")
    parser.add_argument("--directory", type=Path, default=ROOT / "benchmarks" / "captures")
    parser.add_argument("--compiled", default="", help="default: what is installed")
    options = parser.parse_args()
    if shutil.which("perf") is None:
        sys.exit("perf is not installed; it takes the samples")
    version = timing.compiled_version(options.compiled)
    timing.stay_on_one_core()
    where = timing.circumstances() | {"kdissect": version}
    kept = results.read()
    profiles = kept.setdefault("profiles", {})
    for workload in chosen(options.workloads):
        profiles[workload.name] = measured(workload, options) | {"circumstances": where}
        results.write(kept)


if __name__ == "__main__":
    main()
