"""Bytes of one direction that were sent again: were they needed, and how long did they wait?

D-SACK (RFC 2883): a receiver that gets bytes twice reports them at once, in the first block of the
SACK option: a block that it has acknowledged already, or that is part of the second block. Nothing
was lost then; the sender had only not waited long enough for the acknowledgment. That is usual
where programs are slow to answer: Linux delays an ACK by up to 40 ms, for data to send it with, and
repeats the last segment after some milliseconds (RFC 8985, tail loss probe).

A kernel acknowledges data for a process that is paused, and resets connections to one that ended. A
sender that repeats data or a SYN in vain for seconds has a network or host before it that is down.

Example: 100 bytes at 5000, again after 20 ms, then an ACK of 5100 with the block 5000-5100: the 100
bytes were not lost. An ACK of 5100 without a block leaves them counted as lost.
"""

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64, mypyc_attr

from kdissect.packets.segment import Segment
from kdissect.streams.sequence import MASK, distance

# The report takes a round trip. After that it counts if it is the first that comes.
PATIENCE_NS: Final = 1_000_000_000

TCP_HEADER_SIZE: Final = 20
SACK: Final = 5  # RFC 2018
BLOCK_SIZE: Final = 8


@mypyc_attr(acyclic=True)
class Resent:
    """State of the retransmissions of one direction.

    `size` bytes in the sequence numbers from `start` to `end` may turn out not to have been lost, 0
    when none may; they are believed to be lost from `due_ns` on. `since_ns` is the time when the
    byte at `waiting`, which was sent again, was sent first; -1 when all of them were acknowledged.
    """

    __slots__ = ("start", "end", "size", "due_ns", "waiting", "since_ns")

    def __init__(self) -> None:
        self.start: i64 = 0
        self.end: i64 = 0
        self.size: i64 = 0
        self.due_ns: i64 = 0
        self.waiting: i64 = 0
        self.since_ns: i64 = -1

    def is_open(self) -> bool:
        """Return whether the receiver's next acknowledgment matters."""
        return self.size > 0 or self.since_ns >= 0

    def note_acknowledgment(self, segment: Segment) -> None:
        """Process an acknowledgment number of the receiver."""
        if self.since_ns >= 0 and distance(segment.acknowledgment, self.waiting) > 0:
            self.since_ns = -1

    def waited_ns(self, sequence: i64, first_ns: i64, now: i64) -> i64:
        """Return for how long bytes sent at `first_ns`, and again `now`, have waited."""
        if self.since_ns < 0:
            self.since_ns = first_ns
            self.waiting = sequence
        return now - self.since_ns

    def add(self, sequence: i64, size: i64, now: i64) -> None:
        """Doubt the loss of `size` bytes from `sequence` on, which were sent again `now`."""
        end = (sequence + size) & MASK
        if self.size == 0 or distance(sequence, self.start) < 0:
            self.start = sequence
        if self.size == 0 or distance(end, self.end) > 0:
            self.end = end
        self.size += size
        self.due_ns = now + PATIENCE_NS

    def believe(self) -> None:
        """Take all of them as lost."""
        self.size = 0

    def forget_times(self) -> None:
        """Discard earlier times after a change of the clock."""
        self.size = 0
        self.since_ns = -1

    def found(self, segment: Segment) -> i64:
        """Number of such bytes that a segment of the receiver reports to have come twice."""
        place = sack_place(segment)
        if place < 0:
            return 0
        data = segment.data
        start = i64(read_i32_be(data, place)) & MASK
        end = i64(read_i32_be(data, place + 4)) & MASK
        if not is_duplicate(segment, place, start, end):
            return 0
        first = start if distance(start, self.start) > 0 else self.start
        last = end if distance(end, self.end) < 0 else self.end
        number = distance(last, first)
        if number <= 0:
            return 0
        if number > self.size:
            number = self.size
        self.size -= number
        return number


# Of all directions in which nothing was sent again; it is never changed.
NO_RESENT: Final = Resent()


def is_duplicate(segment: Segment, place: i64, start: i64, end: i64) -> bool:
    """Return whether the first block, whose length is at `place` - 1, is of bytes seen twice."""
    if distance(end, start) <= 0:
        return False
    if distance(end, segment.acknowledgment) <= 0:
        return True
    data = segment.data
    if data[place - 1] < 2 + 2 * BLOCK_SIZE or place + 2 * BLOCK_SIZE > segment.start:
        return False
    after = i64(read_i32_be(data, place + BLOCK_SIZE)) & MASK
    until = i64(read_i32_be(data, place + BLOCK_SIZE + 4)) & MASK
    return distance(start, after) >= 0 and distance(end, until) <= 0


def sack_place(segment: Segment) -> i64:
    """Index of the first block of the SACK option, -1 without one, or where it was cut off."""
    data = segment.data
    offset = segment.header + TCP_HEADER_SIZE
    end = segment.start
    while offset + 2 <= end:
        kind: i64 = data[offset]
        if kind == 0:
            return -1
        if kind == 1:
            offset += 1
            continue
        length: i64 = data[offset + 1]
        if length < 2:
            return -1
        if kind == SACK:
            is_whole = length >= 2 + BLOCK_SIZE and offset + 2 + BLOCK_SIZE <= end
            return offset + 2 if is_whole else -1
        offset += length
    return -1
