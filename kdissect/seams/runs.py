"""Whether one process reads captures, or several share the work."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kdissect.capture.files import Source, open_captures
from kdissect.capture.opened import STDIN
from kdissect.capture.pieces import are_in_turn, plan
from kdissect.pipeline import Options, Run
from kdissect.seams.crew import Crew, is_worthwhile, wanted_jobs

if TYPE_CHECKING:
    from kdissect.seams.jobs_run import JobsRun

# What is dissected twice at an edge is about a message of each connection; the rows of a piece wait
# in memory for those before them.
SMALLEST_PIECE: Final = 16 << 20
LARGEST_PIECE: Final = 128 << 20


def make_run(
    source: Source | Sequence[Source], options: Options, crew: Crew | None = None
) -> "Run | JobsRun":
    """What reads the captures: in several processes where they are files, large and in turn.

    `crew` are such processes, for this; those that are not needed end.
    """
    run = None
    try:
        run = shared_run(source, options, crew)
    finally:
        if run is None and crew is not None:
            crew.close()
    return Run(source, options) if run is None else run


def shared_run(
    source: Source | Sequence[Source], options: Options, crew: Crew | None
) -> "JobsRun | None":
    """What reads them in several processes, None where one has to."""
    jobs = wanted_jobs(options.jobs)
    if jobs < 2 or options.strict:
        return None
    paths = file_paths(source)
    total = sum(Path(path).stat().st_size for path in paths)
    if not is_worthwhile(total, options.jobs):
        return None
    # What several processes need would take one a tenth of its start-up.
    from kdissect.seams.jobs_run import JobsRun

    pieces = plan(paths, piece_size(total, jobs))
    is_one = len(pieces) < 2 or any(piece.layout is None and piece.end for piece in pieces)
    if is_one or not are_in_turn(pieces):
        # Some are compressed, and can be read from their beginning only; or they overlap in time.
        return None
    return JobsRun(paths, pieces, options, crew or Crew(jobs - 1))


def file_paths(source: Source | Sequence[Source]) -> list[str]:
    """The captures' paths in the order of their first packets; none when some have no path."""
    given = [source] if isinstance(source, str | os.PathLike) or hasattr(source, "read") else source
    for one in given:
        # A pipe can be opened once only, and that is not here.
        if not isinstance(one, str | os.PathLike) or os.fspath(one) == STDIN or is_pipe(one):
            return []
    with open_captures(source) as capture:
        names = capture.names
    return names if all(Path(name).is_file() for name in names) else []


def is_pipe(path: str | os.PathLike[str]) -> bool:
    """Whether something is there that is no file and no directory."""
    there = Path(path)
    return there.exists() and not there.is_file() and not there.is_dir()


def piece_size(total: int, jobs: int) -> int:
    """Pieces so large that their edges cost little, and enough of them for all processes."""
    return max(SMALLEST_PIECE, min(LARGEST_PIECE, total // (jobs * 2) + 1))
