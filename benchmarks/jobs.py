"""Elapsed time of one process and of two on the same capture; `benchmarks.bench` runs it.

Unlike all other measurements, on all cores, and in elapsed time.
"""

from pathlib import Path
from typing import Any

from benchmarks import peers, timing
from benchmarks.timing import Program
from benchmarks.workloads import Workload

JOBS = (1, 2)


def measured(workload: Workload, capture: Path, compiled: str, rounds: int) -> dict[str, Any]:
    """Measure one workload and keep the result."""
    programs = [with_jobs(workload, jobs, compiled) for jobs in JOBS]
    runs = timing.in_turn(programs, capture, rounds)
    figures = {name: timing.figures(of_one) for name, of_one in runs.items()}
    for name, one in figures.items():
        print(f"{workload.name:22} --jobs {name}  {one['seconds']:8.2f} s", flush=True)
    return {
        "bytes": capture.stat().st_size,
        "target": workload.jobs_target,
        "programs": figures,
    }


def with_jobs(workload: Workload, jobs: int, compiled: str) -> Program:
    """The workload with so many processes; its name is their number."""
    program = peers.kdissect(str(jobs), workload.tables, compiled)
    return program._replace(command=(*program.command[:-1], str(jobs)))
