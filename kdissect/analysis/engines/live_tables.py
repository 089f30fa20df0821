"""Tables of a live capture (`kdissect.tables.rotations`): all, of a run, of a rotation.

Ids are unique within a run, so each run is a separate source. Files are listed once; when
rotations are deleted during a query, the query is repeated.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from kdissect.analysis.engines.stored_tables import Place, StoredFile
from kdissect.errors import KdissectError
from kdissect.system.confined import Below
from kdissect.system.strict_json import parsed
from kdissect.tables.balances import checked_balance
from kdissect.tables.rotations import (
    BALANCE,
    OPEN_CONNECTIONS,
    check_links,
    number_of,
    rotations_in,
    runs_in,
)
from kdissect.tables.schemas import TABLES

ATTEMPTS: Final = 3
# A number takes 40 bytes with its name; protocols, reasons and problems are some dozens.
BALANCE_BYTES: Final = 1 << 20

Asked = ParamSpec("Asked")
Found = TypeVar("Found")


class FilesGone(KdissectError):
    """Files were deleted after they were listed."""


def live_places(directory: Path) -> list[Place]:
    """The tables of a live capture's directory, run or rotation; none for any other source.

    Raises KdissectError where no rotation is complete yet.
    """
    directory = directory.absolute()
    if (directory / f"{OPEN_CONNECTIONS}.parquet").is_file():
        return [place_of([directory], directory)]
    if rotations := rotations_in(directory):
        check_links(directory)
        return [place_of(rotations, directory)]
    runs = runs_in(directory)
    for one in (directory, *runs):
        check_links(one)
    places = [place_of(found, directory) for run in runs if (found := rotations_in(run))]
    if runs and not places:
        raise KdissectError(f"{directory}: nothing is rotated yet; ask again when a file is there")
    return places


def place_of(rotations: Sequence[Path], root: Path) -> Place:
    """Consecutive rotations of a run, in the requested directory."""
    files = {name: files_of(rotations, name) for name in TABLES}
    last = stored(rotations[-1] / f"{OPEN_CONNECTIONS}.parquet")
    files["connections"] += [] if last is None else [last]
    there = {name: found for name, found in files.items() if found}
    name = rotations[0] if len(rotations) == 1 else rotations[0].parent
    balances = balances_of(rotations)
    return Place(str(name), there, is_live=True, balances=balances, root=str(root))


def files_of(rotations: Sequence[Path], table: str) -> list[StoredFile]:
    """The files of a table; files just deleted are left out."""
    found = [stored(rotation / f"{table}.parquet") for rotation in rotations]
    return [file for file in found if file is not None]


def stored(path: Path) -> StoredFile | None:
    """A stored file, None where missing."""
    with suppress(OSError):
        return StoredFile(str(path), path.lstat().st_size)
    return None


def balances_of(rotations: Sequence[Path]) -> list[Mapping[str, Any]]:
    """The balances of rotations; each rotation's balance covers its run until its end."""
    last = balance_at(rotations[-1])
    if last is None:
        return []
    before = [
        one for one in rotations_in(rotations[0].parent) if number_of(one) < number_of(rotations[0])
    ]
    first = balance_at(before[-1]) if before else None
    return [last if first is None else less(last, first)]


def balance_at(rotation: Path) -> dict[str, Any] | None:
    """The balance of a rotation; None where its process was killed, or it was just deleted.

    Raises DatasetError where it is not a valid balance.
    """
    try:
        with Below(rotation) as below:
            content = below.read(BALANCE, BALANCE_BYTES)
    except OSError:
        return None
    return checked_balance(parsed(content, str(rotation / BALANCE)))


def less(balance: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The difference since an earlier balance; unchanged counts are left out of mappings."""
    made: dict[str, Any] = {}
    for name, value in balance.items():
        if isinstance(value, Mapping):
            known = before.get(name, {})
            made[name] = {
                key: left for key, one in value.items() if (left := one - known.get(key, 0))
            }
        else:
            made[name] = value - before.get(name, 0)
    return made


@contextmanager
def noticing(places: Sequence[Place]) -> Iterator[None]:
    """Turn failures inside into FilesGone when files of live captures have been deleted."""
    try:
        yield
    except Exception as error:
        gone = next(gone_files(places), None)
        if gone is None:
            raise
        raise FilesGone(
            f"{gone} was taken away while it was read: the capture keeps fewer rotations than "
            "are asked for; ask a run or some rotations of it, or let it keep more"
        ) from error


def gone_files(places: Sequence[Place]) -> Iterator[str]:
    """Files that have been deleted."""
    for place in places:
        if place.is_live:
            for files in place.files.values():
                yield from (file.path for file in files if not Path(file.path).exists())


def asked_again(ask: Callable[Asked, Found]) -> Callable[Asked, Found]:
    """Repeat a query on the current files when files are deleted meanwhile."""

    @functools.wraps(ask)
    def tried(*values: Asked.args, **named: Asked.kwargs) -> Found:
        for _ in range(ATTEMPTS - 1):
            with suppress(FilesGone):
                return ask(*values, **named)
        return ask(*values, **named)

    return tried
