"""Interns equal bytes from the wire as one object."""

from typing import Final

from librt.strings import read_i64_be
from librt.vecs import vec
from mypy_extensions import i64

from kdissect.protocol.readers import text_bytes

# Slots for the most recent ones: a power of 2. They are hashed by their sizes and a few bytes.
RECENT: Final = 256
ID_SIZE: Final = 16
NO_ID: Final = bytes(ID_SIZE)
RECENT_SIZE: Final = 64  # bytes; longer ones are not names
# Characters of a text in a table. Kafka reads no string of more than 32 767 bytes, and the longest
# ones it writes, error messages, have some hundreds.
LONGEST_TEXT: Final = 4096
ELLIPSIS: Final = "…"


class Interner:
    """Returns equal texts from the wire as one `str`; cleared when `limit` texts are known.

    Also when they take `size_limit` bytes of memory. Clearing costs sharing, never correctness, so
    hostile captures cannot make it grow.
    """

    __slots__ = (
        "texts", "limit", "size", "size_limit", "cut_count", "raws", "raw_texts", "ids",
        "id_halves",
    )  # fmt: skip

    def __init__(self, limit: i64 = 100_000, size_limit: i64 = 16 << 20) -> None:
        self.texts: dict[bytes, str] = {}
        self.limit = limit
        self.size: i64 = 0
        self.size_limit = size_limit
        # Texts cut since the owner set it to 0.
        self.cut_count: i64 = 0
        # Slots where a text is looked up first, and the bytes of each.
        self.raws: list[bytes] = [b""] * RECENT
        self.raw_texts: list[str] = [""] * RECENT
        self.ids: list[bytes] = [NO_ID] * RECENT
        # The two halves of each id, as numbers.
        self.id_halves: vec[i64] = vec[i64]([0] * (2 * RECENT))

    def text(self, raw: bytes) -> str:
        """Decode `raw`; invalid UTF-8 is written with backslash escapes.

        A text longer than LONGEST_TEXT is cut, and ends with an ellipsis.
        """
        size: i64 = len(raw)
        if size == 0:
            return ""
        place = (raw[size - 1] * 31 + raw[size >> 1] * 7 + raw[0] + size) & (RECENT - 1)
        if self.raws[place] == raw:
            return self.raw_texts[place]
        text = self._text(raw)
        if size <= RECENT_SIZE:
            self.raws[place] = raw
            self.raw_texts[place] = text
        return text

    def _text(self, raw: bytes) -> str:
        known = self.texts.get(raw)
        if known is not None:
            return known
        if len(raw) > LONGEST_TEXT:
            self.cut_count += 1
            text = raw[:LONGEST_TEXT].decode("utf-8", "backslashreplace")
            return text[:LONGEST_TEXT] + ELLIPSIS
        text = raw.decode("utf-8", "backslashreplace")
        size = len(raw) + text_bytes(text)
        self.size += size
        if len(self.texts) >= self.limit or self.size > self.size_limit:
            self.texts = {}
            self.size = size
        self.texts[raw] = text
        return text

    def topic_id(self, data: bytes, start: i64) -> bytes:
        """The topic id at `start`, nearly always as the object returned for it before."""
        if start + ID_SIZE > len(data):
            return data[start:]
        first = read_i64_be(data, start)
        second = read_i64_be(data, start + 8)
        place = second & (RECENT - 1)
        halves = self.id_halves
        if halves[2 * place] != first or halves[2 * place + 1] != second:
            halves[2 * place] = first
            halves[2 * place + 1] = second
            self.ids[place] = data[start : start + ID_SIZE]
        return self.ids[place]
