"""kdissect beside its peers on the same captures, in the same run; `benchmarks.bench` runs it.

Whole processes in turn on one core, their output thrown away:

- tshark -T fields with API key, API version, correlation id, client id and error code
- a bare loop of dpkt over the packets, for scale, once
- kdissect compiled and, once, as plain Python: the tables of the workload, written to Parquet

and each of them on the first packets of the capture, which is its start-up.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import timing
from benchmarks.timing import KDISSECT, Program
from benchmarks.workloads import ROOT, Workload

FIELDS = (
    "kafka.api_key",
    "kafka.api_version",
    "kafka.correlation_id",
    "kafka.client_id",
    "kafka.error",
)
QUICKSTART = ROOT / "captures" / "quickstart.pcapng"
START_ROUNDS = 9
BEGINNING_ROUNDS = 3
ONE_PROCESS = ("--jobs", "1")
ONCE = ("dpkt", "plain")  # those that nothing is compared with, or that take minutes


def tshark() -> Program:
    command = ["tshark", "-r", "{}", "-d", "tcp.port==9092,kafka", "-Y", "kafka", "-T", "fields"]
    for field in FIELDS:
        command += ["-e", field]
    return Program("tshark", tuple(command))


def dpkt() -> Program:
    loop = str(ROOT / "benchmarks" / "dpkt_loop.py")
    return Program("dpkt", (sys.executable, loop, "{}"))


def kdissect(name: str, tables: str, path: str) -> Program:
    """Tables to Parquet; the summary when there are none."""
    if not tables:
        return Program(name, (*KDISSECT, "summary", "{}", *ONE_PROCESS), path)
    command = (*KDISSECT, "dissect", "{}", "-o", "{out}", "--tables", tables, *ONE_PROCESS)
    return Program(name, command, path)


def programs(workload: Workload, plain: str, compiled: str) -> list[Program]:
    """The peers of a workload."""
    every = [
        tshark(),
        dpkt(),
        kdissect("plain", workload.tables, plain),
        kdissect("compiled", workload.tables, compiled),
    ]
    return [one for one in every if one.name in workload.peers]


def measured(
    workload: Workload, capture: Path, plain: str, compiled: str, rounds: int
) -> dict[str, Any]:
    """Measure one workload and keep the result."""
    found = programs(workload, plain, compiled)
    starts = beginnings(found, capture)
    runs = timing.in_turn(found, capture, rounds, once=ONCE)
    figures = {
        name: timing.figures(of_one) | {"start_up": starts[name]} for name, of_one in runs.items()
    }
    for name, one in figures.items():
        print(f"{workload.name:22} {name:9} {one['seconds']:8.2f} s", flush=True)
    return {
        "bytes": capture.stat().st_size,
        "tables": workload.tables,
        "target": workload.target,
        "rate": list(workload.rate),
        "programs": figures,
    }


def beginnings(found: list[Program], capture: Path) -> dict[str, float]:
    """CPU seconds of each program on the first packets of a capture; not of the first run."""
    with tempfile.TemporaryDirectory() as scratch:
        first = timing.beginning(capture, Path(scratch, "first.pcap"))
        runs = timing.in_turn(found, first, BEGINNING_ROUNDS + 1)
    return {name: timing.figures(of_one[1:])["cpu_seconds"] for name, of_one in runs.items()}


def start_up(compiled: str) -> dict[str, Any]:
    """`kdissect --help` and `kdissect quickstart`, whole processes; not the first run."""
    found = {}
    for name, command in (("--help", "--help"), ("quickstart", "{}")):
        program = Program(name, (*KDISSECT, command), compiled)
        timing.run(program, QUICKSTART)
        runs = timing.in_turn([program], QUICKSTART, START_ROUNDS)[name]
        found[name] = timing.figures(runs)
        print(f"kdissect {name:13} {found[name]['seconds'] * 1000:8.0f} ms", flush=True)
    return found
