"""Rows of a tap → Parquet files, one per table and day."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kdissect.dataset.entries import NO_DATE, FileEntry, partition_name
from kdissect.dataset.planning import Work
from kdissect.dataset.stored_columns import of_tap, spark_batch, spark_schema
from kdissect.protocol.readers import NULL
from kdissect.system.confined import PUBLIC
from kdissect.tables.batches import TEXT_TYPE, ints_of, numbers
from kdissect.tables.schemas import TABLES
from kdissect.tables.writers import ParquetFile


class Output:
    """Files called `name` in a tap's partitions; a context manager, `entries` is set at its end.

    A row belongs to the day on which the capture with its first packet begins, so all rows of an
    exchange have the same day.
    """

    def __init__(
        self,
        directory: str,
        work: Work,
        name: str,
        is_open: bool = False,
        is_nameless: bool = False,
        mode: int = PUBLIC,
    ) -> None:
        self.mode = mode
        self.directory = Path(directory)
        self.work = work
        self.name = name
        self.flags = (is_open, is_nameless)
        self.dates = dict(zip(work.paths, work.dates, strict=True))
        self.schemas = {name: spark_schema(table, text=TEXT_TYPE) for name, table in TABLES.items()}
        self.files: dict[tuple[str, str], ParquetFile] = {}
        self.entries: list[FileEntry] = []

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for file in self.files.values():
                file.discard()
            return
        for (table, date), file in self.files.items():
            file.finish()
            file.publish()
            size = file.path.stat().st_size
            path = str(file.path.relative_to(self.directory))
            self.entries.append(FileEntry(path, table, date, file.rows, size, *self.flags))

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Add rows with the schema of kdissect."""
        if not batch.num_rows:
            return
        made = spark_batch(of_tap(batch, self.work.tap.number), self.schemas[table])
        for date, part in self._by_date(batch["capture"], made):
            self.write_made(table, date, part)

    def write_made(self, table: str, date: str, batch: pa.RecordBatch) -> None:
        """Add rows with the schema of the dataset."""
        if batch.num_rows:
            self._file(table, date).write(batch)

    def _by_date(self, captures: Any, batch: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
        texts = captures.dictionary.to_pylist()
        dates = [*(self.dates.get(text, NO_DATE) for text in texts), NO_DATE]
        places = ints_of(captures.indices)
        places = np.where(places == NULL, len(texts), places)
        present = {dates[place] for place in np.unique(places).tolist()}
        if len(present) == 1:
            return [(present.pop(), batch)]
        parts = []
        for date in sorted(present):
            chosen = np.array([one == date for one in dates])[places]
            parts.append((date, batch.take(numbers(np.flatnonzero(chosen), pa.int64()))))
        return parts

    def _file(self, table: str, date: str) -> ParquetFile:
        file = self.files.get((table, date))
        if file is None:
            partition = Path(f"date={date}", f"tap={partition_name(self.work.tap.name)}")
            directory = self.directory / table / partition
            directory.mkdir(parents=True, exist_ok=True)
            path = directory / self.name
            file = ParquetFile(path, self.schemas[table], force=True, mode=self.mode)
            self.files[table, date] = file
        return file
