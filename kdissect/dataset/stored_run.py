"""Rows of datasets and live captures, as a pass over their captures would return them."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from kdissect.analysis.engines.live_tables import noticing
from kdissect.analysis.engines.stored_tables import Place, StoredFile, numbered
from kdissect.dataset.locations import balances_of
from kdissect.dataset.storage import system_at
from kdissect.dataset.stored_columns import NS, of_tap
from kdissect.pipeline import Balance, Options
from kdissect.system.confined import Below
from kdissect.tables.balances import COUNTS, NUMBERS
from kdissect.tables.batches import arrow_schema
from kdissect.tables.schemas import TABLES, TIME, Table
from kdissect.tables.stored_rows import believed, check_rows


class StoredRun:
    """Iterate over it for ``(table name, record batch)``, like a `Run`, one table after another.

    Of `options` only the tables, rows per batch and the progress callback are used; raises
    KdissectError for tables that the dataset was created without.
    """

    def __init__(self, places: Sequence[Place], options: Options) -> None:
        self.places = list(numbered(places))
        self.options = options
        self.total = sum(
            file.size
            for place in places
            for table in options.tables
            for file in place.files.get(table, ())
        )
        made = [one for place in places for one in balances_of(place)]
        self.balance = Balance(**added(made))

    def __iter__(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        done = 0
        for name in self.options.tables:
            schema = arrow_schema(TABLES[name])
            for place, tap in self.places:
                for path, file in zip(place.paths(name), place.files[name], strict=True):
                    with noticing([place]), believed(path):
                        for batch in batches_of(place, file, TABLES[name], self.options.batch_rows):
                            yield name, of_tap(as_made(batch, schema), tap)
                    done += file.size
                    if self.options.progress is not None:
                        self.options.progress(done, self.total)


def batches_of(
    place: Place, stored: StoredFile, table: Table, rows: int
) -> Iterator[pa.RecordBatch]:
    """Rows of a file, with nanosecond times; raises DatasetError if columns are missing."""
    # Datasets store times in microseconds, and nanoseconds in separate columns.
    is_apart = place.is_dataset
    names = [column.name + NS * (column.type == TIME and is_apart) for column in table.columns]
    with ExitStack() as stack:
        if place.root:
            opened = stack.enter_context(Below(place.root)).open_file(name_in(place, stored))
            source: Any = stack.enter_context(os.fdopen(opened, "rb"))
        else:
            system, name = system_at(stored.path)
            source = stack.enter_context(system.open_input_file(name))
        file = stack.enter_context(parquet.ParquetFile(source))
        check_rows(file, stored.rows, stored.path)
        yield from file.iter_batches(rows, columns=names)


def name_in(place: Place, stored: StoredFile) -> str:
    """Name of a file relative to the directory of its place."""
    return str(Path(stored.path).relative_to(place.root))


def as_made(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a dataset with the columns and types of the library."""
    there = set(batch.schema.names)
    arrays = []
    for field in schema:
        name = next((one for one in (field.name, field.name + NS) if one in there), "")
        # A column is null in files from before it was declared.
        values = batch[name] if name else pa.nulls(batch.num_rows)
        arrays.append(values.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def added(balances: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum of the byte balances of all taps."""
    sums: dict[str, Any] = dict.fromkeys(NUMBERS, 0) | {name: {} for name in COUNTS}
    for balance in balances:
        for name, value in balance.items():
            if isinstance(value, Mapping):
                for key, count in value.items():
                    sums[name][key] = sums[name].get(key, 0) + count
            else:
                sums[name] += value
    return sums
