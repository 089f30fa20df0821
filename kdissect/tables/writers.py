"""Record batches → Parquet files that are complete or absent."""

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from kdissect.errors import OutputError, OutputExists, cannot_write
from kdissect.system.confined import NEW_FILE, PUBLIC
from kdissect.tables.spool import sync

# Rows of one Parquet row group: about 50 MB of exchanges in memory, and 10 row groups a GB.
ROW_GROUP_ROWS: Final = 262_144
# Bytes of one, for rows with long texts: three copies of them exist while it is written.
ROW_GROUP_SIZE: Final = 64 << 20
# Bytes of the row groups that fill at the same time: of all tables in a directory.
DIRECTORY_SIZE: Final = 64 << 20
# Ids, times and offsets grow from row to row: half the size and half the time of dictionaries.
DELTA: Final = "DELTA_BINARY_PACKED"
# Differences compress little: zstd makes files 4 % smaller and takes a fifth longer.
COMPRESSION: Final = "snappy"
# Integers with statistics, by which readers skip row groups; minimum and maximum of all others
# would take a fifth of the time of writing. Times have them too.
SOUGHT: Final = frozenset(("connection_id", "exchange_id", "base_offset", "offset"))


class ParquetFile:
    """Writes one Parquet file under a temporary name beside it: `finish` it, then `publish` it.

    A row group takes about `group_size` bytes in memory at most; `mode` are the file's permissions,
    and with `is_synced` a finished file survives a system crash. Raises OutputError if the file
    exists (unless `force`), or the disk is full or not writable.
    """

    def __init__(
        self,
        path: Path,
        schema: pa.Schema,
        force: bool = False,
        *,
        group_size: int = ROW_GROUP_SIZE,
        mode: int = PUBLIC,
        is_synced: bool = False,
    ) -> None:
        if path.exists() and not force:
            raise OutputExists(f"{path} exists already; --force overwrites it")
        if path.is_dir():
            raise OutputError(f"{path} is a directory")
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        self.schema = schema
        self.group_size = group_size
        self.is_synced = is_synced
        self.waiting: list[pa.RecordBatch] = []
        self.waiting_rows = 0
        self.waiting_size = 0
        self.rows = 0
        try:
            # Created here, so that no link is followed, and opened by the name as it was given: who
            # gave up privileges may not reach an absolute one.
            os.close(os.open(self.temporary, NEW_FILE, mode))
            self.sink = pa.OSFile(str(self.temporary), "wb")
            self.writer = ParquetWriter(
                self.sink,
                schema,
                version="2.6",
                compression=COMPRESSION,
                use_dictionary=[field.name for field in schema if is_text(field)],
                column_encoding={field.name: DELTA for field in schema if is_integer(field)},
                write_statistics=[field.name for field in schema if is_sought(field)],
            )
        except OSError as error:
            raise cannot_write(self.temporary, error) from error

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch; it is on disk when a row group is full or the file is closed."""
        self.waiting.append(batch)
        self.waiting_rows += batch.num_rows
        self.waiting_size += batch.nbytes
        self.rows += batch.num_rows
        if self.waiting_size >= self.group_size or self.waiting_rows >= ROW_GROUP_ROWS:
            self.flush()

    def finish(self) -> None:
        """Write the remaining rows: afterwards only the final name is missing."""
        try:
            self.flush()
            self.writer.close()
            self.sink.close()
            if self.is_synced:
                sync(self.temporary)
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def publish(self) -> None:
        """Rename the finished file to its final name."""
        try:
            self.temporary.replace(self.path)
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def discard(self) -> None:
        """Delete the temporary file; the destination stays as it was."""
        self.writer.is_open = False
        # An open file keeps its disk space.
        with suppress(OSError):
            self.sink.close()
        self.temporary.unlink(missing_ok=True)

    def flush(self) -> None:
        """Write the waiting rows as a row group."""
        if not self.waiting:
            return
        table = pa.Table.from_batches(self.waiting, self.schema).unify_dictionaries()
        self.waiting, self.waiting_rows, self.waiting_size = [], 0, 0
        try:
            self.writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        except OSError as error:
            raise cannot_write(self.path, error) from error


def is_text(field: pa.Field) -> bool:
    """Return whether a column holds texts, which are dictionaries in memory already."""
    return bool(pa.types.is_dictionary(field.type))


def is_integer(field: pa.Field) -> bool:
    """Return whether a column can be delta encoded: Parquet has integers of 32 and 64 bits."""
    return bool(pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type))


def is_sought(field: pa.Field) -> bool:
    """Return whether row group statistics of a column are worthwhile."""
    return bool(field.name in SOUGHT or pa.types.is_timestamp(field.type))


class ParquetDirectory:
    """One Parquet file per table in a directory; all are published together at the end, or none.

    As a context manager: an exception inside leaves the directory as it was.
    """

    def __init__(
        self,
        directory: Path,
        schemas: dict[str, pa.Schema],
        force: bool = False,
        mode: int = PUBLIC,
        group_size: int = ROW_GROUP_SIZE,
    ) -> None:
        self.directory = directory
        self.is_new = not directory.exists()
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot make {directory}: {error.strerror or error}") from error
        self.files: dict[str, ParquetFile] = {}
        try:
            for name, schema in schemas.items():
                path = directory / f"{name}.parquet"
                self.files[name] = ParquetFile(
                    path, schema, force, mode=mode, group_size=group_size
                )
        except OutputError:
            self._discard()
            raise

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Add a batch to the file of `table`."""
        self.files[table].write(batch)
        if sum(file.waiting_size for file in self.files.values()) > DIRECTORY_SIZE:
            max(self.files.values(), key=lambda file: file.waiting_size).flush()

    def __enter__(self) -> "ParquetDirectory":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            for file in self.files.values():
                file.finish()
            for file in self.files.values():
                file.publish()
        except OutputError:
            self._discard()
            raise

    def _discard(self) -> None:
        for file in self.files.values():
            file.discard()
        if self.is_new:
            with suppress(OSError):
                self.directory.rmdir()
