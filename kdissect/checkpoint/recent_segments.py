"""What is remembered of the last segments (`duplicates`, `recent_chunks`) while a boundary state is
put behind others.

The prefixes' segments are replayed one prefix after the other as they come in the split, the
segments of connections that are read again afterwards. Marks and chunks are only ever compared with
those of the same connection, and are forgotten by how many segments came since. So what the replay
of a prefix has left can be put back when its connection is read on, and in the end all is put
together.
"""

from collections.abc import Callable

from kdissect.boundaries.left_edge import Prefix
from kdissect.checkpoint.boundary_state import BoundaryState
from kdissect.packets.segment import Segment
from kdissect.streams.connections import Repeat, Streams
from kdissect.streams.duplicates import RECENT_SEGMENTS, Mark, copied_mark
from kdissect.streams.events import Chunk
from kdissect.streams.sequence import MASK


class Rings:
    """The rings of a merger's streams during one step."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.copies, self.recent = streams.copies, streams.recent
        # Segments before the split.
        self.before = int(self.copies.count)
        self.past = self.copies.placed()
        self.past_chunks = self.recent.remembered()
        # What prefixes have left, by the ordinal of their last segments.
        self.marks: dict[int, list[tuple[int, Mark]]] = {}
        self.chunks: dict[int, list[Chunk]] = {}

    def go_to(self, number: int) -> None:
        """The next segment is the `number`th of the split."""
        self.copies.jump(self.before + number - 1)

    def note(self, prefix: Prefix) -> None:
        """The segment that was just replayed is one of this prefix."""
        last = int(prefix.segments[-1].ordinal)
        at = int(self.copies.count) - 1
        mark = self.copies.marks[at % RECENT_SEGMENTS]
        if mark.stream >= 0:
            self.marks.setdefault(last, []).append((at, copied_mark(mark)))
        self.chunks.setdefault(last, []).extend(self.recent.latest())

    def answers_alike(self, repeats: list[Repeat]) -> bool:
        """Whether what a split asked of the past it knew is answered here as it was there."""
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
        """To the start of the split: segments of it are read again."""
        self.copies.refill(self.before, self.past)
        self.recent.now = self.before
        self.recent.refill(self.past_chunks)

    def pass_by(self, segment: Segment, number: int) -> None:
        """A segment that was replayed in a prefix: with its last one, what the prefix has left."""
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
        """What was replayed, and what the split has seen, as one pass would have it.

        `stream_of` gives the stream of a mark of the split, -1 where the one here counts; `place`
        says whether a chunk of the split counts, and puts it where it is here; `renew` gives a
        chunk the connection that has been taken over.
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
