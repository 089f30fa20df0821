"""Parquet files of a table as DuckDB queries, with the declared columns."""

from collections.abc import Sequence
from typing import Final

from pyarrow.parquet import read_schema

from kdissect.analysis.engines.ibis_tables import tap_columns, times_of
from kdissect.analysis.engines.stored_tables import Place, numbered
from kdissect.sql.files import NOT_PARTITIONED, parquet_files
from kdissect.sql.times import with_zone
from kdissect.tables import schemas
from kdissect.tables.ids import id_offsets
from kdissect.tables.schemas import TABLES

DUCKDB_TYPES: Final = {
    schemas.TIME: "TIMESTAMPTZ",
    schemas.INT64: "BIGINT",
    schemas.INT32: "INTEGER",
    schemas.INT16: "SMALLINT",
    schemas.INT8: "TINYINT",
    schemas.BOOL: "BOOLEAN",
    schemas.TEXT: "VARCHAR",
    schemas.BINARY: "BLOB",
}
# As text, even if a tap's name looks like a number.
HIVE: Final = "hive_partitioning = true, hive_types = {'date': VARCHAR, 'tap': VARCHAR}"


def source_of(name: str, places: Sequence[Place]) -> str:
    """The query for all rows of a table in these places."""
    chosen = [
        query_of(name, place, tap) for place, tap in numbered(places) if place.paths(name)
    ]  # fmt: skip
    return " UNION ALL BY NAME ".join(chosen) or nothing(name)


def query_of(name: str, place: Place, tap: int) -> str:
    """The query for the rows of a place, its taps numbered from `tap`."""
    if place.scan is not None:
        return f"SELECT {of_dataset(name, tap)} FROM {scanned(name, tap)}"  # noqa: S608  # ours
    paths = place.paths(name)
    partitioning = HIVE if place.is_dataset else NOT_PARTITIONED
    if place.is_dataset:
        selected = of_dataset(name, tap, place.mixed.get(name))
        if name in place.mixed:
            partitioning += ", union_by_name = true"
    else:
        selected = of_directory(name, tap, has_both=has_both_times(name, paths))
    files = parquet_files(paths, partitioning)
    return f"SELECT {selected} FROM {files}"  # noqa: S608  # quoted


def scanned(name: str, tap: int) -> str:
    """Name of a table that Arrow scans for DuckDB."""
    return f"scanned_{name}_{tap}"


def has_both_times(name: str, paths: Sequence[str]) -> bool:
    """Return whether files have times in microseconds and in nanoseconds: ``--timestamps us``."""
    times = times_of(TABLES[name])
    try:
        columns = set(read_schema(paths[0]).names)
    except (OSError, ValueError, IndexError):
        return False  # DuckDB says what is wrong with the file
    return bool(times) and all(f"{time}_ns" in columns for time in times)


def of_directory(name: str, tap: int = 0, *, has_both: bool = False) -> str:
    """Select list for a file of ``kdissect dissect``; `has_both`: of its kinds of times."""
    times = [] if has_both else times_of(TABLES[name])
    changed = [with_zone(time) for time in times] + moved_ids(name, tap)
    added = [f'epoch_ns("{time}") AS "{time}_ns"' for time in times]
    added += [f'NULL::VARCHAR AS "{column}"' for column in tap_columns(name)]
    every = f"* REPLACE ({', '.join(changed)})" if changed else "*"
    return ", ".join([every, *added])


def of_dataset(name: str, tap: int = 0, there: Sequence[str] | None = None) -> str:
    """Select list for a dataset's files, which have both kinds of times.

    Columns that are not `there` are null; None: all are there.
    """
    moved = {text.rsplit(" AS ", 1)[1]: text for text in moved_ids(name, tap)}
    if there is not None:
        types = {column.name: DUCKDB_TYPES[column.type] for column in TABLES[name].columns}
        types |= {f"{time}_ns": "BIGINT" for time in times_of(TABLES[name])}
        moved |= {
            f'"{column}"': f'NULL::{type_} AS "{column}"'
            for column, type_ in types.items()
            if column not in there
        }
    columns = [f'"{column.name}"' for column in TABLES[name].columns]
    columns += [f'"{time}_ns"' for time in times_of(TABLES[name])]
    columns += [f'"{column}"' for column in tap_columns(name)]
    return ", ".join(moved.get(column, column) for column in columns)


def moved_ids(name: str, tap: int) -> list[str]:
    """The ids of a place offset behind those of others; the first place's ids are unchanged."""
    if not tap:
        return []
    there = {column.name for column in TABLES[name].columns}
    offsets = {id_: offset for id_, offset in id_offsets(tap).items() if id_ in there}
    return [f'"{id_}" + {offset} AS "{id_}"' for id_, offset in offsets.items()]


def nothing(name: str) -> str:
    """The query for an empty table."""
    columns = {column.name: DUCKDB_TYPES[column.type] for column in TABLES[name].columns}
    columns |= {f"{time}_ns": "BIGINT" for time in times_of(TABLES[name])}
    columns |= dict.fromkeys(tap_columns(name), "VARCHAR")
    columns_sql = ", ".join(f'NULL::{type_} AS "{column}"' for column, type_ in columns.items())
    return f"SELECT {columns_sql} WHERE false"  # declared
