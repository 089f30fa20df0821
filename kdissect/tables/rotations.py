"""Layout of a live capture's output directory: the names in it.

    DIR/topics.json                                          topic names by id
    DIR/20261122T060000Z/                                    a run: the life of one process
        000001-20261122T060000Z/exchanges.parquet            a rotation: all its tables together
                                connections.parquet          those that ended
                                open_connections.parquet     those open at its end
                                balance.json                 byte balance so far
        .open-000002-20261122T060100Z/exchanges.spool        rows until they are rotated
        .making-000002-…, .gone-000001-…                     being published, being removed

The connections of a run are those that ended and those open at the end of its last rotation.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kdissect.errors import DatasetError

RUN: Final = re.compile(r"\d{8}T\d{6}Z(?:-\d+)?")
ROTATION: Final = re.compile(r"(\d{6,})-\d{8}T\d{6}Z")
OPEN: Final = ".open-"
MAKING: Final = ".making-"
GONE: Final = ".gone-"
SPOOL: Final = ".spool"
TOPICS: Final = "topics.json"
BALANCE: Final = "balance.json"
OPEN_CONNECTIONS: Final = "open_connections"


def runs_in(directory: Path) -> list[Path]:
    """Return the runs of a live capture, earliest first."""
    return sorted((one for one in named(directory, RUN)), key=run_order)


def rotations_in(run: Path) -> list[Path]:
    """Return the complete rotations of a run, earliest first."""
    return sorted(named(run, ROTATION), key=number_of)


def is_run(directory: Path) -> bool:
    """Return whether the file name is that of a run."""
    return RUN.fullmatch(directory.name) is not None


def is_rotation(directory: Path) -> bool:
    """Return whether the file name is that of a rotation."""
    return ROTATION.fullmatch(directory.name) is not None


def number_of(rotation: Path) -> int:
    """Return the number of a rotation in its run, from 1."""
    return int(rotation.name.partition("-")[0])


def run_order(run: Path) -> tuple[str, int]:
    """Sort key of runs: start time, then order of creation."""
    time, _, number = run.name.partition("-")
    return time, int(number or 1)


def rotation_name(number: int, time_ns: int) -> str:
    """Return the name of a rotation whose rows begin at a time.

    >>> rotation_name(1, 1_795_327_200_000_000_000)
    '000001-20261122T060000Z'
    """
    return f"{number:06}-{time_name(time_ns)}"


def time_name(time_ns: int) -> str:
    """Format a time for a name, in UTC."""
    return f"{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y%m%dT%H%M%SZ}"


def hidden_in(run: Path, prefix: str) -> Sequence[Path]:
    """Directories of a run named with this prefix and a rotation's name, in order."""
    return sorted(named(run, re.compile(re.escape(prefix) + ROTATION.pattern)))


def check_links(directory: Path) -> None:
    """Raise DatasetError if a run or a rotation of a directory is a symbolic link."""
    for one in entries(directory):
        if (is_run(one) or is_rotation(one)) and one.is_symlink():
            raise DatasetError(f"{one}: is a symbolic link, which is not followed")


def named(directory: Path, pattern: re.Pattern[str]) -> list[Path]:
    """Subdirectories with a matching name, without links; none if the directory does not exist."""
    found = [one for one in entries(directory) if pattern.fullmatch(one.name)]
    return [one for one in found if one.is_dir() and not one.is_symlink()]


def entries(directory: Path) -> list[Path]:
    """Entries of a directory; none if it does not exist."""
    try:
        return list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
