"""Lookup of stored tables: datasets, and output of ``kdissect dissect`` and ``live``."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.engines.ibis_tables import TAP_COLUMNS
from kdissect.analysis.engines.live_tables import live_places
from kdissect.analysis.engines.stored_tables import Place, StoredFile, directory_place
from kdissect.capture.files import Source, listed
from kdissect.dataset.entries import Contents, table_files
from kdissect.dataset.storage import absolute, is_uri, joined, remember, system_at
from kdissect.dataset.stored_columns import spark_schema
from kdissect.tables.schemas import TABLES
from kdissect.tables.stored_rows import UNKNOWN_ROWS

if TYPE_CHECKING:
    from pyarrow import dataset

MARK: Final = "exchanges.parquet"  # present in each directory of tables


def stored_places(source: Source | Sequence[Source]) -> list[Place]:
    """Stored tables of the given sources; empty if any source has none."""
    sources = listed(source)
    paths = [os.fspath(one) for one in sources if isinstance(one, str | os.PathLike)]
    stored = [places_at(path) for path in paths]
    if len(paths) < len(sources) or not all(stored):
        return []
    return [place for places in stored for place in places]


def places_at(path: str) -> list[Place]:
    """Stored tables at a path or URI: several if a live capture has several runs.

    Raises KdissectError as `place_at` does, and if a live capture has no output yet.
    """
    if not is_uri(path) and (places := live_places(Path(path))):
        return places
    place = place_at(path)
    return [] if place is None else [place]


def place_at(path: str) -> Place | None:
    """Stored tables at a path or URI, None if there are none.

    In a store only tables can be read, so KdissectError is raised there instead.
    """
    if is_uri(path):
        from kdissect.dataset.runs import contents_in

        return dataset_place(path, contents_in(path))
    if Path(path, MARK).is_file():
        return directory_place(Path(path))
    if not Path(path).is_dir():
        return None
    from kdissect.dataset.runs import read_contents  # which captures need not wait for

    contents = read_contents(path)
    return dataset_place(path, contents) if contents else None


def dataset_place(path: str, contents: Contents) -> Place:
    """A dataset as a source of queries."""
    location = absolute(path)
    known = {file.path: (file.size, file.rows) for tap in contents.taps for file in tap.files}
    files = {
        table: [
            StoredFile(joined(location, file), *known.get(file, (0, UNKNOWN_ROWS)))
            for file in table_files(contents, table)
        ]
        for table in TABLES
        if table in contents.options.get("tables", TABLES)
    }
    is_near = not is_uri(location)
    scan = None if is_near else partial(scan_of, location, contents)
    root = location if is_near else ""
    return Place(
        remember(path),
        files,
        contents.next_tap,
        True,
        location,
        scan,
        root=root,
        mixed=contents.mixed,
    )


def scan_of(location: str, contents: Contents, table: str) -> "dataset.Dataset":
    """Arrow scan of a dataset's table in a store; reads only the requested columns and rows."""
    import pyarrow as pa
    from pyarrow import dataset

    keys = pa.schema([(name, pa.string()) for name in TAP_COLUMNS])
    schema = spark_schema(TABLES[table])
    system, _ = system_at(location)
    return dataset.dataset(
        [system_at(joined(location, name))[1] for name in table_files(contents, table)],
        schema=pa.schema([*schema, *keys]),
        format="parquet",
        filesystem=system,
        partitioning=dataset.HivePartitioning(keys),
        partition_base_dir=system_at(joined(location, table))[1],
    )


def balances_of(place: Place) -> list[dict[str, Any]]:
    """Byte balances of a dataset's taps, or of a live capture."""
    if place.is_live:
        return [dict(one) for one in place.balances]
    from kdissect.dataset.runs import contents_in

    return [tap.balance for tap in contents_in(place.location).taps]
