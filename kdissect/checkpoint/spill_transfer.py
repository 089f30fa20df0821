"""Record batches and a boundary state in a file that another process maps instead of copying."""

from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from kdissect.errors import EncodingError

# Arrow reads batches in place that start at multiples of this.
ALIGNMENT: Final = 64
# Smaller ones are copied: the rows of small tables wait long to be written, and a mapped file stays
# as long as one of its batches is in use.
COPIED_BYTES: Final = 1 << 20


# Size before a packed boundary state.
SIZE_BYTES: Final = 8
# Of bytes in a frame, so that a small file takes little memory; most boundary states shrink to
# half.
LARGEST_RATIO: Final = 64


class Written(NamedTuple):
    """Position of a table's batch in the file, in bytes."""

    table: str
    start: int
    size: int


class BatchFile:
    """A file of record batches, written one after the other; `close` returns their positions."""

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
        """Add the boundary state, which is not a batch; see `Contents`."""
        self.places.append(Written("", self.sink.tell(), len(content)))
        self.sink.write(content)

    def close(self) -> list[Written]:
        """Close the file."""
        self.sink.close()
        return self.places


class Contents(NamedTuple):
    """Contents of a file."""

    batches: list[tuple[str, pa.RecordBatch]]
    boundary: bytes


def read_file(path: Path, places: list[Written]) -> Contents:
    """Read a whole file and remove it; the batches live in it until they are released."""
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
    """Compress a boundary state that waits in a file: much of it is payload that may not be
    compressed yet.

    A size, then a zstd frame; or the boundary state as it is, where the frame would be less than a
    LARGEST_RATIO-th of it.
    """
    content = bytes(pa.compress(boundary, "zstd"))
    if len(content) * LARGEST_RATIO < len(boundary):
        content = boundary
    return len(boundary).to_bytes(SIZE_BYTES, "little") + content


def unpacked(content: bytes) -> bytes:
    """Restore the boundary state, at most LARGEST_RATIO times as long; raise EncodingError for
    other bytes.
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
