"""Datasets in stores for engines that read files of this machine: copies, until the process ends.

A file of such a dataset never changes under its name, so it is fetched once, when a question wants
its table. All of a table's files are fetched, whatever days and taps a condition chooses.
"""

import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from kdissect.analysis.declared import files_of
from kdissect.analysis.stored_tables import Place
from kdissect.spark.storage import at_once, is_uri
from kdissect.spark.storage_captures import blocks


def near_places(places: Sequence[Place], names: Iterable[str]) -> list[Place]:
    """The places with files of this machine for these tables; raises KdissectError."""
    tables = files_of([*names, "exchanges"])
    return [near_place(place, tables) if is_uri(place.location) else place for place in places]


def near_place(place: Place, tables: Iterable[str]) -> Place:
    """A dataset in a store with copies of some tables, and without the others."""
    files = {table: place.files[table] for table in tables if table in place.files}
    at_once(fetch, [(file.path,) for own in files.values() for file in own])
    near = {
        table: [file._replace(path=str(copy_of(file.path))) for file in own]
        for table, own in files.items()
    }
    return place._replace(files={**place.files, **near})


def fetch(location: str) -> None:
    """Have a copy of a file."""
    path = copy_of(location)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")
    with unfinished.open("wb") as file:
        for data in blocks(location):
            file.write(data)
    unfinished.replace(path)


def copy_of(location: str) -> Path:
    """Where the copy is, or would be; its directories say what those of the file say."""
    return Path(copies().name, *location.replace("://", "/").split("/"))


@cache
def copies() -> "tempfile.TemporaryDirectory[str]":
    """The directory of all copies, which goes with the process."""
    return tempfile.TemporaryDirectory(prefix="kdissect-")
