"""Zig-zag varints as magic-2 records use them: base 128, least significant group first.

    varint   32 bits, 1-5 bytes          varlong  64 bits, 1-10 bytes

Both builds return the same values: nothing here wraps unintentionally.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.errors import CorruptRecords

INT32_MIN: Final = -0x8000_0000
INT32_MAX: Final = 0x7FFF_FFFF
INT63_MASK: Final = 0x7FFF_FFFF_FFFF_FFFF
VARINT_SIZE: Final = 5  # 32 bits, 7 a byte
LAST_SHIFT: Final = 63  # the tenth byte of a varlong holds bit 63 and nothing else


def read_varint(data: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    r"""The 32-bit value at `position` and the position after it; CorruptRecords at `end`.

    >>> read_varint(b"\x01", 0, 1)
    (-1, 1)
    """
    if position < end:
        byte: i64 = data[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
    value, after = read_varlong(data, position, end)
    if after - position > VARINT_SIZE or value > INT32_MAX or value < INT32_MIN:
        raise CorruptRecords(
            "varint does not fit 32 bits", offset=position, data=data, length=after - position
        )
    return value, after


def read_varlong(data: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    r"""The 64-bit value at `position` and the position after it; CorruptRecords at `end`.

    >>> read_varlong(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 0, 10)
    (-9223372036854775808, 10)
    """
    value: i64 = 0
    shift: i64 = 0
    at = position
    while at < end:
        byte: i64 = data[at]
        at += 1
        # 9 groups of 7 bits reach bit 62; more than 1 in the tenth would be lost or go on.
        if shift == LAST_SHIFT and byte > 1:
            raise CorruptRecords(
                "varlong of more than 64 bits", offset=position, data=data, length=at - position
            )
        # Compiled, bit 63 is the sign bit, which >> copies: the mask removes the copies.
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & INT63_MASK) ^ -(value & 1), at
        shift += 7
    raise CorruptRecords("varint goes on past the end", offset=position, data=data)
