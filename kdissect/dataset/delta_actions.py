"""Actions of Delta tables: files that commits add and remove, and the schemas of tables.

A file that is added has its number of rows, and the bounds of its ids and times, from its footer;
its partition, day and tap, is that of its path. Columns have their meanings and units as metadata.
"""

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet

from kdissect.dataset.entries import NO_DATE, table_place
from kdissect.dataset.storage import is_uri, joined, system_at
from kdissect.dataset.stored_columns import NS, spark_schema
from kdissect.errors import DatasetError
from kdissect.system.confined import Below
from kdissect.system.file_names import checked_name, shortened
from kdissect.tables.schemas import TIME, Table
from kdissect.tables.stored_rows import UNKNOWN_ROWS, believed
from kdissect.tables.writers import is_sought

if TYPE_CHECKING:
    from deltalake.schema import Field, Schema
    from deltalake.transaction import AddAction, RemoveAction

BOUNDED: Final = "delta.dataSkippingStatsColumns"
SINCE: Final = "since"  # in the metadata of a column that was added to a table
KEYS: Final = ("date", "tap")
PARTITIONS: Final = (
    pa.field("date", pa.date32(), metadata={"comment": "UTC day on which its capture begins"}),
    pa.field("tap", pa.string(), metadata={"comment": "tap that captured it"}),
)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Added:
    """A file that a commit adds; `path` is that below the dataset, `statistics` are JSON."""

    table: str
    path: str
    size: int
    modified_ms: int
    statistics: str


@dataclass(frozen=True)
class Removed:
    """A file that a commit removes."""

    table: str
    path: str


# Columns of a log, as deltalake names them, that `logged` needs.
LOGGED: Final = ("path", "size_bytes", "num_records", "partition.date", "partition.tap")


class Logged(NamedTuple):
    """A file of a version of a table: its path below the dataset, size in bytes, and row count."""

    path: str
    size: int
    rows: int


def logged(path: str, row: Mapping[str, Any]) -> Logged:
    """A file of a table, as a log has it; its partition is that of its path."""
    _, day, tap = table_place(path)
    of_day = row.get("partition.date")
    expected = NO_DATE if of_day is None else str(of_day)
    if (day, unquote(tap)) != (expected, row.get("partition.tap")):
        raise DatasetError(f"{shortened(path)} is no file of its partition")
    return logged_plainly(path, row)


def logged_plainly(path: str, row: Mapping[str, Any]) -> Logged:
    """A file as a log has it."""
    rows = row["num_records"]
    found = Logged(checked_name(path), row["size_bytes"], UNKNOWN_ROWS if rows is None else rows)
    if found.size < 0 or found.rows < UNKNOWN_ROWS:
        raise DatasetError(f"{shortened(path)}: a negative size, or number of rows")
    return found


def add_action(file: Added) -> "AddAction":
    """The action of the format that adds a file of a table."""
    from deltalake.transaction import AddAction

    _, day, tap = table_place(file.path)
    partition = {"date": None if day == NO_DATE else day, "tap": unquote(tap)}
    path = file.path.partition("/")[2]
    return AddAction(path, file.size, partition, file.modified_ms, True, file.statistics)


def remove_action(file: Removed) -> "RemoveAction":
    """The action of the format that removes a file of a table."""
    from deltalake.transaction import RemoveAction

    _, day, tap = table_place(file.path)
    partition = {"date": None if day == NO_DATE else day, "tap": unquote(tap)}
    path = file.path.partition("/")[2]
    return RemoveAction(path, True, int(time.time() * 1000), None, partition)


def added_file(location: str, path: str) -> Added:
    """A new file of a dataset, with the statistics of its footer."""
    with believed(joined(location, path)), opened_file(location, path) as (content, size):
        statistics = statistics_of(parquet.read_metadata(content))
    return Added(path.partition("/")[0], path, size, int(time.time() * 1000), statistics)


@contextmanager
def opened_file(location: str, path: str) -> Iterator[tuple[Any, int]]:
    """A file of a dataset, and its size in bytes."""
    if is_uri(location):
        system, name = system_at(joined(location, path))
        with system.open_input_file(name) as content:
            yield content, content.size()
        return
    with Below(location) as below, os.fdopen(below.open_file(path), "rb") as content:
        yield content, os.fstat(content.fileno()).st_size


def statistics_of(metadata: Any) -> str:
    """Number of rows, and bounds of ids and times, as the log has them: JSON.

    Columns without bounds in all row groups have none.
    """
    schema = metadata.schema.to_arrow_schema()
    made: dict[str, Any] = {"numRecords": metadata.num_rows}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for number, field in enumerate(schema):
        found = [group.column(number).statistics for group in groups]
        if not found or any(one is None or not one.has_min_max for one in found):
            continue
        value = moment if pa.types.is_timestamp(field.type) else int
        least[field.name] = value(min(one.min_raw for one in found))
        most[field.name] = value(max(one.max_raw for one in found))
        if all(one.has_null_count for one in found):
            nulls[field.name] = sum(one.null_count for one in found)
    return json.dumps({**made, "minValues": least, "maxValues": most, "nullCount": nulls})


def moment(microseconds: int) -> str:
    """A time in the log of a table.

    >>> moment(1_700_000_000_000_001)
    '2023-11-14T22:13:20.000001Z'
    """
    time_of = EPOCH + timedelta(microseconds=microseconds)
    return time_of.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def delta_schema(table: Table) -> "Schema":
    """Schema of a table of datasets; its columns have their meanings and units as metadata."""
    from deltalake.schema import Schema

    return Schema.from_arrow(pa.schema([*commented(table), *PARTITIONS]))


def settings_of(table: Table) -> dict[str, str]:
    """Properties of a table: which columns have bounds.

    Readers take the bounds of all others as null, and skip each file by them, where they are not
    told.
    """
    return {BOUNDED: ",".join(field.name for field in spark_schema(table) if is_sought(field))}


def new_fields(table: Table, there: Collection[str], run: int) -> "list[Field]":
    """Columns that a table's log does not have, with the number of the run that adds them."""
    from deltalake.schema import Schema

    added = [
        field.with_metadata({**field.metadata, SINCE: str(run)})
        for field in commented(table)
        if field.name not in there
    ]
    return list(Schema.from_arrow(pa.schema(added)).fields)


def commented(table: Table) -> Iterator[pa.Field]:
    """Columns of a table, with meanings and units."""
    columns = {column.name: column for column in table.columns}
    for field in spark_schema(table):
        column = columns.get(field.name) or columns[field.name.removesuffix(NS)]
        is_ns = field.name not in columns
        unit = "ns" if is_ns else "us" if column.type == TIME else column.unit
        comment = f"{column.meaning}; nanoseconds since 1970" if is_ns else column.meaning
        metadata = {"comment": comment} | ({"unit": unit} if unit else {})
        yield field.with_metadata(metadata)
