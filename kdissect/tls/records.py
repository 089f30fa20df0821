"""Chunk | Gap of one direction → Record | Hole: extract TLS records from a byte stream.

    record = type (20 to 24), version 03 0x, uint16 size, `size` bytes       (RFC 8446, 5.1)

Nothing is decrypted here. States of a direction:

    SEARCHING ──two headers in a row, or a record that ends with its segment──▶ AT_RECORD
    AT_RECORD ──impossible header, or a gap beyond the record──▶ SEARCHING
                (a gap inside a record costs this record only)
"""

import re
from typing import Final, NamedTuple

from kdissect.streams.events import Chunk, Gap

HEADER_SIZE: Final = 5
CHANGE_CIPHER_SPEC: Final = 20
ALERT: Final = 21
HANDSHAKE: Final = 22
APPLICATION_DATA: Final = 23
HEARTBEAT: Final = 24
KINDS: Final = range(CHANGE_CIPHER_SPEC, HEARTBEAT + 1)
MAJOR_VERSION: Final = 3
LAST_MINOR_VERSION: Final = 4
# 16 KiB of content and 2 KiB for compression and protection (RFC 5246, 6.2.3).
MAX_RECORD_SIZE: Final = (16 << 10) + (2 << 10)
# Memory of a mark: one for each segment, which may have one byte.
MARK_COST: Final = 200
LIKELY_HEADER: Final = re.compile(rb"[\x14-\x17]\x03[\x00-\x04][\x00-\x48]", re.DOTALL)


class Mark(NamedTuple):
    """Stream position from which on bytes are of a packet."""

    position: int
    time_ns: int
    packet: int
    ordinal: int
    capture: int


class Record(NamedTuple):
    """One record; `position` is that of its header, `marks` are those of its bytes, in order."""

    kind: int
    version: int
    body: bytes
    position: int
    marks: list[Mark]


class Hole(NamedTuple):
    """`length` stream bytes with incomplete records; `captured` of them are available.

    `records` is their number, -1 if unknown; `gap` is the last one in it, None if bytes were
    captured, but were not records.
    """

    position: int
    length: int
    captured: int
    records: int
    gap: Gap | None
    mark: Mark


