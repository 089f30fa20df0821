"""The requested run of ``kdissect live``, and each worker's share; imports next to nothing."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kdissect.cli.live.options import Rotation
from kdissect.dissection.options import Options
from kdissect.errors import InvalidArgument, KdissectError
from kdissect.limits import MIB, Limits
from kdissect.live.memory import files_bytes_for, limits_for
from kdissect.live.source_choice import Asked

NEVER: Final = Rotation()
# The first process of several: Python, Arrow, and the packages of the metrics.
FIRST_BYTES: Final = 160 * MIB
# With --findings, the rows of a window twice: as they came, and the columns that rules need.
FINDINGS_BYTES: Final = 128 * MIB


@dataclass(frozen=True)
class Plan:
    """The requested run; None for parts not requested."""

    asked: Asked
    options: Options
    directory: Path | None = None
    rotation: Rotation = NEVER
    keep: int | None = None
    disk: int | None = None
    flush_s: float = 5.0
    labels: int = 100
    max_cpu: float | None = None
    max_memory: int | None = None
    duration_s: float | None = None
    every_s: float = 5.0
    is_json: bool = False
    findings_s: float | None = None
    webhook: Any = None
    otlp: str | None = None

    @property
    def has_lines(self) -> bool:
        """Return whether lines go to stdout: where no other output shows the progress."""
        return self.directory is None or self.is_json


def share_of(plan: Plan, workers: int) -> Plan:
    """The plan of one of the workers: what is bounded for all is divided by their number.

    Raises KdissectError where the memory is too little for them.
    """
    if workers == 1:
        return plan
    first = FIRST_BYTES if plan.findings_s is None else FIRST_BYTES + FINDINGS_BYTES
    memory = None if plan.max_memory is None else (plan.max_memory - first) // workers
    share = replace(
        plan,
        asked=replace(plan.asked, buffer_bytes=plan.asked.buffer_bytes // workers),
        max_cpu=None if plan.max_cpu is None else plan.max_cpu / workers,
        max_memory=memory,
        # All rotations of the directory are counted by each worker.
        keep=None if plan.keep is None else plan.keep * workers,
    )
    try:
        limited(share)
    except KdissectError as error:
        raise InvalidArgument(
            f"--max-memory is for all processes: a process of its own has {first // MIB} MiB,"
            f" and each of {workers} workers {max(0, memory or 0) // MIB} MiB: {error}"
        ) from error
    return share


def limited(plan: Plan) -> Options:
    """The options with limits that fit the memory, except those set explicitly."""
    if plan.max_memory is None or plan.options.limits != Limits():
        return plan.options
    files_bytes = files_memory(plan) or 0
    limits = limits_for(plan.max_memory, plan.asked.ring_bytes, files_bytes=files_bytes)
    return replace(plan.options, limits=limits)


def files_memory(plan: Plan) -> int | None:
    """Memory budget of rows waiting to be written; None for the default."""
    if plan.max_memory is None or plan.directory is None:
        return None
    return files_bytes_for(plan.max_memory)
