"""Tables kept for possible later queries: in memory while small, else in files.

Columns of plans are read from streams of record batches, which cost little more than copying their
bytes. Tables of more rows than plans take become Parquet files, which are a tenth as large.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kdissect.errors import cannot_write
from kdissect.tables.unused_memory import trim

if TYPE_CHECKING:
    from kdissect.tables.writers import ParquetDirectory

# Bound on all tables in memory: 40 000 exchanges with their associated rows.
KEPT_BYTES: Final = 8_000_000
# The same for each Parquet file, where the rows of a row group wait.
GROUP_BYTES: Final = 4_000_000
# Rows of all tables in streams, about 150 bytes each.
STREAMED_ROWS: Final = 1_000_000
FROM_FILE: Final = 1 << 14  # rows of a batch that is read from a Parquet file


class KeptTables:
    """Collects record batches in memory, then in a directory, which is removed at the end.

    `columns` are the wanted columns of each table; other columns and tables are ignored.
    """

    def __init__(
        self, columns: Mapping[str, Sequence[str]], limit: int = KEPT_BYTES,
        streamed_rows: int = STREAMED_ROWS,
    ) -> None:  # fmt: skip
        self.columns = columns
        self.limit = limit
        self.streamed_rows = streamed_rows
        self.size = 0
        self.counts: Counter[str] = Counter()  # rows by table
        self.waiting: list[tuple[str, pa.RecordBatch]] = []
        self.made: Path | None = None
        self.streams: Streams | None = None
        self.output: ParquetDirectory | None = None
        self.is_closed = False

    def __enter__(self) -> "KeptTables":
        return self

    def __exit__(self, *_: object) -> None:
        if self.made is not None:
            shutil.rmtree(self.made, ignore_errors=True)

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return self.counts.total()

    @property
    def is_large(self) -> bool:
        """Return whether the tables are for an engine that reads Parquet."""
        return self.rows > self.streamed_rows

    def add(self, table: str, batch: pa.RecordBatch) -> None:
        """Keep a batch of the table."""
        if table not in self.columns:
            return
        batch = batch.select(list(self.columns[table]))
        self.counts[table] += batch.num_rows
        if self.output is not None:
            self.output.write(table, batch)
        elif self.is_large:
            self._parquet().write(table, batch)
        elif self.streams is not None:
            self.streams.write(table, batch)
        else:
            self._wait(table, batch)

    def batches(self, table: str, column: str) -> Iterator[pa.Array]:
        """A column of a table, a part at a time; no batch can be added afterwards."""
        if self.streams is not None:
            yield from self.streams.read(table, list(self.columns[table]).index(column))
        for name, batch in self.waiting:
            if name == table:
                yield batch.column(column)

    def rows_of(self, table: str, columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """All rows of a table, a batch at a time; no batch can be added afterwards.

        `columns` are those to read, in the order of the table; all by default.
        """
        names = [name for name in self.columns[table] if name in columns or not columns]
        if self.output is not None:
            from pyarrow.parquet import ParquetFile

            with ParquetFile(self.files() / f"{table}.parquet") as file:
                # Each thread would keep what it has freed.
                yield from file.iter_batches(FROM_FILE, columns=names, use_threads=False)
            trim()
        elif self.streams is not None:
            places = [list(self.columns[table]).index(name) for name in names]
            yield from self.streams.read_all(table, places)
        for name, batch in self.waiting:
            if name == table:
                yield batch

    def files(self) -> Path:
        """Return the directory, with a Parquet file for every table, and add no batch any more."""
        output = self._parquet()
        if not self.is_closed:
            output.__exit__(None, None, None)
            self.is_closed = True
        return output.directory

    def _wait(self, table: str, batch: pa.RecordBatch) -> None:
        self.waiting.append((table, batch))
        self.size += batch.nbytes
        if self.size > self.limit:
            self.streams = Streams(self._directory() / "streams")
            for name, one in self.waiting:
                self.streams.write(name, one)
            self.waiting = []

    def _directory(self) -> Path:
        if self.made is None:
            self.made = Path(tempfile.mkdtemp(prefix="kdissect-"))
        return self.made

    def _parquet(self) -> "ParquetDirectory":
        """The Parquet files, with all rows so far."""
        from kdissect.tables.batches import arrow_schema
        from kdissect.tables.schemas import TABLES
        from kdissect.tables.writers import ParquetDirectory

        if self.output is not None:
            return self.output
        schemas = {name: arrow_schema(TABLES[name], list(of)) for name, of in self.columns.items()}
        directory = self._directory() / "tables"
        self.output = ParquetDirectory(directory, schemas, group_size=GROUP_BYTES)
        if self.streams is not None:
            for table in self.streams.writers:
                for batch in self.streams.read_all(table):
                    self.output.write(table, batch)
            self.streams.remove()
            self.streams = None
        for table, batch in self.waiting:
            self.output.write(table, batch)
        self.waiting = []
        return self.output


class Streams:
    """A file of record batches for each table, each batch with its own dictionaries."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.writers: dict[str, tuple[pa.NativeFile, pa.RecordBatchStreamWriter]] = {}
        try:
            directory.mkdir()
        except OSError as error:
            raise cannot_write(directory, error) from error

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Add a batch to the file of a table."""
        try:
            if table not in self.writers:
                sink = pa.OSFile(str(self.directory / table), "wb")
                self.writers[table] = (sink, pa.ipc.new_stream(sink, batch.schema))
            self.writers[table][1].write_batch(batch)
        except OSError as error:
            raise cannot_write(self.directory, error) from error

    def read(self, table: str, place: int) -> Iterator[pa.Array]:
        """A column by its place."""
        options = pa.ipc.IpcReadOptions(included_fields=[place], use_threads=False)
        for batch in self._batches(table, options):
            yield batch.column(0)

    def read_all(self, table: str, places: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
        """All batches of a table, or the columns at these places.

        Read one at a time: a mapped file would count as memory.
        """
        fields = None if places is None else list(places)
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        return self._batches(table, options, pa.OSFile)

    def remove(self) -> None:
        """Delete the files."""
        for sink, _ in self.writers.values():
            sink.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _batches(
        self,
        table: str,
        options: pa.ipc.IpcReadOptions,
        opened: Callable[[str], pa.NativeFile] = pa.memory_map,
    ) -> Iterator[pa.RecordBatch]:
        if table not in self.writers:
            return
        sink, writer = self.writers[table]
        if not sink.closed:
            try:
                writer.close()
                sink.close()
            except OSError as error:
                raise cannot_write(self.directory, error) from error
        with opened(str(self.directory / table)) as source:
            yield from pa.ipc.open_stream(source, options=options)
