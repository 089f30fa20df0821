"""kdissect beside its peers on the same captures, in the same run; writes docs/performance.md.

    python -m benchmarks.peers [--rounds 3] [--workloads bulk,small] [--directory DIR]
                               [--compiled DIR]

Captures of `benchmarks.workloads`, and whole processes in turn, their output thrown away:

- tshark -T fields with API key, API version, correlation id, client id and error code
- a bare loop of dpkt over the packets, for scale
- kdissect compiled and as plain Python: the tables of the workload, written to Parquet

The plain one is a copy of the sources; the compiled one is what is installed, or `--compiled`, a
directory that has the package. The numbers go to benchmarks/results.json, the page is printed of
them. All programs run on one core.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import results, timing
from benchmarks.timing import KDISSECT, Program
from benchmarks.workloads import ROOT, Workload, capture_of, chosen

FIELDS = (
    "kafka.api_key",
    "kafka.api_version",
    "kafka.correlation_id",
    "kafka.client_id",
    "kafka.error",
)
QUICKSTART = ROOT / "captures" / "quickstart.pcapng"
START_ROUNDS = 9
ONE_PROCESS = ("--jobs", "1")


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


def measured(workload: Workload, options: argparse.Namespace, plain: str) -> dict[str, Any]:
    """What is kept of one workload."""
    capture = capture_of(workload, options.directory)
    runs = timing.in_turn(programs(workload, plain, options.compiled), capture, options.rounds)
    found = {name: timing.figures(of_one) for name, of_one in runs.items()}
    for name, figures in found.items():
        print(f"{workload.name:22} {name:9} {figures['seconds']:8.2f} s", flush=True)
    return {
        "bytes": capture.stat().st_size,
        "tables": workload.tables,
        "target": workload.target,
        "rate": list(workload.rate),
        "programs": found,
    }


def start_up(compiled: str) -> dict[str, Any]:
    """`kdissect --help` and `kdissect quickstart`, whole processes; the first time is not told."""
    found = {}
    for name, command in (("--help", "--help"), ("quickstart", "{}")):
        program = Program(name, (*KDISSECT, command), compiled)
        timing.run(program, QUICKSTART)
        runs = timing.in_turn([program], QUICKSTART, START_ROUNDS)[name]
        found[name] = timing.figures(runs)
        print(f"kdissect {name:13} {found[name]['seconds'] * 1000:8.0f} ms", flush=True)
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workloads", default="", help="names with commas (default: all)")
    parser.add_argument("--directory", type=Path, default=ROOT / "benchmarks" / "captures")
    parser.add_argument("--compiled", default="", help="default: what is installed")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if shutil.which("tshark") is None:
        sys.exit("tshark is not installed; it is the peer to measure against")
    version = timing.compiled_version(options.compiled)
    options.directory.mkdir(parents=True, exist_ok=True)
    timing.stay_on_one_core()
    kept = results.read()
    where = timing.circumstances() | {"kdissect": version}
    with tempfile.TemporaryDirectory() as copy:
        plain = str(timing.copy_sources(Path(copy)))
        for workload in chosen(options.workloads):
            found = measured(workload, options, plain)
            kept.setdefault("workloads", {})[workload.name] = found | {"circumstances": where}
            results.write(kept)
    kept["start_up"] = start_up(options.compiled) | {"circumstances": where}
    results.write(kept)


if __name__ == "__main__":
    main()
