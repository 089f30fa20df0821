"""Run all workloads in turn and write the measurements to benchmarks/results.json.

    python -m benchmarks.bench [--rounds 3] [--workloads bulk,small] [--directory DIR]
                               [--parts peers,jobs,profiles,start-up] [--compiled DIR]
                               [--megabytes N]

Each capture is made of a recorded session when its turn comes, and removed when it is over. The
compiled kdissect is what is installed, or `--compiled`, a directory that has the package; the plain
one is a copy of the sources. With `--megabytes` all captures are of that size: a trial, of which
nothing is kept and all is printed.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import jobs, page, peers, profiles, results, timing
from benchmarks.workloads import ROOT, Workload, chosen, lent

PARTS = ("peers", "jobs", "profiles", "start-up")
NEEDED = {"peers": "tshark", "profiles": "perf"}


def parts_of(workload: Workload, asked: list[str]) -> list[str]:
    """Parts to measure of a workload."""
    has = {
        "peers": bool(workload.peers),
        "jobs": bool(workload.jobs_target),
        "profiles": "compiled" in workload.peers,
    }
    return [name for name in asked if has.get(name)]


def measured(
    workload: Workload, part: str, capture: Path, plain: str, options: argparse.Namespace
) -> dict[str, Any]:
    """One part of one workload."""
    if part == "jobs":
        return jobs.measured(workload, capture, options.compiled, options.rounds)
    with timing.on_one_core():
        if part == "profiles":
            return profiles.measured(workload, capture, options.compiled)
        return peers.measured(workload, capture, plain, options.compiled, options.rounds)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workloads", default="", help="names with commas (default: all)")
    parser.add_argument("--parts", default=",".join(PARTS), help="default: all")
    parser.add_argument("--directory", type=Path, default=ROOT / "benchmarks" / "captures")
    parser.add_argument("--compiled", default="", help="default: what is installed")
    parser.add_argument("--megabytes", type=int, default=0, help="for a trial")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    asked = [name for name in PARTS if name in options.parts.split(",")]
    for name in asked:
        if name in NEEDED and shutil.which(NEEDED[name]) is None:
            sys.exit(f"{NEEDED[name]} is not installed; {name} need it")
    version = timing.compiled_version(options.compiled)
    options.directory.mkdir(parents=True, exist_ok=True)
    where = timing.Circumstances(version)
    kept = {} if options.megabytes else results.read()
    with tempfile.TemporaryDirectory() as copy:
        plain = str(timing.copy_sources(Path(copy)))
        for workload in chosen(options.workloads):
            if not (parts := parts_of(workload, asked)):
                continue
            if options.megabytes:
                workload = workload._replace(megabytes=options.megabytes)
            with lent(workload, options.directory) as capture:
                for part in parts:
                    found = measured(workload, part, capture, plain, options)
                    of_part = kept.setdefault("workloads" if part == "peers" else part, {})
                    of_part[workload.name] = found | {"circumstances": where.told()}
            if not options.megabytes:
                results.write(kept)
                page.write(kept)
    if "start-up" in asked:
        with timing.on_one_core():
            kept["start_up"] = peers.start_up(options.compiled) | {"circumstances": where.told()}
    if options.megabytes:
        print(*page.targets(kept), *page.peers(kept), sep="\n")
        print(*page.jobs(kept), *page.profiles(kept), sep="\n")
    else:
        results.write(kept)
        page.write(kept)


if __name__ == "__main__":
    main()
