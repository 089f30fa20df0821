"""Values → Thrift's compact protocol, as far as the headers and the footer of Parquet need it.

struct  { a byte: what the field number grew by << 4 | type, value }, 0
list    a byte: size << 4 | type of the elements (size 15: a varint of it follows), elements
int     a zig-zag varint; a byte as it is
binary  a varint of the size, bytes
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

TRUE: Final = 1
FALSE: Final = 2
BYTE: Final = 3
INT16: Final = 4
INT32: Final = 5
INT64: Final = 6
BINARY: Final = 8
LIST: Final = 9
STRUCT: Final = 12

LONG_LIST: Final = 15


class Field(NamedTuple):
    """A field of a struct: its number, its type, and its value as bytes."""

    number: int
    type: int
    content: bytes


def varint(value: int) -> bytes:
    r"""A number that is not negative, 7 bits a byte, the lowest first.

    >>> varint(300)
    b'\xac\x02'
    """
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def zigzag(value: int) -> bytes:
    r"""A number as a varint, its sign in the lowest bit.

    >>> zigzag(-1), zigzag(1), zigzag(64)
    (b'\x01', b'\x02', b'\x80\x01')
    """
    return varint(value << 1 if value >= 0 else (~value << 1) | 1)


def boolean(number: int, value: bool) -> Field:
    """A field whose type is its value."""
    return Field(number, TRUE if value else FALSE, b"")


def byte(number: int, value: int) -> Field:
    """A field of 8 bits."""
    return Field(number, BYTE, bytes([value]))


def int16(number: int, value: int) -> Field:
    """A field of 16 bits."""
    return Field(number, INT16, zigzag(value))


def int32(number: int, value: int) -> Field:
    """A field of 32 bits; an enum too."""
    return Field(number, INT32, zigzag(value))


def int64(number: int, value: int) -> Field:
    """A field of 64 bits."""
    return Field(number, INT64, zigzag(value))


def binary(number: int, value: bytes) -> Field:
    """A field of bytes or text."""
    return Field(number, BINARY, sized(value))


def nested(number: int, fields: Sequence[Field]) -> Field:
    """A field that is a struct; a union is one with a single field."""
    return Field(number, STRUCT, struct(fields))


def listed(number: int, type_: int, elements: Sequence[bytes]) -> Field:
    """A field that is a list of elements of one type."""
    count = len(elements)
    head = bytes([count << 4 | type_]) if count < LONG_LIST else bytes([0xF0 | type_])
    more = b"" if count < LONG_LIST else varint(count)
    return Field(number, LIST, head + more + b"".join(elements))


def sized(value: bytes) -> bytes:
    """Bytes behind their size."""
    return varint(len(value)) + value


def struct(fields: Sequence[Field]) -> bytes:
    r"""A struct of fields whose numbers grow, by 15 at most.

    >>> struct([int32(1, 5), binary(3, b"ab")])
    b'\x15\n(\x02ab\x00'
    """
    parts = bytearray()
    last = 0
    for number, type_, content in fields:
        parts.append((number - last) << 4 | type_)
        parts += content
        last = number
    parts.append(0)
    return bytes(parts)
