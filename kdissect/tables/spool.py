"""Spools of rows, and files that are complete or absent.

A spool is a stream of Arrow (IPC, lz4) in pieces of whole messages each:

    spool = *piece
    piece = "kds1" crc32 (4 bytes) size (8 bytes) content

Sizes are little endian, the CRC covers the content. A piece is one write: a reader of a spool that
was truncated or damaged gets all batches of the pieces before that.
"""

import os
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa

from kdissect.errors import KdissectError
from kdissect.system.confined import PUBLIC, open_regular

HEADER: Final = struct.Struct("<4sIQ")
MAGIC: Final = b"kds1"


class Spool:
    """Collects record batches of one table; they are on disk when `write` has returned.

    The file is created with the first batch. If a write fails, the file stays as it was and the
    unwritten batches stay in memory: `write` may be called again. Also a context manager, which
    writes and closes.
    """

    def __init__(self, path: Path, mode: int = PUBLIC) -> None:
        self.path = path
        self.mode = mode
        self.size = 0  # bytes known to be on disk
        self.rows = 0
        self._waiting = Collected()
        self._sink = pa.PythonFile(self._waiting, mode="w")
        self._writer: Any = None
        self._file = -1

    @property
    def unwritten(self) -> int:
        """Bytes that `write` has not written yet."""
        return self._waiting.size

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch; all batches of a spool have the same schema."""
        if self._writer is None:
            options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
            self._writer = pa.ipc.new_stream(self._sink, batch.schema, options=options)
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def write(self, *, is_synced: bool = False) -> None:
        """Append the batches added since; with `is_synced` they survive a system crash. OSError."""
        if not self.unwritten:
            return
        if self._file < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self.path, flags, self.mode)
        piece = framed(b"".join(self._waiting.parts))
        try:
            write_all(self._file, piece)
            if is_synced:
                os.fdatasync(self._file)
        except OSError:
            self._back()
            raise
        self._waiting.clear()
        self.size += len(piece)

    def close(self) -> None:
        """Close without writing; unwritten batches are lost."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _back(self) -> None:
        """Remove a partly written piece; a reader skips its remains."""
        with suppress(OSError):
            os.ftruncate(self._file, self.size)
        os.lseek(self._file, self.size, os.SEEK_SET)

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.write()
        finally:
            self.close()


class Collected:
    """An in-memory file with the methods that Arrow's writer needs."""

    closed = False

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def write(self, content: Any) -> int:
        """Append bytes."""
        part = bytes(content)
        self.parts.append(part)
        self.size += len(part)
        return len(part)

    def clear(self) -> None:
        """Discard the content."""
        self.parts = []
        self.size = 0

    def flush(self) -> None:
        """No-op: everything is in memory already."""

    def close(self) -> None:
        """No-op: the owner keeps the content."""


class SpoolReader:
    """Iterate over it for the whole batches of a spool; afterwards `damage` describes the loss.

    `damage` is "" if nothing was lost. A missing file has no batches; DatasetError for a link, or
    any file that is not regular.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = ""
        self.lost_bytes = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            opened = open_regular(self.path)
        except FileNotFoundError:
            return
        with os.fdopen(opened, "rb") as file:
            pieces = Pieces(file)
            try:
                yield from self._batches(pieces)
            finally:
                if pieces.damage:
                    self._note(pieces.damage, pieces.at)

    def _batches(self, pieces: "Pieces") -> Iterator[pa.RecordBatch]:
        if not pieces.has_more():
            return
        options = pa.ipc.IpcReadOptions(use_threads=False)
        try:
            with pa.ipc.open_stream(pa.PythonFile(pieces, mode="r"), options=options) as reader:
                for batch in reader:
                    batch.validate(full=True)
                    yield batch
        except (pa.ArrowException, OSError) as error:
            # A checksum that matches by chance, or a piece of another spool.
            pieces.damage = f"is not what was written ({error})"

    def _note(self, what: str, at: int) -> None:
        self.lost_bytes = self.path.stat().st_size - at
        lost = f"rows in its last {self.lost_bytes} bytes, from byte {at}, are lost"
        self.damage = f"{self.path} {what}: {lost}"


def whole_spool(path: Path) -> Iterator[pa.RecordBatch]:
    """Read all batches of a spool; raise KdissectError after the last whole one if damaged."""
    reader = SpoolReader(path)
    yield from reader
    if reader.damage:
        raise KdissectError(reader.damage)


class Pieces:
    """The content of a spool's valid pieces as a file for Arrow; stops at the first invalid one."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.damage = ""
        self.at = 0  # start of the current piece
        self._content = b""
        self._read = 0

    def has_more(self) -> bool:
        """Return whether more bytes follow."""
        return self._read < len(self._content) or self._next()

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, fewer at the end."""
        found: list[bytes] = []
        while size and self.has_more():
            end = len(self._content) if size < 0 else self._read + size
            part = self._content[self._read : end]
            self._read += len(part)
            size -= len(part) if size > 0 else 0
            found.append(part)
        return b"".join(found)

    def close(self) -> None:
        """No-op: the opener closes the file."""

    def _next(self) -> bool:
        if self.damage:
            return False
        self.at = self.file.tell()
        header = self.file.read(HEADER.size)
        if not header:
            return False
        self._content, self._read = b"", 0
        if len(header) < HEADER.size:
            self.damage = "is cut short"
            return False
        magic, crc, size = HEADER.unpack(header)
        left = os.fstat(self.file.fileno()).st_size - self.file.tell()
        if magic != MAGIC:
            self.damage = "is damaged"
        elif size > left:
            self.damage = "is cut short"
        else:
            content = self.file.read(size)
            self.damage = "" if zlib.crc32(content) == crc else "is damaged"
            self._content = b"" if self.damage else content
        return bool(self._content)


def framed(content: bytes) -> bytes:
    """Build a piece."""
    return HEADER.pack(MAGIC, zlib.crc32(content), len(content)) + content


def spooled(batches: Iterable[pa.RecordBatch]) -> bytes:
    """Build a whole spool in memory."""
    made = Spool(Path())
    for batch in batches:
        made.add(batch)
    return framed(b"".join(made._waiting.parts)) if made.unwritten else b""


def write_all(file: int, content: bytes) -> None:
    """Write all bytes to an open file."""
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def write_whole(path: Path, content: bytes, *, is_synced: bool = False, mode: int = PUBLIC) -> None:
    """Write a file that is complete or absent; raise OSError and leave no part of it.

    Without `is_synced` that holds only while the machine runs.
    """
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            write_all(file, content)
            if is_synced:
                os.fsync(file)
        finally:
            os.close(file)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if is_synced:
        sync(path.parent)


def sync(path: Path) -> None:
    """Sync a file, or the names in a directory, to disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
