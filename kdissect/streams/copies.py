"""Which packets the capture holds twice: a copy is no retransmission and tells nothing new.

`-i any`, a bridge and its ports, two taps, a mirror of both directions of a port, a tunnel whose
outer and inner packets are both captured: each shows one packet several times. Against a
retransmission, which was sent again, a copy has the same TCP header (checksum aside: the sender's
own network card fills it in late) and the same payload, and besides, in the order of the code:

IP id of both not 0    the same id, within SAME_ID_NS. Every sender that counts its packets gives a
                       retransmission another id; ids come again after 65536 packets at the soonest.
timestamps option      the same timestamps (being part of the header), within SAME_TIMESTAMP_NS.
                       For IPv6, which has no id, and for senders that say 0 for packets nobody may
                       fragment. Timestamps tick every 1 to 10 ms.
neither                within SAME_HEADER_NS: too soon for a retransmission, which takes a round
                       trip and more packets in between, or a timer of 200 ms.

The first copy counts, in every respect; what a later one holds of payload is duplicate.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.packets.segment import Segment

RECENT_SEGMENTS: Final = 512  # a power of two: 5 ms between two taps at 100 000 packets a second
SAME_ID_NS: Final = 1_000_000_000
# Shorter than the smallest retransmission timer (200 ms on Linux).
SAME_TIMESTAMP_NS: Final = 100_000_000
SAME_HEADER_NS: Final = 1_000_000

TCP_HEADER_SIZE: Final = 20
URGENT_OFFSET: Final = 18  # what follows the checksum
TIMESTAMPS: Final = 8  # RFC 7323


class Copies:
    """A ring of the last RECENT_SEGMENTS segments, of all connections."""

    __slots__ = ("_segments", "_next")

    def __init__(self) -> None:
        self._segments: list[Segment | None] = [None] * RECENT_SEGMENTS
        self._next: i64 = 0

    def add(self, segment: Segment) -> None:
        """Remember a segment in place of the oldest."""
        self._segments[self._next] = segment
        self._next = (self._next + 1) & (RECENT_SEGMENTS - 1)

    def has(self, segment: Segment) -> bool:
        """Whether the segment is a copy of one that was added."""
        at = self._next
        for _ in range(RECENT_SEGMENTS):
            at = (at - 1) & (RECENT_SEGMENTS - 1)
            earlier = self._segments[at]
            if earlier is None:
                return False
            if (
                earlier.sequence == segment.sequence
                and earlier.payload_length == segment.payload_length
                and is_copy(segment, earlier)
            ):
                return True
        return False


def is_copy(segment: Segment, earlier: Segment) -> bool:
    """Whether a segment is the same packet as an earlier one, see above."""
    if (
        segment.sequence != earlier.sequence
        or segment.acknowledgment != earlier.acknowledgment
        or segment.flags != earlier.flags
        or segment.window != earlier.window
        or segment.payload_length != earlier.payload_length
        or segment.ip_id != earlier.ip_id
        or segment.flow != earlier.flow
    ):
        return False
    apart = segment.time_ns - earlier.time_ns
    if apart < 0:
        apart = -apart
    limit = SAME_HEADER_NS
    if segment.ip_id > 0:
        limit = SAME_ID_NS
    elif has_timestamps(segment):
        limit = SAME_TIMESTAMP_NS
    return apart <= limit and has_same_bytes(segment, earlier)


def has_same_bytes(segment: Segment, earlier: Segment) -> bool:
    """Whether urgent pointer, options and payload agree, as far as both were captured."""
    mine = segment.header + URGENT_OFFSET
    its = earlier.header + URGENT_OFFSET
    size = min(segment.end - mine, earlier.end - its)
    return segment.data[mine : mine + size] == earlier.data[its : its + size]


def has_timestamps(segment: Segment) -> bool:
    """Whether the TCP header has the timestamps option."""
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
        # A length of 0 would stay at the same option for ever.
        if offset + 1 >= end or data[offset + 1] < 2:
            return False
        offset += data[offset + 1]
    return False
