"""Whether one process reads captures, or several share the work."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kdissect.capture.files import Source, open_captures
from kdissect.capture.opened import STDIN
from kdissect.capture.pieces import Piece, are_in_turn, iter_pieces, plan
from kdissect.pipeline import Options, Run

if TYPE_CHECKING:
    from kdissect.seams.jobs_run import JobsRun

# Less than this is dissected before other processes have begun; nobody has to ask for them above
# the second: on two cores they are slower on 1 GB of bulk, and on 200 MB of small messages.
WORTHWHILE_BYTES: Final = 64 << 20
ALWAYS_BYTES: Final = 2 << 30
# What is dissected twice at an edge is about a message of each connection; the rows of a piece wait
# in memory for those before them.
SMALLEST_PIECE: Final = 16 << 20
LARGEST_PIECE: Final = 128 << 20


def make_run(source: Source | Sequence[Source], options: Options) -> "Run | JobsRun":
    """What reads the captures: in several processes where they are files, large and in turn."""
    jobs = options.jobs or usable_cores()
    if jobs < 2 or options.strict:
        return Run(source, options)
    paths = file_paths(source)
    total = sum(Path(path).stat().st_size for path in paths)
    if total < (WORTHWHILE_BYTES if options.jobs else ALWAYS_BYTES):
        return Run(source, options)
    # What several processes need would take one a tenth of its start-up.
    from kdissect.seams.jobs_run import JobsRun

    size = piece_size(total, jobs)
    if len(paths) == 1:
        pieces = iter_pieces(paths, size)
        first = next(pieces)
        if first.layout is None or first.is_last:
            # Compressed: it can be read from its beginning only.
            return Run(source, options)
        return JobsRun(paths, behind(first, pieces), options, jobs)
    planned = plan(paths, size)
    if any(piece.layout is None and piece.end for piece in planned) or not are_in_turn(planned):
        return Run(source, options)
    return JobsRun(paths, iter(planned), options, jobs)


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


def behind(first: Piece, pieces: Iterator[Piece]) -> Iterator[Piece]:
    """All pieces again after the first was looked at."""
    yield first
    yield from pieces


def usable_cores() -> int:
    """The processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def piece_size(total: int, jobs: int) -> int:
    """Pieces so large that their edges cost little, and enough of them for all processes."""
    return max(SMALLEST_PIECE, min(LARGEST_PIECE, total // (jobs * 2) + 1))
