"""Detection of duplicate packets: packets captured twice, which are no retransmissions.

`-i any`, a bridge and its ports, two taps, a mirror of both directions of a port, a tunnel whose
outer and inner packets are both captured: each shows one packet several times. Unlike a
retransmission, which was sent again, a copy has the same TCP header (except the checksum, which the
sender's network card fills in late), and in addition, in the order of the code:

IP id of both not 0    the same id, within SAME_ID_NS, whatever the options say. Every sender that
                       counts its packets gives a retransmission another id; ids recur after
                       65536 packets at the soonest.
timestamps option      the same timestamps (being part of the header), within SAME_TIMESTAMP_NS.
                       For IPv6, which has no id, and for senders that set 0 in packets that must
                       not be fragmented. Timestamps tick every 1 to 10 ms.
neither                within SAME_HEADER_NS: too soon for a retransmission, which takes a round
                       trip and more packets in between, or a timer of 200 ms.

Only the first copy counts; the payload of a later one is duplicate. Its bytes are compared
elsewhere (recent_chunks.py, reassembly_buffer.py): a packet with other bytes is not a copy.
"""

from typing import Final

from librt.strings import read_i32_be, read_i64_be
from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

from kdissect.packets.segment import Segment

# A power of two: 5 ms between two taps that each see 100 000 packets a second. Copies count too, so
# that what is remembered depends only on the number of segments since.
RECENT_SEGMENTS: Final = 1024
SAME_ID_NS: Final = 1_000_000_000
# Shorter than the smallest retransmission timer (200 ms on Linux).
SAME_TIMESTAMP_NS: Final = 100_000_000
SAME_HEADER_NS: Final = 1_000_000

TCP_HEADER_SIZE: Final = 20
# Two bytes of padding before the timestamps option, as all senders do.
COMMON_HEADER_SIZE: Final = 32
TIMESTAMPS: Final = 8  # RFC 7323
MIXER: Final = 0x0100_0193  # 25 bits: the product with 32 bits has room in 63
WORD: Final = 0xFFFF_FFFF


@mypyc_attr(acyclic=True)
class Mark:
    """Compact identity of a segment: one is stored for every segment.

    `stream` is the connection and direction, `numbers` sequence and acknowledgment number,
    `identity` length of the payload and IP id, `state` flags and window, `options` see
    `options_mark`, only for segments without IP id. Storing the payload would keep capture buffers
    alive.
    """

    __slots__ = ("stream", "numbers", "identity", "state", "options", "time_ns")

    def __init__(self) -> None:
        self.stream: i64 = -1
        self.numbers: i64 = 0
        self.identity: i64 = 0
        self.state: i64 = 0
        self.options: i64 = 0
        self.time_ns: i64 = 0


