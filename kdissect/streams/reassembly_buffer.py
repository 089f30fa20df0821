"""Reassembly buffer: pieces of one direction that wait for a hole before them.

Pieces are in order of position and never overlap: of two copies of a byte the first is kept. A
piece owns a copy of its bytes, because a segment's `data` is a large buffer that it would keep
alive.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from kdissect.packets.segment import Segment

PIECE_COST: Final = 160  # bytes of one Piece in addition to its payload, so tiny segments count too
MIN_DROPPED: Final = 64  # delivered pieces, before they are removed from the list
# Maximum number of pieces that a segment may pass over after its captured bytes: a truncated packet
# can claim in a few bytes to overlap thousands of pieces.
MAX_PASSED: Final = 128


@mypyc_attr(acyclic=True)
class Piece:
    """`length` stream bytes from `position`; `data` is shorter if the snaplen truncated it."""

    __slots__ = ("position", "length", "data", "time_ns", "number", "ordinal", "capture")

    def __init__(self, position: i64, length: i64, data: bytes, segment: Segment) -> None:
        self.position = position
        self.length = length
        self.data = data
        self.time_ns = segment.time_ns
        self.number = segment.number
        self.ordinal = segment.ordinal
        self.capture = segment.capture


@mypyc_attr(acyclic=True)
class ReassemblyBudget:
    """Memory limit and current use of all directions together."""

    __slots__ = ("limit", "held")

    def __init__(self, limit: i64) -> None:
        self.limit = limit
        self.held: i64 = 0


# In place of a delivered piece.
GIVEN: Final = Piece(0, 0, b"", Segment(0, 0, 0, 0, b"", 0, 0, 0, 0, b"", 0, 0, 0, 0, 0))


# The pieces of all directions that hold none; an empty list is never changed.
NO_PIECES: Final[list[Piece]] = []


@mypyc_attr(acyclic=True)
class ReassemblyBuffer:
    """The pieces of one direction, ``pieces[head:]``.

    `cost` is their memory, also counted in `budget`.
    """

    __slots__ = ("pieces", "head", "payload", "cost", "budget")

    def __init__(self, budget: ReassemblyBudget) -> None:
        self.pieces = NO_PIECES
        self.head: i64 = 0
        self.payload: i64 = 0
        self.cost: i64 = 0
        self.budget = budget

    @property
    def is_empty(self) -> bool:
        """Return whether the buffer is empty."""
        return self.head == len(self.pieces)

    def first(self) -> Piece:
        """The first piece; there must be one."""
        return self.pieces[self.head]

    def end(self) -> i64:
        """Position after the last piece; there must be one."""
        last = self.pieces[len(self.pieces) - 1]
        return last.position + last.length

    def time_after(self, position: i64) -> i64:
        """Time of the first piece that ends after `position`; -1 if there is none."""
        index = self._first_after(position)
        return self.pieces[index].time_ns if index < len(self.pieces) else -1

    def insert(self, segment: Segment, position: i64, start: i64) -> i64:
        """Keep the new bytes, from stream position `start` on, of a segment at `position`.

        Return their number, including bytes cut off by the snaplen. After passing too many existing
        pieces nothing is kept.
        """
        end = position + segment.payload_length
        pieces = self.pieces
        first = self._first_after(start)
        index = first
        last: i64 = min(len(pieces), first + segment.end - segment.start + MAX_PASSED)
        added: i64 = 0
        merged: list[Piece] = []
        while start < end:
            if index < len(pieces) and pieces[index].position <= start:
                if index == last:
                    break
                # overlap: the existing piece was first
                start = max(start, pieces[index].position + pieces[index].length)
                merged.append(pieces[index])
                index += 1
                continue
            stop = end
            if index < len(pieces):
                stop = min(stop, pieces[index].position)
            merged.append(self._made(segment, position, start, stop))
            added += stop - start
            start = stop
        if not pieces:
            if added > 0:
                self.pieces = merged
        elif index == first and len(merged) == 1:
            pieces.insert(index, merged[0])
        elif added > 0:
            # All at once: the later pieces are moved once.
            pieces[first:index] = merged
        return added

    def drop_first(self, count: i64) -> None:
        """Drop the first `count` pieces, which have been delivered."""
        pieces = self.pieces
        end = self.head + count
        for index in range(self.head, end):
            piece = pieces[index]
            self.payload -= len(piece.data)
            self._charge(-PIECE_COST - len(piece.data))
            pieces[index] = GIVEN
        self.head = end
        if end == len(pieces):
            self.pieces = NO_PIECES
            self.head = 0
        elif end >= MIN_DROPPED and end * 2 >= len(pieces):
            del pieces[:end]
            self.head = 0

    def disagrees(self, segment: Segment, position: i64) -> bool:
        """Return whether the segment at `position` contradicts bytes already buffered there."""
        captured_end = position + segment.end - segment.start
        index = self._first_after(position)
        while index < len(self.pieces) and self.pieces[index].position < captured_end:
            piece = self.pieces[index]
            if differs(segment, position, piece.data, 0, len(piece.data), piece.position):
                return True
            index += 1
        return False

    def _first_after(self, position: i64) -> i64:
        """Index of the first piece that ends after `position`."""
        low = self.head
        high: i64 = len(self.pieces)
        while low < high:
            middle = (low + high) // 2
            piece = self.pieces[middle]
            if piece.position + piece.length > position:
                high = middle
            else:
                low = middle + 1
        return low

    def _made(self, segment: Segment, position: i64, start: i64, stop: i64) -> Piece:
        """Create the piece from `start` to `stop` of the segment at `position`; count its cost."""
        first = segment.start + start - position
        last = min(segment.start + stop - position, segment.end)
        # All of start..stop may be in the part cut off by the snaplen: first > last then.
        data = segment.data[first:last] if first < last else b""
        self.payload += len(data)
        self._charge(PIECE_COST + len(data))
        return Piece(start, stop - start, data, segment)

    def _charge(self, cost: i64) -> None:
        self.cost += cost
        self.budget.held += cost


def differs(
    segment: Segment, position: i64, data: bytes, start: i64, end: i64, data_position: i64
) -> bool:
    """Return whether the segment at `position` and ``data[start:end]`` at its place differ."""
    low = max(position, data_position)
    high = min(position + segment.end - segment.start, data_position + end - start)
    if low >= high:
        return False
    mine = segment.start + low - position
    its = start + low - data_position
    return segment.data[mine : mine + high - low] != data[its : its + high - low]
