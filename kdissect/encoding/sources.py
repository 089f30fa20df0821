"""`Source`: input of decoded values."""

from typing import Any, Final

from mypy_extensions import i64

from kdissect.encoding.sinks import FIRST_REFERENCE, NONE, NULL, NULL_BYTE, SIGN
from kdissect.errors import EncodingError

LARGEST_SIZE: Final = 8  # bytes of an integer


class Source:
    """Content of a document from `at` on; `objects` are those created from it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at: i64 = 0
        self.size: i64 = len(data)
        self.objects: list[Any] = []
        self._texts: list[str] = []
        self._blobs: list[bytes] = []

    @property
    def left(self) -> i64:
        """Number of bytes not read yet."""
        return self.size - self.at

    def integer(self) -> i64:
        """Read an integer."""
        at = self.at
        if at >= self.size:
            raise EncodingError("ends in the middle of a value")
        byte: i64 = self.data[at]
        self.at = at + 1
        if byte < NULL_BYTE:
            return byte - 1
        if byte == NULL_BYTE:
            return NULL
        size = byte - NULL_BYTE
        if size > LARGEST_SIZE:
            raise EncodingError(f"byte {byte:#04x} is no integer")
        if size > self.left:
            raise EncodingError(f"{size} bytes of {self.left}")
        end = at + 1 + size
        self.at = end
        return signed_number(self.data, at + 1, end)

    def integers(self, count: i64) -> list[int]:
        """Read `count` integers."""
        numbers: list[int] = []
        for _ in range(count):
            numbers.append(self.integer())
        return numbers

    def count(self, least: i64) -> i64:
        """Read a count of items that take at least `least` bytes each."""
        count = self.integer()
        if not 0 <= count <= self.left // max(least, 1):
            raise EncodingError(f"{count} items of {least} bytes in {self.left} bytes")
        return count

    def take(self, size: i64) -> bytes:
        """The next bytes."""
        if not 0 <= size <= self.left:
            raise EncodingError(f"{size} bytes of {self.left}")
        end = self.at + size
        part = self.data[self.at : end]
        self.at = end
        return part

    def text(self) -> str | None:
        """Read a text; None is a distinct value."""
        size = self.integer()
        if size == NONE:
            return None
        if size < 0:
            return self._texts[place_of(size, len(self._texts))]
        text = self.take(size).decode("utf-8", "surrogatepass")
        if text:
            self._texts.append(text)
        return text

    def blob(self) -> bytes | None:
        """Read bytes; None is a distinct value."""
        size = self.integer()
        if size == NONE:
            return None
        if size < 0:
            return self._blobs[place_of(size, len(self._blobs))]
        content = self.take(size)
        if content:
            self._blobs.append(content)
        return content


def signed_number(data: bytes, start: i64, end: i64) -> i64:
    """The number of at most eight bytes, little endian, with a sign."""
    at = end - 1
    number: i64 = data[at]
    if number >= SIGN:
        number -= SIGN << 1
    while at > start:
        at -= 1
        number = number << 8 | data[at]
    return number


def place_of(reference: i64, count: i64) -> i64:
    """Index that a reference to one of `count` values refers to."""
    place = FIRST_REFERENCE - reference
    if place >= count:
        raise EncodingError(f"value {place} of {count}")
    return place
