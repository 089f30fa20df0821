"""`Sink`: output of encoded values."""

from collections.abc import Iterable
from typing import Any, Final

from mypy_extensions import i64

from kdissect.errors import EncodingError

NULL: Final = -(1 << 62)
NULL_BYTE: Final = 0xF0
LARGEST_SINGLE: Final = NULL_BYTE - 2  # the value of byte 0xEF
U64: Final = (1 << 64) - 1
LEAST: Final = -(1 << 63)
MOST: Final = (1 << 63) - 1
SIGN: Final = 0x80  # the bit of a byte
NONE: Final = -1
FIRST_REFERENCE: Final = -2
# Object numbers are one byte.
MOST_CLASSES: Final = 256


class Writable:
    """Encoder of the objects of a class; `number` identifies the class in documents."""

    def __init__(self) -> None:
        self.number = -1

    def write(self, sink: "Sink", value: Any) -> None:
        """Write the fields of an object."""
        raise NotImplementedError


class Sink:
    """Bytes of a document's root and objects; `objects` are in the order of their numbers."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.objects: list[tuple[Writable, Any]] = []
        self._numbers: dict[int, int] = {}
        self._texts: dict[str, int] = {}
        self._blobs: dict[bytes, int] = {}

    def integer(self, number: int) -> None:
        """Write an integer; one of more than 64 bits is truncated to 64 bits."""
        if -1 <= number <= LARGEST_SINGLE:
            self.out.append(number + 1)
        elif number == NULL:
            self.out.append(NULL_BYTE)
        else:
            self._large(number if LEAST <= number <= MOST else signed(number))

    def _large(self, number: i64) -> None:
        """Write an integer that has bytes of its own."""
        size, rest = 1, number
        while not -SIGN <= rest < SIGN:
            size += 1
            rest >>= 8
        self.out.append(NULL_BYTE + size)
        for _ in range(size):
            self.out.append(number & 0xFF)
            number >>= 8

    def integers(self, numbers: Iterable[int]) -> None:
        """Write several integers, without their count."""
        for number in numbers:
            self.integer(number)

    def text(self, text: str) -> None:
        """Write a text, or refer to the same text written before."""
        place = self._texts.get(text)
        if place is not None:
            self.integer(FIRST_REFERENCE - place)
            return
        if text:
            self._texts[text] = len(self._texts)
        content = text.encode("utf-8", "surrogatepass")
        self.integer(len(content))
        self.out += content

    def blob(self, content: bytes) -> None:
        """Write bytes, or refer to the same bytes written before."""
        place = self._blobs.get(content)
        if place is not None:
            self.integer(FIRST_REFERENCE - place)
            return
        if content:
            self._blobs[content] = len(self._blobs)
        self.integer(len(content))
        self.out += content

    def reference(self, layout: "Writable", value: Any) -> None:
        """Refer to an object, which is written later."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self.objects)
            self.objects.append((layout, value))
        self.integer(number)


def signed(number: int) -> int:
    """Signed value of the last 64 bits of a number."""
    return (number + (1 << 63) & U64) - (1 << 63)


def not_declared(value: object, kind: object) -> EncodingError:
    """Error for a value that is not of the declared type: a programming error of the writer."""
    return EncodingError(f"{type(value).__name__} is not {kind}")