class DuplicatePackets:
    """A ring of marks of the last RECENT_SEGMENTS segments, of all connections.

    `stream` is a number unique to one direction of one connection; `count` is of all segments,
    copies included, so the place of a segment is the number of segments before it.

    Segments whose streams have the same lowest bits are chained, so that a search visits only
    those: `_latest` is the place of the last of each chain, `_before` that of the one before each
    mark in its chain. A place below the oldest one remembered ends a chain.
    """

    __slots__ = ("marks", "count", "_latest", "_before", "_is_chained")

    def __init__(self) -> None:
        self.marks: list[Mark] = [Mark() for _ in range(RECENT_SEGMENTS)]
        self.count: i64 = 0
        self._latest = vec[i64]([-1] * RECENT_SEGMENTS)
        self._before = vec[i64]([-1] * RECENT_SEGMENTS)
        self._is_chained: bool = True

    def jump(self, count: i64) -> None:
        """Advance past segments that are not relevant, to `count` segments in total."""
        while self.count < count:
            if count - self.count > RECENT_SEGMENTS:
                self.count = count - RECENT_SEGMENTS
            self.skip()

    def skip(self) -> None:
        """Count a segment without remembering it."""
        self.marks[self.count & (RECENT_SEGMENTS - 1)].stream = -1
        self.count += 1

    def add(self, segment: Segment, stream: i64) -> None:
        """Remember a segment in place of the oldest."""
        count = self.count
        at = count & (RECENT_SEGMENTS - 1)
        mark = self.marks[at]
        chain = stream & (RECENT_SEGMENTS - 1)
        self._before[at] = self._latest[chain]
        self._latest[chain] = count
        self.count = count + 1
        mark.stream = stream
        # The numbers have 32 bits, so the shift wraps around without loss.
        mark.numbers = segment.sequence << 32 | segment.acknowledgment
        mark.identity = (segment.payload_length << 16) + segment.ip_id
        mark.state = segment.flags << 16 | segment.window
        mark.time_ns = segment.time_ns
        if segment.ip_id <= 0:
            mark.options = options_mark(segment)

    def has(self, segment: Segment, stream: i64) -> bool:
        """Return whether the segment is a copy of one that was added, see above."""
        mark = mark_of(segment, stream)
        return self.find(mark, same_ns(segment), self.count - RECENT_SEGMENTS) >= 0

    def find(self, wanted: Mark, limit: i64, oldest: i64) -> i64:
        """Place of the latest segment, from `oldest` on, of which the marked one is a copy.

        `limit` is the `same_ns` of that; -1 if there is none.
        """
        if not self._is_chained:
            self._chain()
        numbers = wanted.numbers
        stream = wanted.stream
        oldest = max(oldest, max(self.count - RECENT_SEGMENTS, 0))
        at = self._latest[stream & (RECENT_SEGMENTS - 1)]
        while at >= oldest:
            mark = self.marks[at & (RECENT_SEGMENTS - 1)]
            if (
                mark.numbers == numbers
                and mark.stream == stream
                and mark.identity == wanted.identity
                and mark.state == wanted.state
                and -limit <= wanted.time_ns - mark.time_ns <= limit
                and (limit == SAME_ID_NS or mark.options == wanted.options)
            ):
                return at
            at = self._before[at & (RECENT_SEGMENTS - 1)]
        return -1

    def _chain(self) -> None:
        """Chain all marks anew, after some were put among others."""
        self._is_chained = True
        self._latest = vec[i64]([-1] * RECENT_SEGMENTS)
        at = max(0, self.count - RECENT_SEGMENTS)
        while at < self.count:
            stream = self.marks[at & (RECENT_SEGMENTS - 1)].stream
            if stream >= 0:
                self._before[at & (RECENT_SEGMENTS - 1)] = self._latest[
                    stream & (RECENT_SEGMENTS - 1)
                ]
                self._latest[stream & (RECENT_SEGMENTS - 1)] = at
            at += 1

    def placed(self, streams: frozenset[int] | None = None) -> list[tuple[int, Mark]]:
        """All remembered marks, or those of these streams, with places; read-only."""
        found: list[tuple[int, Mark]] = []
        for at in range(max(0, self.count - RECENT_SEGMENTS), self.count):
            mark = self.marks[at & (RECENT_SEGMENTS - 1)]
            if mark.stream >= 0 and (streams is None or mark.stream in streams):
                found.append((at, copied_mark(mark)))
        return found

    def refill(self, count: i64, placed: list[tuple[int, Mark]]) -> None:
        """Replace the remembered marks by these, after so many segments."""
        self.marks = [Mark() for _ in range(RECENT_SEGMENTS)]
        self.count = count
        self.put(placed)

    def put(self, placed: list[tuple[int, Mark]]) -> None:
        """Restore these marks, except those that are too old."""
        self._is_chained = False
        for at, mark in placed:
            if self.count - RECENT_SEGMENTS <= at < self.count:
                self.marks[at & (RECENT_SEGMENTS - 1)] = mark


def mark_of(segment: Segment, stream: i64) -> Mark:
    """Mark of a segment."""
    mark = Mark()
    mark.stream = stream
    mark.numbers = segment.sequence << 32 | segment.acknowledgment
    mark.identity = (segment.payload_length << 16) + segment.ip_id
    mark.state = segment.flags << 16 | segment.window
    mark.options = options_mark(segment)
    mark.time_ns = segment.time_ns
    return mark


def copied_mark(mark: Mark) -> Mark:
    """Copy of the mark."""
    made = Mark()
    made.stream = mark.stream
    made.numbers = mark.numbers
    made.identity = mark.identity
    made.state = mark.state
    made.options = mark.options
    made.time_ns = mark.time_ns
    return made


def same_ns(segment: Segment) -> i64:
    """Maximum time between copies of a packet like this one."""
    if segment.ip_id > 0:
        return SAME_ID_NS
    return SAME_TIMESTAMP_NS if has_timestamps(segment) else SAME_HEADER_NS


def options_mark(segment: Segment) -> i64:
    """Number that differs if the TCP options differ, as far as they were captured."""
    data = segment.data
    header = segment.header
    if segment.start - header == COMMON_HEADER_SIZE:
        return read_i64_be(data, header + 24)
    offset = header + TCP_HEADER_SIZE
    mark: i64 = 0
    while offset + 4 <= segment.start:
        mark = (mark & WORD) * MIXER ^ i64(read_i32_be(data, offset))
        offset += 4
    return mark


def has_timestamps(segment: Segment) -> bool:
    """Return whether the TCP header has the timestamps option."""
    data = segment.data
    offset = segment.header + TCP_HEADER_SIZE
    end = segment.start
    while offset < end:
        kind: i64 = data[offset]
        if kind == TIMESTAMPS:
            return True
        if kind == 0:
            return False
        if kind == 1:
            offset += 1
            continue
        # A length of 0 would stay at the same option forever.
        if offset + 1 >= end or data[offset + 1] < 2:
            return False
        offset += data[offset + 1]
    return False
