"""Rows of rotations of live captures → files of a dataset."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from kdissect.dataset.days import date_in
from kdissect.dataset.entries import FileEntry, TapEntry, partition_name
from kdissect.dataset.packet_numbers import Numbers
from kdissect.dataset.rewriting import file_place
from kdissect.dataset.runs import Dataset
from kdissect.dataset.stored_columns import spark_batch, spark_schema
from kdissect.protocol.readers import NULL
from kdissect.system.confined import Below
from kdissect.tables.batches import TEXT_TYPE, arrow_schema, ints_of
from kdissect.tables.ids import FACTORS
from kdissect.tables.rotations import OPEN_CONNECTIONS
from kdissect.tables.schemas import TABLES
from kdissect.tables.stored_rows import as_declared, believed
from kdissect.tables.writers import ParquetFile

BATCH_ROWS: Final = 65_536
BLOCK: Final = 1 << 20


class Rotation(NamedTuple):
    """A rotation that is not in the dataset: its directory, and sizes of its files by table."""

    path: Path
    files: Mapping[str, int]
    modified_ns: int

    @property
    def run(self) -> str:
        """Name of its run."""
        return self.path.parent.name

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(self.files.values())


class Rows:
    """Files of a tap; a context manager, `entries` is set at its end."""

    def __init__(self, dataset: Dataset, tables: Sequence[str], tap: TapEntry) -> None:
        self.dataset = dataset
        self.tables = tables
        self.tap = tap
        self.count = 0
        self.entries: list[FileEntry] = []
        self._open = ExitStack()
        self._files: dict[str, ParquetFile] = {}
        self._last_open: dict[str, tuple[Rotation, Numbers]] = {}

    def __enter__(self) -> "Rows":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            for rotation, numbers_of in self._last_open.values():
                self._write(rotation, OPEN_CONNECTIONS, numbers_of)
        with self._open:
            for path, file in self._files.items():
                if kind is not None or not file.rows:
                    file.discard()
                    continue
                file.finish()
                file.publish()
                table, date = path.split("/")[:2]
                size = file.path.stat().st_size
                day = date.removeprefix("date=")
                is_open = path.endswith("-open.parquet")
                self.entries.append(FileEntry(path, table, day, file.rows, size, is_open))

    def add(self, rotation: Rotation, numbers_of: Numbers) -> None:
        """Add the final rows of a rotation."""
        for table in rotation.files:
            if table in self.tables:
                self._write(rotation, table, numbers_of)

    def set_open(self, rotation: Rotation, numbers_of: Numbers) -> None:
        """Set the rotation whose open connections count for its run."""
        if OPEN_CONNECTIONS in rotation.files and "connections" in self.tables:
            self._last_open[rotation.run] = rotation, numbers_of

    def _write(self, rotation: Rotation, name: str, numbers_of: Numbers) -> None:
        is_open = name == OPEN_CONNECTIONS
        table = "connections" if is_open else name
        file = self._file(table, rotation, is_open=is_open)
        schema = spark_schema(TABLES[table], text=TEXT_TYPE)
        for batch in batches_of(rotation, name, table):
            moved = numbers_of.moved(batch, rotation.run, self.tap.number)
            file.write(spark_batch(moved, schema))
            self.count += batch.num_rows

    def _file(self, table: str, rotation: Rotation, *, is_open: bool) -> ParquetFile:
        run = self.dataset.contents.run + 1
        part = f"{mark_of(rotation.run)}-open" if is_open else "live"
        name = (
            f"{table}/date={date_in(rotation.path.name)}/tap={partition_name(self.tap.name)}/"
            f"r{run:06}-{self.dataset.token}-t{self.tap.number}-{part}.parquet"
        )
        if name not in self._files:
            path = self._open.enter_context(file_place(self.dataset, name))
            schema = spark_schema(TABLES[table], text=TEXT_TYPE)
            # As private as its source.
            mode = (rotation.path / f"{next(iter(rotation.files))}.parquet").stat().st_mode & 0o666
            self._files[name] = ParquetFile(path, schema, mode=mode)
        return self._files[name]


def mark_of(run: str) -> str:
    """A run in the name of a file."""
    return hashlib.sha256(run.encode()).hexdigest()[:12]


def hash_of(rotation: Rotation) -> str:
    """sha256 of the files of a rotation, and of where it is in its run."""
    made = hashlib.sha256(f"{rotation.run}/{rotation.path.name}".encode())
    with Below(rotation.path) as below:
        for name in sorted(rotation.files):
            made.update(name.encode())
            with os.fdopen(below.open_file(f"{name}.parquet"), "rb") as content:
                while block := content.read(BLOCK):
                    made.update(block)
    return made.hexdigest()


def batches_of(rotation: Rotation, name: str, table: str) -> Iterator[pa.RecordBatch]:
    """Rows of a file of a rotation as kdissect declares them; DatasetError for other files."""
    path = rotation.path / f"{name}.parquet"
    schema = arrow_schema(TABLES[table])
    with (
        believed(str(path)),
        Below(rotation.path) as below,
        os.fdopen(below.open_file(path.name), "rb") as content,
        parquet.ParquetFile(content) as opened,
    ):
        for batch in opened.iter_batches(BATCH_ROWS):
            yield from as_declared(pa.Table.from_batches([batch]), schema).to_batches()


def highest(rotation: Rotation) -> int:
    """Highest number of a packet that ids of a rotation have, -1 for none."""
    found = -1
    for name in rotation.files:
        table = "connections" if name == OPEN_CONNECTIONS else name
        columns = [one.name for one in TABLES[table].columns if one.name in FACTORS]
        for batch in batches_of(rotation, name, table):
            for column in columns:
                ids = ints_of(batch[column])
                ids = ids[ids != NULL]
                if len(ids):
                    found = max(found, int(ids.max()) // FACTORS[column])
    return found
