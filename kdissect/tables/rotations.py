"""Where a live capture has its tables: the names in its output directory.

    DIR/topics.json                                          names of topics, by their ids
    DIR/20261122T060000Z/                                    a run: the life of one process
        000001-20261122T060000Z/exchanges.parquet            a rotation: all its tables at once
                                connections.parquet          those that ended
                                open_connections.parquet     those open at its end
                                balance.json                 what became of the bytes until then
        .open-000002-20261122T060100Z/exchanges.spool        rows until they are rotated
        .making-000002-…, .gone-000001-…                     on its way in, on its way out

Connections of a run are those that ended and those that are open at the end of its last rotation.
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
    """The runs of a live capture, the earliest first."""
    return sorted((one for one in named(directory, RUN)), key=run_order)


def rotations_in(run: Path) -> list[Path]:
    """The complete rotations of a run, the earliest first."""
    return sorted(named(run, ROTATION), key=number_of)


def is_run(directory: Path) -> bool:
    """Whether its name is that of a run."""
    return RUN.fullmatch(directory.name) is not None


def is_rotation(directory: Path) -> bool:
    """Whether its name is that of a rotation."""
    return ROTATION.fullmatch(directory.name) is not None


def number_of(rotation: Path) -> int:
    """The number of a rotation in its run, from 1."""
    return int(rotation.name.partition("-")[0])


def run_order(run: Path) -> tuple[str, int]:
    """What runs are ordered by: when they began, then who came first."""
    time, _, number = run.name.partition("-")
    return time, int(number or 1)


def rotation_name(number: int, time_ns: int) -> str:
    """What a rotation is called whose rows begin at a time.

    >>> rotation_name(1, 1_795_327_200_000_000_000)
    '000001-20261122T060000Z'
    """
    return f"{number:06}-{time_name(time_ns)}"


def time_name(time_ns: int) -> str:
    """A time in a name, in UTC."""
    return f"{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y%m%dT%H%M%SZ}"


def hidden_in(run: Path, prefix: str) -> Sequence[Path]:
    """The directories of a run whose names begin so and go on like a rotation's, in order."""
    return sorted(named(run, re.compile(re.escape(prefix) + ROTATION.pattern)))


def check_links(directory: Path) -> None:
    """Raise DatasetError where a run or a rotation of a directory is a symbolic link."""
    for one in entries(directory):
        if (is_run(one) or is_rotation(one)) and one.is_symlink():
            raise DatasetError(f"{one}: is a symbolic link, which is not followed")


def named(directory: Path, pattern: re.Pattern[str]) -> list[Path]:
    """The directories with such a name in a directory, but no links; none where it is not there."""
    found = [one for one in entries(directory) if pattern.fullmatch(one.name)]
    return [one for one in found if one.is_dir() and not one.is_symlink()]


def entries(directory: Path) -> list[Path]:
    """What is in a directory; nothing where there is none."""
    try:
        return list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
