"""The last chunks that were given out, to compare a retransmission with what it repeats.

Keeping all delivered bytes for that would double the memory; keeping the last chunk of each
connection would keep alive the capture buffers they lie in, one per connection. So the last few of
the whole capture are kept: enough for doubled packets and fast retransmissions.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.packets.segment import Segment
from kdissect.streams.events import Chunk, Connection
from kdissect.streams.held import differs

RECENT_CHUNKS: Final = 64  # a power of two


class Recent:
    """A ring of the last RECENT_CHUNKS chunks, of all connections; `count` is of all added."""

    __slots__ = ("chunks", "count")

    def __init__(self) -> None:
        self.chunks: list[Chunk | None] = [None] * RECENT_CHUNKS
        self.count: i64 = 0

    def jump(self, count: i64) -> None:
        """Go on as if chunks of no interest had been added, `count` with those before."""
        while self.count < count:
            if count - self.count > RECENT_CHUNKS:
                self.count = count - RECENT_CHUNKS
            self.chunks[self.count & (RECENT_CHUNKS - 1)] = None
            self.count += 1

    def add(self, chunk: Chunk) -> None:
        """Remember a chunk in place of the oldest."""
        self.chunks[self.count & (RECENT_CHUNKS - 1)] = chunk
        self.count += 1

    def disagrees(
        self, connection: Connection, direction: i64, segment: Segment, position: i64
    ) -> bool:
        """Whether a segment at `position` has other bytes than were given out for that place."""
        at = self.count
        for _ in range(RECENT_CHUNKS):
            at -= 1
            chunk = self.chunks[at & (RECENT_CHUNKS - 1)]
            if chunk is None:
                continue
            if chunk.connection is not connection or chunk.direction != direction:
                continue
            if differs(segment, position, chunk.data, chunk.start, chunk.end, chunk.position):
                return True
            if chunk.position <= position:
                # Those before it are of lower positions still.
                return False
        return False
