"""Record batches and a boundary state in a file, for another process, which maps it instead of
copying it.
"""

from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from kdissect.errors import EncodingError

# Arrow reads batches in place that start at multiples of this.
ALIGNMENT: Final = 64
# Smaller ones are copied: rows of which there are few wait long to be written, and as long as one
# of its batches is there, all of a file is.
COPIED_BYTES: Final = 1 << 20


# Before a boundary state that is packed: its size.
SIZE_BYTES: Final = 8
# Of bytes in a frame, so that a small file takes little memory; most boundary states shrink to a
# half.
LARGEST_RATIO: Final = 64


class Written(NamedTuple):
    """Where a table's batch is in the file, in bytes."""

    table: str
    start: int
    size: int


class BatchFile:
    """A file of record batches, written one after the other; `close` gives where they are."""

    def __init__(self, path: Path) -> None:
        self.sink = pa.OSFile(str(path), "wb")
        self.places: list[Written] = []

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Add a batch of a table."""
        self.sink.write(bytes(-self.sink.tell() % ALIGNMENT))
        start = self.sink.tell()
        with pa.ipc.new_stream(self.sink, batch.schema) as writer:
            writer.write_batch(batch)
        self.places.append(Written(table, start, self.sink.tell() - start))

    def write_boundary(self, content: bytes) -> None:
        """Add what is no batch; `Contents.boundary state`."""
        self.places.append(Written("", self.sink.tell(), len(content)))
        self.sink.write(content)

    def close(self) -> list[Written]:
        """Nothing more comes."""
        self.sink.close()
        return self.places


class Contents(NamedTuple):
    """What was in a file."""

    batches: list[tuple[str, pa.RecordBatch]]
    boundary: bytes


def read_file(path: Path, places: list[Written]) -> Contents:
    """All of a file, which is removed; the batches live in it until nobody needs them."""
    if not places:
        path.unlink()
        return Contents([], b"")
    with pa.memory_map(str(path)) as content:
        path.unlink()
        whole = content.read_buffer()
    batches = []
    boundary = b""
    for table, start, size in places:
        part = whole.slice(start, size)
        if not table:
            boundary = part.to_pybytes()
            continue
        if size < COPIED_BYTES:
            part = pa.py_buffer(part.to_pybytes())
        with pa.ipc.open_stream(part) as reader:
            batches.append((table, reader.read_next_batch()))
    return Contents(batches, boundary)


def packed(boundary: bytes) -> bytes:
    """A boundary state as bytes that wait in a file: much of it is payload that may not be
    compressed yet.

    A size, then a zstd frame; or the boundary state as it is, where the frame would be less than a
    LARGEST_RATIO-th of it.
    """
    content = bytes(pa.compress(boundary, "zstd"))
    if len(content) * LARGEST_RATIO < len(boundary):
        content = boundary
    return len(boundary).to_bytes(SIZE_BYTES, "little") + content


def unpacked(content: bytes) -> bytes:
    """The boundary state again; raises EncodingError for other bytes, LARGEST_RATIO times as long
    at most.
    """
    size = int.from_bytes(content[:SIZE_BYTES], "little")
    inside = content[SIZE_BYTES:]
    if size == len(inside) and size:
        return inside
    if not inside or size > len(inside) * LARGEST_RATIO:
        raise EncodingError(f"no boundary state: {size} bytes in {len(content)}")
    try:
        found = bytes(pa.decompress(inside, size, "zstd"))
    except (pa.ArrowException, OSError) as error:
        raise EncodingError(f"no boundary state: {error}") from error
    if len(found) != size:
        raise EncodingError(f"no boundary state: {len(found)} bytes in place of {size}")
    return found
