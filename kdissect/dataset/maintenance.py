"""Check of a dataset's files, and removal of those that no recent version of its tables needs.

`deltalake` says which ones these are; they are removed by names that were checked, below the
dataset's directory: its own `vacuum` would follow links.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import unquote

from pyarrow import parquet

from kdissect.dataset.delta_actions import opened_file
from kdissect.dataset.delta_tables import DeltaTables, told
from kdissect.dataset.entries import OWN, Contents, FileEntry
from kdissect.dataset.runs import Dataset, contents_in
from kdissect.dataset.runs_table import RUNS
from kdissect.dataset.storage import (
    AT_ONCE,
    absolute,
    at_once,
    files_in,
    is_uri,
    joined,
    remove,
    seen,
)
from kdissect.errors import InvalidArgument, KdissectError, no_such_file
from kdissect.system.confined import MISSING, Below
from kdissect.system.file_names import is_name
from kdissect.tables.schemas import TABLES
from kdissect.tables.stored_rows import believed

HOUR_S: Final = 3600.0
# A run may take so long from its first file to its commit.
LEAST_S: Final = HOUR_S
DEFAULT_S: Final = 7 * 24 * HOUR_S
FILE: Final = re.compile(r"(?P<table>[a-z_]+)/(?:[^/]+/)*[^/._][^/]*\.parquet")


class Expired(NamedTuple):
    """Files that were removed, or would be, and their bytes."""

    files: int
    size: int


def expire(
    dataset: str | os.PathLike[str], older_than_s: float = DEFAULT_S, *, dry_run: bool = False
) -> Expired:
    """Remove files that versions of the last `older_than_s` seconds do not need.

    These are files that runs have replaced, and files of runs that were killed. Readers of earlier
    versions need such files, and so do runs in progress: at least an hour, else InvalidArgument.
    Raises KdissectError if there is no dataset, OutputError if another process writes to it.
    """
    if older_than_s < LEAST_S:
        raise InvalidArgument("files are kept for an hour at least: runs may need them")
    contents_in(dataset)  # otherwise one would be made
    with Dataset(dataset) as opened:
        location, before = opened.directory, time.time() - older_than_s
        hours = max(1, int(older_than_s / HOUR_S))
        names = [*unneeded(opened.tables, opened.contents, hours)]
        if opened.is_remote:
            names += left(location, opened.contents, before)
        sizes = sizes_of(location, names)
        if not dry_run:
            remove_all(location, sizes)
        return Expired(len(sizes), sum(sizes.values()))


class Checked(NamedTuple):
    """Files of a dataset, their bytes and rows, and what is wrong: a line for each file."""

    files: int
    size: int
    rows: int
    wrong: tuple[str, ...]


def check(dataset: str | os.PathLike[str]) -> Checked:
    """Check that all files are there, with the sizes and row counts of the logs; changes nothing.

    Raises KdissectError if there is no dataset, or its logs or records are none.
    """
    location = absolute(dataset)
    contents = contents_in(location)
    files = [file for tap in contents.taps for file in tap.files]
    with ThreadPoolExecutor(AT_ONCE if is_uri(location) else 1) as pool:
        found = [*pool.map(partial(fault_of, location), files)]
    wrong = [text for text in found if text]
    states = [tap.state for tap in contents.taps if tap.state]
    there = sizes_of(location, states)
    wrong += [no_such_file(joined(location, name)) for name in states if name not in there]
    return Checked(
        len(files),
        sum(file.size for file in files),
        sum(max(file.rows, 0) for file in files),
        tuple(wrong),
    )


def fault_of(location: str, file: FileEntry) -> str:
    """What is wrong with a file, "" for nothing."""
    where = joined(location, file.path)
    try:
        with believed(where), opened_file(location, file.path) as (content, size):
            if size != file.size:
                return f"{where}: {size} bytes in place of {file.size}"
            rows = parquet.read_metadata(content).num_rows
    except KdissectError as error:
        return str(error)
    return f"{where}: {rows} rows in place of {file.rows}" if rows != file.rows >= 0 else ""


def unneeded(
    tables: DeltaTables, contents: Contents, hours: int, *, is_full: bool = True
) -> Iterator[str]:
    """Files of tables that are in no version of the last hours.

    `is_full`: also those that never were in one.
    """
    needed = contents.names()
    for table in (RUNS, *TABLES):
        if not tables.has(table):
            continue
        with told(joined(tables.location, table)):
            paths = tables.opened(table).vacuum(
                hours,
                dry_run=True,
                enforce_retention_duration=False,
                full=is_full,
            )
        for path in paths:
            name = f"{table}/{unquote(path)}"
            # Those of the contents may be of a version before that of another program.
            if name not in needed and is_name(name) and FILE.fullmatch(name):
                yield name


def left(location: str, contents: Contents, before: float) -> list[str]:
    """Intermediate files and states in a store that killed runs have left before that time.

    In a directory the next run removes them.
    """
    needed = contents.names()
    own = files_in(joined(location, OWN), recursive=True)
    old = [one.location for one in own if one.modified_ns < before * 1e9]
    names = [place.removeprefix(f"{location}/") for place in old]
    kinds = (f"{OWN}/run-", f"{OWN}/states/")
    return [name for name in names if name.startswith(kinds) and name not in needed]


def sizes_of(location: str, names: Sequence[str]) -> dict[str, int]:
    """Sizes of the files that exist; in a directory links are an error."""
    if is_uri(location):
        sizes = {name: seen(joined(location, name))[0] for name in names}
    else:
        with Below(location) as below:
            sizes = dict(below.sizes(names))
    return {name: size for name, size in sizes.items() if size != MISSING}


def remove_all(location: str, names: Sequence[str] | dict[str, int]) -> None:
    """Remove files of a dataset."""
    if is_uri(location):
        at_once(remove, [(joined(location, name),) for name in names])
        return
    with Below(location) as below:
        for name in names:
            below.remove(name)
