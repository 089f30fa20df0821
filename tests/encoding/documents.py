"""Documents made by hand from the description of the format, not by the code that writes them."""

import struct
import zlib
from collections.abc import Iterable

NULL = -(1 << 62)


def made(content: bytes, number: int = 77, version: int = 3) -> bytes:
    """A document with a right header."""
    header = b"kdv1" + struct.pack("<HHI", number, version, zlib.crc32(content))
    return header + struct.pack("<Q", len(content)) + content


def sealed(document: bytes) -> bytes:
    """A document with changed content and matching size and checksum."""
    number, version = struct.unpack_from("<HH", document, 4)
    return made(document[20:], number, version)


def integer(value: int) -> bytes:
    """An integer in its shortest form."""
    if -1 <= value <= 238:
        return bytes([value + 1])
    if value == NULL:
        return b"\xf0"
    for size in range(1, 9):
        if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
            return bytes([0xF0 + size]) + value.to_bytes(size, "little", signed=True)
    raise AssertionError(value)


def integers(values: Iterable[int]) -> bytes:
    return b"".join(map(integer, values))


def text(value: str) -> bytes:
    content = value.encode("utf-8", "surrogatepass")
    return integer(len(content)) + content


def rooted(root: bytes) -> bytes:
    """The content of a document without objects."""
    return integer(0) + root
