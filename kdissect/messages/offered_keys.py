"""The API keys above Apache's that an ApiVersions response offers, found without decoding it.

    v0 to v2   int16 error, int32 count, entries of int16 key, int16 min, int16 max, ...
    v3 on      int16 error, varint count + 1, entries of the same and a tag section each, ...

Every connection begins with one, of 60 entries and more, so the entries are processed one column of
bytes at a time.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.errors import DecodeError
from kdissect.protocol.primitives import read_int32, read_unsigned_varint

FLEXIBLE: Final = 3  # the first flexible version
ERROR_SIZE: Final = 2


def keys_above(data: bytes, offset: i64, version: i64) -> list[int] | None:
    """Offered keys of 256 and more, in a body from `offset` on in the layout of `version`.

    None if unknown: the body ends too soon, or its entries have tags.
    """
    try:
        width: i64 = 7
        if version < FLEXIBLE:
            count, start = read_int32(data, offset + ERROR_SIZE)
            width = 6
        else:
            count, start = read_unsigned_varint(data, offset + ERROR_SIZE)
            count -= 1
    except DecodeError:
        return None
    end = start + count * width
    if count < 0 or end > len(data):
        return None
    # Bytes are counted in C; `any` makes an integer of each.
    if width == 7 and data[start + 6 : end : width].count(0) < count:
        return None
    high = data[start:end:width]
    if high.count(0) == count:
        return []
    low = data[start + 1 : end : width]
    return [one << 8 | other for one, other in zip(high, low, strict=True) if 0 < one < 0x80]
