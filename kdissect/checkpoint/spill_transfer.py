"""Record batches and a boundary state in a file that another process maps instead of copying."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from kdissect.errors import EncodingError

# Arrow reads batches in place that start at multiples of this.
ALIGNMENT: Final = 64
# Smaller ones are copied: rows of small tables wait long to be written, and a mapping takes address
# space of the whole file.
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
    """Contents of a file; the batches can be iterated over once."""

    batches: Iterator[tuple[str, pa.RecordBatch]]
    boundary: bytes


def read_file(path: Path, places: list[Written]) -> Contents:
    """Read a whole file, which is removed after its last batch."""
    found = [place for place in places if not place.table]
    boundary = part_of(path, found[0]).to_pybytes() if found else b""
    return Contents(batches_of(path, [place for place in places if place.table]), boundary)


def batches_of(path: Path, places: list[Written]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Record batches, each in a mapping of its own, so that none keeps the others in memory."""
    for place in places:
        part = part_of(path, place)
        if place.size < COPIED_BYTES:
            part = pa.py_buffer(part.to_pybytes())
        with pa.ipc.open_stream(part) as reader:
            yield place.table, reader.read_next_batch()
    path.unlink()


def part_of(path: Path, place: Written) -> pa.Buffer:
    """A part of a file, which is mapped until the part is released."""
    with pa.memory_map(str(path)) as content:
        content.seek(place.start)
        return content.read_buffer(place.size)


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
