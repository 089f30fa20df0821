"""Recently delivered chunks, for comparison with retransmissions.

Keeping all delivered bytes for that would double the memory; keeping the last chunk of each
connection would keep its capture buffer alive, one per connection. So the chunks of the last
RECENT_SEGMENTS segments of the whole capture are kept: enough for doubled packets and fast
retransmissions. Which ones are kept depends only on the number of segments since.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.packets.segment import Segment
from kdissect.streams.events import Chunk, Connection
from kdissect.streams.reassembly_buffer import differs

RECENT_SEGMENTS: Final = 64
# A segment that fills a hole delivers everything that waited after it: only that many chunks of it
# are remembered.
CHUNKS_EACH: Final = 4
# A power of two: room for all of the segments above, twice, as `merger` inserts some later.
SLOTS: Final = 512
# Bytes of a chunk that are compared: whole packets, but not 64 KB merged by a network card, as the
# last ones are transferred from split to split (docs/splits.md).
COMPARED: Final = 1536

# Number of the segment, offset from the segment's position, size.
Comparison = tuple[int, int, int]


class RecentChunks:
    """Ring of chunks of all connections; `now` is the number of segments so far."""

    __slots__ = ("chunks", "count", "now")

    def __init__(self) -> None:
        self.chunks: list[Chunk | None] = [None] * SLOTS
        self.count: i64 = 0
        self.now: i64 = 0

    def add(self, chunk: Chunk) -> None:
        """Remember a chunk delivered by the current segment."""
        earlier = self.chunks[(self.count - CHUNKS_EACH) & (SLOTS - 1)]
        if earlier is not None and earlier.seen == self.now:
            return
        chunk.seen = self.now
        self.put(chunk)

    def put(self, chunk: Chunk) -> None:
        """Remember a chunk seen at the time it carries."""
        self.chunks[self.count & (SLOTS - 1)] = chunk
        self.count += 1

    def disagrees(
        self, connection: Connection, direction: i64, segment: Segment, position: i64
    ) -> bool:
        """Return whether a segment at `position` contradicts bytes already delivered."""
        at = self.count
        for _ in range(SLOTS):
            at -= 1
            chunk = self.chunks[at & (SLOTS - 1)]
            if chunk is None:
                return False
            if chunk.connection is not connection or chunk.direction != direction:
                continue
            if chunk.seen <= self.now - RECENT_SEGMENTS:
                return False
            end = min(chunk.end, chunk.start + COMPARED)
            if differs(segment, position, chunk.data, chunk.start, end, chunk.position):
                return True
            if chunk.position <= position:
                # Those before it have still lower positions.
                return False
        return False

    def comparisons(
        self, connection: Connection, direction: i64, position: i64, now: i64
    ) -> list[Comparison]:
        """Chunks that `disagrees` would compare with a segment at `position`, the latest first."""
        found: list[Comparison] = []
        at = self.count
        for _ in range(SLOTS):
            at -= 1
            chunk = self.chunks[at & (SLOTS - 1)]
            if chunk is None:
                break
            if chunk.connection is not connection or chunk.direction != direction:
                continue
            if chunk.seen <= now - RECENT_SEGMENTS:
                break
            offset = chunk.position - position
            found.append((chunk.seen, offset, min(chunk.end - chunk.start, COMPARED)))
            if offset <= 0:
                break
        return found

    def remembered(self, connection: Connection | None = None) -> list[Chunk]:
        """Chunks that are not too old, or those of one connection, the oldest first."""
        found: list[Chunk] = []
        for at in range(self.count, self.count + SLOTS):
            chunk = self.chunks[at & (SLOTS - 1)]
            if chunk is None or chunk.seen <= self.now - RECENT_SEGMENTS:
                continue
            if connection is None or chunk.connection is connection:
                found.append(chunk)
        return found

    def latest(self) -> list[Chunk]:
        """Chunks delivered by the current segment, in order."""
        found: list[Chunk] = []
        at = self.count
        while True:
            at -= 1
            chunk = self.chunks[at & (SLOTS - 1)]
            if chunk is None or chunk.seen != self.now or len(found) >= CHUNKS_EACH:
                break
            found.append(chunk)
        found.reverse()
        return found

    def refill(self, chunks: list[Chunk]) -> None:
        """Replace the remembered chunks by these, the oldest first."""
        self.chunks = [None] * SLOTS
        self.count = 0
        for chunk in chunks:
            self.put(chunk)