class RecordCutter:
    """Records of one direction; without `is_start` the first bytes may be inside a record."""

    def __init__(self, is_start: bool) -> None:
        self._buffer = bytearray()
        # Stream positions of the first byte in the buffer and of the next byte to come.
        self._position = -1
        self._next = -1
        self._marks: list[Mark] = []
        self._is_searching = not is_start
        # Start of the bytes that are in no whole record, -1 for none; number of captured ones.
        self._hole_position = -1
        self._hole_captured = 0
        self._gap: Gap | None = None
        # Remaining bytes of a record with a hole.
        self._damaged = 0

    @property
    def held(self) -> int:
        """Memory of bytes that wait for the rest of their record."""
        return len(self._buffer) + len(self._marks) * MARK_COST

    @property
    def captured(self) -> int:
        """Captured bytes not yet returned as a record or a hole."""
        return len(self._buffer) + self._hole_captured

    def feed(self, chunk: Chunk) -> list[Record | Hole]:
        """Records that the chunk completes."""
        if self._position < 0:
            self._position = chunk.position
        mark = mark_of(chunk)
        data = chunk.data[chunk.start : chunk.end]
        self._next = chunk.position + len(data)
        found: list[Record | Hole] = []
        if self._damaged:
            size = min(self._damaged, len(data))
            self._damaged -= size
            self._hole_captured += size
            self._position += size
            data = data[size:]
            if self._damaged:
                return found
            self._end_hole(self._position, 1, mark, found)
            if not data:
                return found
            mark = mark._replace(position=mark.position + size)
        self._marks.append(mark)
        self._buffer += data
        self._cut(found)
        return found

    def skip(self, gap: Gap) -> list[Record | Hole]:
        """Process a gap in the stream; return the hole if it is complete."""
        found: list[Record | Hole] = []
        if self._position < 0:
            self._position = gap.position
        self._gap = gap
        self._next = gap.position + gap.length
        if not self._is_searching:
            missing = self._damaged or self._missing()
            if self._hole_position < 0:
                self._hole_position = self._position
            if gap.length <= missing:
                self._let_go(len(self._buffer))
                self._position = self._next
                self._damaged = missing - gap.length
                if not self._damaged:
                    self._end_hole(self._position, 1, mark_of(gap), found)
                return found
            self._is_searching = True
            self._damaged = 0
        elif self._hole_position < 0:
            self._hole_position = self._position
        self._let_go(len(self._buffer))
        self._position = self._next
        return found

    def _missing(self) -> int:
        """Remaining bytes of a record that was begun; 0 if unknown."""
        if len(self._buffer) < HEADER_SIZE:
            return 0
        return HEADER_SIZE + size_of(self._buffer, 0) - len(self._buffer)

    def _cut(self, found: list[Record | Hole]) -> None:
        while True:
            if self._is_searching and not self._search(found):
                return
            if len(self._buffer) < HEADER_SIZE:
                return
            if not is_header(self._buffer, 0):
                self._is_searching = True
                self._hole_position = self._position
                self._gap = None
                self._drop(1)
                continue
            end = HEADER_SIZE + size_of(self._buffer, 0)
            if end > len(self._buffer):
                return
            buffer = self._buffer
            version = int.from_bytes(buffer[1:3], "big")
            body = bytes(buffer[HEADER_SIZE:end])
            marks = self._marks_until(self._position + end)
            found.append(Record(buffer[0], version, body, self._position, marks))
            self._advance(end)

    def _search(self, found: list[Record | Hole]) -> bool:
        """Find the next certain record; False if more bytes are needed."""
        at = 0
        while (match := LIKELY_HEADER.search(self._buffer, at)) is not None:
            at = match.start()
            if len(self._buffer) - at < HEADER_SIZE:
                break
            if not is_header(self._buffer, at):
                at += 1
                continue
            end = at + HEADER_SIZE + size_of(self._buffer, at)
            left = len(self._buffer) - end
            if left == 0 or (left >= HEADER_SIZE and is_header(self._buffer, end)):
                self._drop(at)
                self._is_searching = False
                if self._hole_position >= 0:
                    self._end_hole(self._position, -1, self._marks[0], found)
                return True
            if left < HEADER_SIZE:
                # Its end, or the next header, is not available yet.
                self._drop(at)
                return False
            at += 1
        # Four bytes may be the beginning of a header.
        self._drop(max(0, len(self._buffer) - (HEADER_SIZE - 1)) if match is None else at)
        return False

    def _end_hole(self, end: int, count: int, mark: Mark, found: list[Record | Hole]) -> None:
        start = self._hole_position
        found.append(Hole(start, end - start, self._hole_captured, count, self._gap, mark))
        self._hole_position = -1
        self._hole_captured = 0
        self._gap = None

    def _drop(self, size: int) -> None:
        """Drop bytes that are not of a readable record."""
        if size == 0:
            return
        if self._hole_position < 0:
            self._hole_position = self._position
        self._let_go(size)
        self._position += size
        self._marks = self._marks_from(self._position)

    def _let_go(self, size: int) -> None:
        self._hole_captured += size
        del self._buffer[:size]
        if not self._buffer:
            self._marks = []

    def _advance(self, size: int) -> None:
        """Advance past a record that was returned."""
        del self._buffer[:size]
        self._position += size
        self._marks = self._marks_from(self._position) if self._buffer else []

    def _marks_until(self, end: int) -> list[Mark]:
        return [mark for mark in self._marks if mark.position < end]

    def _marks_from(self, start: int) -> list[Mark]:
        """Marks of the bytes from `start` on."""
        first = 0
        while first + 1 < len(self._marks) and self._marks[first + 1].position <= start:
            first += 1
        return self._marks[first:]


def mark_of(event: Chunk | Gap) -> Mark:
    return Mark(event.position, event.time_ns, event.packet, event.ordinal, event.capture)


def size_of(data: bytes | bytearray, at: int) -> int:
    """Size in the header at `at`."""
    return data[at + 3] << 8 | data[at + 4]


def is_header(data: bytes | bytearray, at: int) -> bool:
    """Return whether the five bytes at `at` may be the header of a record."""
    return (
        data[at] in KINDS
        and data[at + 1] == MAJOR_VERSION
        and data[at + 2] <= LAST_MINOR_VERSION
        and size_of(data, at) <= MAX_RECORD_SIZE
    )
