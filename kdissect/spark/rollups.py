"""Rollups of a dataset: small files from which queries of long ranges are answered.

    DATASET/_kdissect/rollups/1/client_id/date=2026-11-22/tap=broker-1/r000001-t0-000000.parquet

Each belongs to one Parquet file of the dataset, and has its name. Those files are immutable, so a
rollup is valid as long as the dataset has its file; missing rollups are computed on demand, and
`roll_up` writes missing ones and removes obsolete ones.
"""

import io
import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.analysis.engines.stored_tables import check_files
from kdissect.dataset.entries import OWN, Contents
from kdissect.dataset.rollup_rows import (
    CLIENT,
    LEVELS,
    rolled_clients,
    rolled_topics,
    rollup_schema,
    sketches,
)
from kdissect.dataset.runs import read_contents
from kdissect.dataset.storage import (
    absolute,
    files_in,
    is_uri,
    joined,
    reached_by,
    read_below,
    remember,
    remove,
    write_bytes,
)
from kdissect.dataset.storage_captures import local_copy
from kdissect.errors import DatasetError, KdissectError
from kdissect.spark.task_runners import here, on_spark
from kdissect.sql.failures import engine_failures, reason_of
from kdissect.system.confined import Below
from kdissect.system.file_names import is_name
from kdissect.tables.stored_rows import as_declared, believed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

VERSION: Final = "1"  # of the columns, the bucket width and the sketch size
# A row takes 20 kB at most, and a file has one per ten minutes, API, and client or topic.
ROLLUP_BYTES: Final = 1 << 30
TABLE_OF: Final = dict(zip(LEVELS, ("exchanges", "partitions"), strict=True))


class Unit(NamedTuple):
    """A Parquet file that has a rollup: its path in the dataset, and its exchanges.

    `exchanges` are other files with the exchanges, if the file itself does not contain them.
    """

    level: str
    path: str
    date: str
    tap: str
    exchanges: tuple[str, ...] = ()

    @property
    def rollup(self) -> str:
        """Path of its rollup in the dataset."""
        _, _, place = self.path.partition("/")
        return "/".join([OWN, "rollups", VERSION, self.level, place])


class RolledUp(NamedTuple):
    """Result of `roll_up`: number of rollups made and removed, and total size of all."""

    made: int
    removed: int
    files: int
    size: int


def roll_up(dataset: str | os.PathLike[str], session: "SparkSession | None" = None) -> RolledUp:
    """Make missing rollups of a dataset, in the tasks of a session or in this process.

    Safe at any time, also while others write to the dataset. Raises KdissectError if the dataset
    does not exist, or has no exchanges.
    """
    sketches()
    location = absolute(dataset)
    units = units_of(contents_at(location))
    there = rollups_in(location)
    missing = [unit for unit in units if unit.rollup not in there]
    runner = here if session is None else on_spark(session)
    runner(partial(write_rollup, location, reached_by([location])), missing)
    useless = there.keys() - {unit.rollup for unit in units}
    for path in useless:
        remove_file(location, path)
    now = rollups_in(location)
    return RolledUp(len(missing), len(useless), len(now), sum(now.values()))


def contents_at(location: str) -> Contents:
    """The contents; raises KdissectError if rollups are not possible."""
    contents = read_contents(location)
    if contents is None:
        raise KdissectError(f"{location} is no dataset: rollups are of datasets")
    if "exchanges" not in contents.options.get("tables", TABLE_OF.values()):
        raise KdissectError(f"{location} has no table exchanges: there is nothing to roll up")
    return contents


def units_of(contents: Contents, levels: Sequence[str] = LEVELS) -> list[Unit]:
    """Files of a dataset that have rollups of these levels."""
    units = []
    for tap in contents.taps:
        exchanges = defaultdict(list)
        for file in tap.files:
            if file.table == "exchanges":
                exchanges[file.date].append(file.path)
        for level in levels:
            for file in tap.files:
                if file.table == TABLE_OF[level]:
                    of = () if level == CLIENT else tuple(exchanges[file.date])
                    units.append(Unit(level, file.path, file.date, tap.name, of))
    return units


def rollups_in(location: str) -> dict[str, int]:
    """Sizes of the existing rollups, by path in the dataset."""
    directory = joined(location, OWN, "rollups")
    if is_uri(location):
        found = files_in(directory, recursive=True)
        return {file.location.removeprefix(f"{location}/"): file.size for file in found}
    with Below(location) as below:
        there = below.files(f"{OWN}/rollups")
    return {
        name: size
        for name, size in sorted(there.items())
        if name.endswith(".parquet") and is_name(name)
    }


def write_rollup(location: str, stores: Sequence[str], unit: Unit) -> int:
    """Write the rollup of a file; returns its number of rows."""
    from pyarrow import parquet

    table = rolled_up_there(location, stores, unit)
    content = io.BytesIO()
    parquet.write_table(table, content, compression="zstd")
    save(location, unit.rollup, content.getvalue())
    return table.num_rows


def rolled_up_there(location: str, stores: Sequence[str], unit: Unit) -> "pa.Table":
    """Rollup of a file, computed in another process; `stores` are the settings of stores."""
    for one in stores:
        remember(one)
    return rolled_up(location, unit)


def rolled_up(location: str, unit: Unit) -> "pa.Table":
    """Compute the rollup of a file."""
    sketches()
    names = [unit.path, *unit.exchanges]
    if not is_uri(location):
        check_files(location, [joined(location, name) for name in names])
    with ExitStack() as stack:
        paths = [stack.enter_context(local_copy(joined(location, name))) for name in names]
        try:
            return (
                rolled_clients(*paths)
                if unit.level == CLIENT
                else rolled_topics(paths[0], paths[1:])
            )
        except engine_failures() as error:
            raise DatasetError(f"{joined(location, unit.path)}: {reason_of(error)}") from error


def read_rollup(location: str, unit: Unit) -> "pa.Table | None":
    """Read a stored rollup, None if it does not exist."""
    from pyarrow import parquet

    with believed(joined(location, unit.rollup)):
        content = read_below(location, unit.rollup, ROLLUP_BYTES)
        if content is None:
            return None
        rows = parquet.read_table(io.BytesIO(content))
        return as_declared(rows, rollup_schema(unit.level))


def save(location: str, name: str, content: bytes) -> None:
    """Write a file of a dataset atomically."""
    if is_uri(location):
        write_bytes(joined(location, name), content)
        return
    with Below(location) as below:
        below.write(name, content)


def remove_file(location: str, name: str) -> None:
    """Remove a file of a dataset."""
    if is_uri(location):
        remove(joined(location, name))
        return
    with Below(location) as below:
        below.remove(name)
