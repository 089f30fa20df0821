"""A large capture as the files of a ring buffer, as tcpdump writes them."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

HEADER_SIZE, RECORD_SIZE = 24, 16
Offsets = np.ndarray[Any, np.dtype[np.int64]]


def make_ring(capture: Path, directory: Path, file_size: int) -> list[Path]:
    """The packets of a pcap of little-endian in files of about `file_size` bytes.

    A file ends with the packet that goes past its size.
    """
    directory.mkdir(parents=True, exist_ok=True)
    content = capture.read_bytes()
    header, records = content[:HEADER_SIZE], memoryview(content)[HEADER_SIZE:]
    offsets = record_offsets(records)
    written: list[Path] = []
    at = 0
    while at < len(records):
        place = int(np.searchsorted(offsets, at + file_size))
        end = int(offsets[place]) if place < len(offsets) else len(records)
        written.append(directory / f"ring.pcap{len(written):04}")
        with written[-1].open("wb") as file:
            file.write(header)
            file.write(records[at:end])
        at = end
    return written


def record_offsets(records: bytearray | memoryview) -> Offsets:
    """Offset of each packet record."""
    found = []
    at = 0
    lengths = struct.Struct("<8xI")
    while at < len(records):
        found.append(at)
        at += RECORD_SIZE + lengths.unpack_from(records, at)[0]
    return np.array(found, np.int64)
