"""Profile of each workload, and the floor that no program can avoid; for `benchmarks.bench`.

`perf record` samples the compiled kdissect by the CPU clock; a sample belongs to the stage whose
code ran, known by the symbol (mypyc's are called after the module) or the library. The floor is
what must be done whatever the program is like: the file read into one buffer, its bytes copied once
from buffer to buffer, its records unpacked by the libraries. Start-up is not in the floor; it is
the same command on the first packets of the capture.
"""

import re
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import peers, timing
from benchmarks.workloads import ROOT, Workload

SAMPLES_A_SECOND = 1999
STAGES = (
    "capture", "packets", "streams", "tls", "framing", "exchanges", "messages", "protocol",
    "tables", "checkpoint",
)  # fmt: skip
IN_STAGE = {"dissection": "tables", "sources": "capture"}
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
BUFFER_SIZE = 1 << 20  # bytes that kdissect reads at once
FLOOR_ROUNDS = 3


def modules() -> dict[str, str]:
    """The stage of each compiled module, by its last name, and of each package, by its own."""
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    compiled = text.split('COMPILED = """')[1].split('"""')[0].split()
    compiled += re.findall(r'^    "(\w+/\w+)": "kdissect', text, re.M)  # GENERATED
    found = {}
    for place in compiled:
        package, _, module = place.rpartition("/")
        found[module] = IN_STAGE.get(package, package)
    # mypyc puts the package before a module's name when several are called the same.
    return found | {stage: stage for stage in STAGES}


def stage_of(library: str, symbol: str, known: dict[str, str]) -> str:
    """Part of the program that a sample belongs to."""
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
    """CPU time of copying as many bytes from buffer to buffer; both were written to before."""
    # Views, as a bytearray would copy its argument once more.
    source, target = (memoryview(bytearray(fill) * BUFFER_SIZE) for fill in (b"\1", b"\2"))
    started = time.process_time()
    for start in range(0, size, BUFFER_SIZE):
        part = min(BUFFER_SIZE, size - start)
        target[:part] = source[:part]
    return time.process_time() - started


def measured(workload: Workload, capture: Path, compiled: str) -> dict[str, Any]:
    """Profile one workload and keep the result."""
    timing.warm(capture)
    size = capture.stat().st_size
    program = peers.kdissect("compiled", workload.tables, compiled)
    start_up = peers.beginnings([program], capture)["compiled"]
    seconds, found = profiled(workload, capture, compiled)
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
        "start_up": start_up,
        "shares": found,
        "floor": {name: round(value, 3) for name, value in floor.items()},
    }
