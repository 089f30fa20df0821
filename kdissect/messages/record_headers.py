"""Sizes and headers inside a magic-2 record: positions past them, checked."""

from typing import Final

from mypy_extensions import i64

from kdissect.errors import CorruptRecords
from kdissect.messages.varints import read_varint

HEADER_MIN: Final = 2  # two sizes of one byte


def check_size(payload: bytes, start: i64, end: i64, size: i64) -> i64:
    """Bytes that a key or value of `size` takes: 0 for null."""
    if size < -1 or size > end - start:
        raise CorruptRecords(f"{size} bytes, {end - start} left", offset=start, data=payload)
    return max(size, 0)


def skip_headers(payload: bytes, start: i64, end: i64, count: i64) -> i64:
    """Position after `count` headers."""
    if count < 0 or count * HEADER_MIN > end - start:
        raise CorruptRecords(f"{count} headers in {end - start} bytes", offset=start, data=payload)
    position = start
    for _ in range(count):
        name_size, position = read_varint(payload, position, end)
        if name_size < 0:
            raise CorruptRecords("header without a name", offset=position, data=payload)
        position += check_size(payload, position, end, name_size)
        value_size, position = read_varint(payload, position, end)
        position += check_size(payload, position, end, value_size)
    return position
