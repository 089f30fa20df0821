"""`Sink`: output of encoded values."""

from collections.abc import Iterable
from typing import Any, Final, Protocol

from kdissect.errors import EncodingError

NULL: Final = -(1 << 62)
NULL_BYTE: Final = 0xF0
LARGEST_SINGLE: Final = NULL_BYTE - 2  # the value of byte 0xEF
U64: Final = (1 << 64) - 1
NONE: Final = -1
FIRST_REFERENCE: Final = -2
# Object numbers are one byte.
MOST_CLASSES: Final = 256


class Writable(Protocol):
    """Encoder of the objects of a class; `number` identifies the class in documents."""

    number: int

    def write(self, sink: "Sink", value: Any) -> None:
        """Write the fields of an object."""
        ...


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
            size = ((number + (number < 0)).bit_length() >> 3) + 1
            if size > 8:
                number, size = signed(number), 8
            self.out.append(NULL_BYTE + size)
            self.out += number.to_bytes(size, "little", signed=True)

    def integers(self, numbers: Iterable[int]) -> None:
        """Write several integers, without their count."""
        out = self.out
        for number in numbers:
            if -1 <= number <= LARGEST_SINGLE:
                out.append(number + 1)
            elif number == NULL:
                out.append(NULL_BYTE)
            else:
                # As `integer`, without a call, as there are thousands.
                size = ((number + (number < 0)).bit_length() >> 3) + 1
                if size > 8:
                    number, size = signed(number), 8
                out.append(NULL_BYTE + size)
                out += number.to_bytes(size, "little", signed=True)

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
