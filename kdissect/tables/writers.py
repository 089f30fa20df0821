"""Record batches → Parquet files that appear whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

import pyarrow as pa

from kdissect.errors import OutputError
from kdissect.tables.parquet_file import RowGroups

# Rows of one Parquet row group: 10 row groups a GB of small exchanges. What waits is packed
# already, but for long texts, which end a row group by their bytes.
ROW_GROUP_ROWS: Final = 262_144
ROW_GROUP_BYTES: Final = 64 << 20


class ParquetFile:
    """Writes one Parquet file under a temporary name beside it: `finish` it, then `publish` it.

    Raises OutputError when the file exists (unless `force`), or the disk is full or not writable.
    """

    def __init__(self, path: Path, schema: pa.Schema, force: bool = False) -> None:
        if path.exists() and not force:
            raise OutputError(f"{path} exists already; --force overwrites it")
        if path.is_dir():
            raise OutputError(f"{path} is a directory")
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self.rows = 0
        try:
            self.file = self.temporary.open("wb", buffering=0)
        except OSError as error:
            raise OutputError(
                f"cannot write {self.temporary}: {error.strerror or error}"
            ) from error
        try:
            self.groups = RowGroups(self._put, schema)
        except OSError as error:
            self.discard()
            raise self._failed(error) from error

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch; it is on disk when a row group is full or the file is closed."""
        self.rows += batch.num_rows
        groups = self.groups
        while batch.num_rows:
            room = ROW_GROUP_ROWS - groups.rows
            groups.write(batch.slice(0, room))
            batch = batch.slice(room)
            if groups.rows >= ROW_GROUP_ROWS or groups.size >= ROW_GROUP_BYTES:
                try:
                    groups.end_group()
                except OSError as error:
                    raise self._failed(error) from error

    def finish(self) -> None:
        """Write what is left: afterwards nothing but the name is missing."""
        try:
            self.groups.end()
            self.file.close()
        except OSError as error:
            raise self._failed(error) from error

    def publish(self) -> None:
        """Give the finished file its name."""
        try:
            self.temporary.replace(self.path)
        except OSError as error:
            raise self._failed(error) from error

    def discard(self) -> None:
        """Drop what was written so far; the destination stays as it was."""
        self.file.close()
        self.temporary.unlink(missing_ok=True)

    def _put(self, content: bytes) -> None:
        """Write all of it: a file may take less at once."""
        left = memoryview(content)
        while left:
            left = left[self.file.write(left) :]

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write {self.path}: {error.strerror or error}")


class ParquetDirectory:
    """One Parquet file per table in a directory; all appear together at the end, or none.

    As a context manager: an exception inside leaves the directory as it was.
    """

    def __init__(self, directory: Path, schemas: dict[str, pa.Schema], force: bool = False) -> None:
        self.directory = directory
        self.is_new = not directory.exists()
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot make {directory}: {error.strerror or error}") from error
        self.files: dict[str, ParquetFile] = {}
        try:
            for name, schema in schemas.items():
                self.files[name] = ParquetFile(directory / f"{name}.parquet", schema, force)
        except OutputError:
            self._discard()
            raise

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Add a batch to the file of `table`."""
        self.files[table].write(batch)

    def __enter__(self) -> "ParquetDirectory":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
