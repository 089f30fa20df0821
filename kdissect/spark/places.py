"""Where questions find their tables: directories of ``kdissect dissect``, and datasets."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kdissect.analysis.stored_tables import Place, StoredFile, directory_place
from kdissect.capture.files import Source, listed
from kdissect.spark.manifest import OWN
from kdissect.spark.reading import manifest_in, table_files
from kdissect.tables.schemas import TABLES

MARK: Final = "exchanges.parquet"  # what a directory of tables has


def stored_places(source: Source | Sequence[Source]) -> list[Place]:
    """The tables in what was given; none when some of it has none."""
    sources = listed(source)
    paths = [Path(one) for one in sources if isinstance(one, str | os.PathLike)]
    stored = [place for path in paths if (place := place_at(path)) is not None]
    return stored if len(stored) == len(sources) else []


def place_at(path: Path) -> Place | None:
    """The tables that are stored there, None where there are none."""
    if (path / MARK).is_file():
        return directory_place(path)
    return dataset_place(path) if is_dataset(path) else None


def is_dataset(path: Path) -> bool:
    """Whether there is a dataset."""
    return (path / OWN / "manifest.json").is_file()


def dataset_place(path: Path) -> Place:
    """A dataset for questions; raises KdissectError where there is none."""
    directory = path.absolute()
    manifest = manifest_in(directory)
    sizes = {file.path: file.size for tap in manifest.taps for file in tap.files}
    files = {
        table: [
            StoredFile(str(directory / file), sizes.get(file, 0))
            for file in table_files(manifest, table)
        ]
        for table in TABLES
        if table in manifest.options.get("tables", TABLES)
    }
    return Place(str(path), files, manifest.next_tap, True, str(directory))


def balances_of(place: Place) -> list[dict[str, Any]]:
    """What became of the bytes of a dataset's taps."""
    return [tap.balance for tap in manifest_in(Path(place.name)).taps]
