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
    """A ring of the last RECENT_CHUNKS chunks, of all connections."""

    __slots__ = ("_chunks", "_next")

    def __init__(self) -> None:
        self._chunks: list[Chunk | None] = [None] * RECENT_CHUNKS
        self._next: i64 = 0

    def add(self, chunk: Chunk) -> None:
        """Remember a chunk in place of the oldest."""
        self._chunks[self._next] = chunk
        self._next = (self._next + 1) & (RECENT_CHUNKS - 1)

    def disagrees(
        self, connection: Connection, direction: i64, segment: Segment, position: i64
    ) -> bool:
        """Whether a segment at `position` has other bytes than were given out for that place."""
        at = self._next
        for _ in range(RECENT_CHUNKS):
            at = (at - 1) & (RECENT_CHUNKS - 1)
            chunk = self._chunks[at]
            if chunk is None:
                return False
            if chunk.connection is not connection or chunk.direction != direction:
                continue
            if differs(segment, position, chunk.data, chunk.start, chunk.end, chunk.position):
                return True
            if chunk.position <= position:
                # Those before it are of lower positions still.
                return False
        return False
