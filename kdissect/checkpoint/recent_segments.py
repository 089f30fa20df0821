"""Memory of the last segments (`duplicates`, `recent_chunks`) while a boundary state is merged.

The segments of prefixes are replayed one prefix after the other in the order of the split, the
segments of connections that are read again afterwards. Marks and chunks are only compared with
those of the same connection, and are forgotten by the number of segments since. So the entries that
the replay of a prefix has left can be restored when its connection is read on, and at the end all
are merged.
"""

from collections.abc import Callable

from kdissect.checkpoint.boundary_state import BoundaryState
from kdissect.checkpoint.left_edge import Prefix
from kdissect.packets.segment import Segment
from kdissect.streams.connections import Repeat, Streams
from kdissect.streams.duplicates import RECENT_SEGMENTS, Mark, copied_mark
from kdissect.streams.events import Chunk
from kdissect.streams.sequence import MASK


class Rings:
    """Rings of a merger's streams during one step."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.copies, self.recent = streams.copies, streams.recent
        # Number of segments before the split.
        self.before = int(self.copies.count)
        self.past = self.copies.placed()
        self.past_chunks = self.recent.remembered()
        # Entries left by prefixes, by the ordinal of their last segments.
        self.marks: dict[int, list[tuple[int, Mark]]] = {}
        self.chunks: dict[int, list[Chunk]] = {}

    def go_to(self, number: int) -> None:
        """Advance to the `number`th segment of the split."""
        self.copies.jump(self.before + number - 1)

    def note(self, prefix: Prefix) -> None:
        """Note that the segment just replayed belongs to this prefix."""
        last = int(prefix.segments[-1].ordinal)
        at = int(self.copies.count) - 1
        mark = self.copies.marks[at % RECENT_SEGMENTS]
        if mark.stream >= 0:
            self.marks.setdefault(last, []).append((at, copied_mark(mark)))
        self.chunks.setdefault(last, []).extend(self.recent.latest())

    def answers_alike(self, repeats: list[Repeat]) -> bool:
        """Return whether a split's lookups in its known past have the same results here."""
        for one in repeats:
            receiver = self.streams.receiver_of(one.flow)
            if receiver is None:
                return False
            now = self.before + one.number
            if one.limit >= 0:
                one.mark.stream = receiver.stream
                place = self.copies.find(one.mark, one.limit, now - 1 - RECENT_SEGMENTS)
                if (place >= 0) != (one.place >= 0):
                    return False
            if one.compared is not None:
                position = receiver.position_of(one.mark.numbers >> 32 & MASK)
                compared = self.recent.comparisons(
                    receiver.connection, receiver.direction, position, now
                )
                if [(seen - self.before, *rest) for seen, *rest in compared] != one.compared:
                    return False
        return True

    def go_back(self) -> None:
        """Go back to the start of the split: segments of it are read again."""
        self.copies.refill(self.before, self.past)
        self.recent.now = self.before
        self.recent.refill(self.past_chunks)

    def pass_by(self, segment: Segment, number: int) -> None:
        """Pass a segment replayed in a prefix; at its last one, restore the prefix's entries."""
        marks = self.marks.get(int(segment.ordinal), [])
        if marks:
            self.copies.jump(self.before + number)
            self.copies.put([(at, copied_mark(mark)) for at, mark in marks])
        for chunk in self.chunks.get(int(segment.ordinal), []):
            if chunk.seen > self.before + number - RECENT_SEGMENTS:
                self.recent.put(chunk)

    def end(
        self,
        boundary: BoundaryState,
        stream_of: Callable[[int, Mark], int],
        place: Callable[[Chunk], bool],
        renew: Callable[[Chunk], None],
    ) -> None:
        """Merge the replayed entries with those of the split, as in one pass.

        `stream_of` returns the stream of a mark of the split, -1 where the one here counts; `place`
        returns whether a chunk of the split counts, and moves it to its place here; `renew` assigns
        a chunk the connection that has been taken over.
        """
        now = self.before + boundary.segments
        self.copies.jump(now)
        for marks in self.marks.values():
            self.copies.put(marks)
        taken = []
        for at, mark in boundary.marks:
            mark.stream = stream_of(at, mark)
            if mark.stream >= 0:
                taken.append((self.before + at, mark))
        self.copies.put(taken)
        self.recent.now = now
        own = [*self.recent.remembered(), *(one for many in self.chunks.values() for one in many)]
        every = {id(chunk): chunk for chunk in own}
        for chunk in every.values():
            renew(chunk)
        for chunk in boundary.chunks:
            if place(chunk):
                chunk.seen += self.before
                every[id(chunk)] = chunk
        kept = sorted(every.values(), key=lambda chunk: chunk.seen)
        self.recent.refill(kept)
        self.recent.refill(self.recent.remembered())
