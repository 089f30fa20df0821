"""`Source`: input of decoded values."""

from typing import Any, Final

from kdissect.encoding.sinks import FIRST_REFERENCE, NONE, NULL, NULL_BYTE
from kdissect.errors import EncodingError

LARGEST_SIZE: Final = 8  # bytes of an integer


class Source:
    """Content of a document from `at` on; `objects` are those created from it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.objects: list[Any] = []
        self._texts: list[str] = []
        self._blobs: list[bytes] = []

    @property
    def left(self) -> int:
        """Number of bytes not read yet."""
        return len(self.data) - self.at

    def integer(self) -> int:
        """Read an integer."""
        if self.at >= len(self.data):
            raise EncodingError("ends in the middle of a value")
        byte = self.data[self.at]
        self.at += 1
        if byte < NULL_BYTE:
            return byte - 1
        if byte == NULL_BYTE:
            return NULL
        size = byte - NULL_BYTE
        if size > LARGEST_SIZE:
            raise EncodingError(f"byte {byte:#04x} is no integer")
        return int.from_bytes(self.take(size), "little", signed=True)

    def integers(self, count: int) -> list[int]:
        """Read `count` integers; `count` is known to be at most the number of bytes left."""
        data, at = self.data, self.at
        # Most are small: those are read all at once.
        part = data[at : at + count]
        if len(part) == count and (not part or max(part) < NULL_BYTE):
            self.at = at + count
            return [byte - 1 for byte in part]
        numbers = []
        for _ in range(count):
            byte = data[at]
            at += 1
            if byte < NULL_BYTE:
                numbers.append(byte - 1)
            elif byte == NULL_BYTE:
                numbers.append(NULL)
            else:
                end = at + byte - NULL_BYTE
                if end - at > LARGEST_SIZE or end > len(data):
                    raise EncodingError(f"no integer at byte {at}")
                numbers.append(int.from_bytes(data[at:end], "little", signed=True))
                at = end
        self.at = at
        return numbers

    def count(self, least: int) -> int:
        """Read a count of items that take at least `least` bytes each."""
        count = self.integer()
        if not 0 <= count * least <= self.left:
            raise EncodingError(f"{count} items of {least} bytes in {self.left} bytes")
        return count

    def take(self, size: int) -> bytes:
        """The next bytes."""
        end = self.at + size
        if not 0 <= size <= len(self.data) - self.at:
            raise EncodingError(f"{size} bytes of {self.left}")
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


def place_of(reference: int, count: int) -> int:
    """Index that a reference to one of `count` values refers to."""
    place = FIRST_REFERENCE - reference
    if place >= count:
        raise EncodingError(f"value {place} of {count}")
    return place
