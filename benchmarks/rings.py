"""Rotated captures of any size out of one: its packets again and again, each time later."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

HEADER_SIZE, RECORD_SIZE = 24, 16
PAUSE_S = 60
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Offsets = np.ndarray[Any, np.dtype[np.int64]]


def make_ring(capture: Path, directory: Path, copies: int, file_size: int) -> list[Path]:
    """The files of a ring buffer of about `file_size` bytes, out of a pcap of little-endian."""
    directory.mkdir(parents=True, exist_ok=True)
    content = capture.read_bytes()
    header, records = content[:HEADER_SIZE], bytearray(content[HEADER_SIZE:])
    offsets = record_offsets(records)
    seconds = times(np.frombuffer(records, np.uint8), offsets)
    span = int(seconds.max() - seconds.min()) + PAUSE_S
    written: list[Path] = []
    left = 0
    for number in range(copies):
        if number:
            shift(np.frombuffer(records, np.uint8), offsets, span)
        at = 0
        while at < len(records):
            if not left:
                written.append(directory / f"ring.pcap{len(written):04}")
                written[-1].write_bytes(header)
                left = file_size
            end = int(offsets[min(np.searchsorted(offsets, at + left), len(offsets) - 1)])
            if at + left >= len(records) or end <= at:
                end = len(records)
            with written[-1].open("ab") as file:
                file.write(memoryview(records)[at:end])
            left = 0 if end < len(records) else max(0, left - (end - at))
            at = end
    return written


def record_offsets(records: bytearray) -> Offsets:
    """Offset of the first packet record."""
    found = []
    at = 0
    lengths = struct.Struct("<8xI")
    while at < len(records):
        found.append(at)
        at += RECORD_SIZE + lengths.unpack_from(records, at)[0]
    return np.array(found, np.int64)


def times(records: Bytes, offsets: Offsets) -> Any:
    """The seconds of each record."""
    return records[offsets[:, None] + np.arange(4)].view("<u4")[:, 0]


def shift(records: Bytes, offsets: Offsets, seconds: int) -> None:
    """Let all packets be so much later."""
    places = offsets[:, None] + np.arange(4)
    later = (times(records, offsets) + np.uint32(seconds)).astype("<u4")
    records[places] = later[:, None].view(np.uint8)
