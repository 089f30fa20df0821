"""Where questions find their tables: directories of ``kdissect dissect``, and datasets."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kdissect.analysis.stored_tables import Place, StoredFile, directory_place
from kdissect.capture.files import Source, listed
from kdissect.spark.manifest import MANIFEST, OWN
from kdissect.spark.reading import manifest_in, table_files
from kdissect.spark.storage import absolute, is_uri, joined, remember, seen
from kdissect.tables.schemas import TABLES

MARK: Final = "exchanges.parquet"  # what a directory of tables has


def stored_places(source: Source | Sequence[Source]) -> list[Place]:
    """The tables in what was given; none when some of it has none."""
    sources = listed(source)
    given = [os.fspath(one) for one in sources if isinstance(one, str | os.PathLike)]
    stored = [place for one in given if (place := place_at(one)) is not None]
    return stored if len(stored) == len(sources) else []


def place_at(given: str | os.PathLike[str]) -> Place | None:
    """The tables that are stored there, None where there are none.

    In a store there is a dataset, or KdissectError is raised.
    """
    location = remember(os.fspath(given))
    if is_uri(location):
        return dataset_place(location)
    if Path(location, MARK).is_file():
        return directory_place(Path(location))
    return dataset_place(location) if is_dataset(location) else None


def is_dataset(given: str | os.PathLike[str]) -> bool:
    """Whether there is a dataset."""
    return seen(joined(remember(os.fspath(given)), OWN, MANIFEST))[0] >= 0


def dataset_place(given: str | os.PathLike[str]) -> Place:
    """A dataset for questions; raises KdissectError where there is none."""
    directory = absolute(given)
    manifest = manifest_in(directory)
    sizes = {file.path: file.size for tap in manifest.taps for file in tap.files}
    files = {
        table: [
            StoredFile(joined(directory, file), sizes.get(file, 0))
            for file in table_files(manifest, table)
        ]
        for table in TABLES
        if table in manifest.options.get("tables", TABLES)
    }
    name = remember(os.fspath(given))
    return Place(name, files, manifest.next_tap, True, directory)


def balances_of(place: Place) -> list[dict[str, Any]]:
    """What became of the bytes of a dataset's taps."""
    return [tap.balance for tap in manifest_in(place.name).taps]
