"""Storage of tables: output of ``kdissect dissect`` and ``live``, and datasets.

A directory has one file for each table. A dataset (docs/dataset.md) has any number, each of a day
and a tap, which are the columns ``date`` and ``tap`` of its exchanges and connections.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from kdissect.analysis.engines.ibis_tables import files_of
from kdissect.errors import DatasetError, KdissectError, no_such_file
from kdissect.system.confined import MISSING, Below
from kdissect.tables.ids import LARGEST_TAP
from kdissect.tables.schemas import TABLES


class StoredFile(NamedTuple):
    """A Parquet file and its size in bytes; `rows` is its row count, -1 when unknown."""

    path: str
    size: int
    rows: int = -1


class Place(NamedTuple):
    """Tables that were stored together.

    `files` has the files of each table that exists; `taps` is the number of id ranges in the place.
    Files of a dataset are in directories ``date=.../tap=...``.
    `scan` returns a table as an Arrow dataset, where files are not on this machine. Files of a
    live capture may be deleted at any time; `balances` account for its bytes.
    `mixed` are tables of a dataset whose files may lack declared columns, with those that any has.
    `root` is the directory of the files, "" where they are not on this machine: below it
    no link is followed.
    """

    name: str
    files: Mapping[str, Sequence[StoredFile]]
    taps: int = 1
    is_dataset: bool = False
    location: str = ""
    scan: "Callable[[str], Any] | None" = None
    is_live: bool = False
    balances: Sequence[Mapping[str, Any]] = ()
    root: str = ""
    mixed: Mapping[str, Sequence[str]] = MappingProxyType({})

    def paths(self, table: str) -> list[str]:
        """The files of a table; raises KdissectError where the dataset was made without it.

        Raises DatasetError where one of them is a link, or not a regular file.
        """
        if table not in self.files:
            there = ", ".join(self.files)
            raise KdissectError(f"{self.name} has no table {table}; it was made with {there}")
        paths = [file.path for file in self.files[table]]
        if self.root and self.is_dataset:
            check_listed(self.root, paths)
        elif self.root:
            check_files(self.root, paths)
        return paths


def check_files(root: str, paths: Iterable[str]) -> None:
    """Raise DatasetError where one of the files below a directory is missing or no regular file."""
    path = root
    try:
        with Below(root) as below:
            for path in paths:
                below.check(str(Path(path).relative_to(root)))
    except FileNotFoundError as error:
        raise DatasetError(no_such_file(path)) from error


def check_listed(root: str, paths: Iterable[str]) -> None:
    """Raise DatasetError where a file of a dataset is missing or not a regular file."""
    listed = {str(Path(path).relative_to(root)): path for path in paths}
    with Below(root) as below:
        sizes = below.sizes(listed)
    for name, path in listed.items():
        if sizes[name] == MISSING:
            raise DatasetError(no_such_file(path))


def directory_place(directory: Path) -> Place:
    """A directory written by `kdissect dissect`; existing files are determined when one is read."""
    paths = {name: directory / f"{name}.parquet" for name in TABLES}
    files = {name: [StoredFile(str(path), _size_of(path))] for name, path in paths.items()}
    return Place(str(directory), files, root=str(directory))


def numbered(places: Sequence[Place]) -> Iterator[tuple[Place, int]]:
    """Each place with the first number of its taps, so that no two have the same ids."""
    number = 0
    for place in places:
        yield place, number
        number += place.taps
        if number > LARGEST_TAP + 1:
            raise KdissectError(f"an analysis reads at most {LARGEST_TAP + 1} taps")


def stored_size(places: Sequence[Place], names: Iterable[str], least: int = 0) -> int:
    """Bytes of the files of these tables, where a smaller file counts as `least`."""
    return sum(
        max(file.size, least)
        for name in files_of(names)
        for place in places
        for file in place.files.get(name, ())
    )


def _size_of(path: Path) -> int:
    """Bytes of a file, or of the files in a directory, which Spark and others write as a table."""
    if path.is_dir():
        return sum(one.stat().st_size for one in path.rglob("*.parquet") if one.is_file())
    return path.stat().st_size if path.is_file() else 0
