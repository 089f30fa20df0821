"""TCP analysis of the segments of one side: counts, no events.

duplicate ACK     a segment without payload that repeats the acknowledgment and the window of the
                  one before, while later data was seen: something before that data is missing
zero window       no more data accepted: from the segment that announces it to one that does not
keepalive         no payload, or one byte of any value, at the byte before the next one
window probe      the same, or one new byte, while the other side's window is closed
sent again        see `is_sent_again`; fast when duplicate ACKs asked for it, spurious when what it
                  holds was acknowledged before, or is reported as duplicate (see `resent`)
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from kdissect.packets.segment import Segment
from kdissect.streams.acknowledged import REORDER_NS
from kdissect.streams.events import Connection
from kdissect.streams.sequence import distance

# RFC 5681 requires three; with SACK the sender may be sure after two, as Wireshark assumes.
FAST_AFTER: Final = 2
# Linux' smallest retransmission timer: a later segment was not requested.
RTO_NS: Final = 200_000_000
# Assumed round trip while none was seen, as by Wireshark.
USUAL_RTT_NS: Final = 3_000_000


@mypyc_attr(acyclic=True)
class TcpAnalysis:
    """Analysis state of one side; results go to the counts of the direction it sends.

    `repeated` is the acknowledgment number that `repeats` duplicate ACKs repeated, the latest at
    `repeated_ns`; `closed_ns` is the time its window closed, -1 while it is open.
    """

    __slots__ = ("repeated", "repeats", "repeated_ns", "closed_ns")

    def __init__(self) -> None:
        self.repeated: i64 = -1
        self.repeats: i64 = 0
        self.repeated_ns: i64 = 0
        self.closed_ns: i64 = -1

    def note_duplicate_ack(self, segment: Segment) -> None:
        """Process a segment that repeats an acknowledgment."""
        if segment.acknowledgment != self.repeated:
            self.repeated = segment.acknowledgment
            self.repeats = 0
        self.repeats += 1
        self.repeated_ns = segment.time_ns

    def forget_times(self) -> None:
        """Discard earlier times after a change of the clock."""
        self.repeats = 0
        self.closed_ns = -1

    def note_zero_window(self, now: i64) -> None:
        """Process a segment that announces a closed window."""
        if self.closed_ns < 0:
            self.closed_ns = now

    def note_open_window(self, now: i64) -> i64:
        """Process the end of a closed window; return for how long it was closed."""
        closed = max(0, now - self.closed_ns)
        self.closed_ns = -1
        return closed

    def asks_for(self, segment: Segment, count: i64) -> bool:
        """Return whether this side sent at least `count` duplicate ACKs for one segment."""
        return (
            self.repeats >= count
            and 0 <= segment.time_ns - self.repeated_ns < RTO_NS
            and distance(segment.sequence, self.repeated) >= 0
        )

    def is_sent_again(self, segment: Segment, later_ns: i64, round_trip: i64) -> bool:
        """Return whether a segment of the other side that fills a hole was resent after a loss.

        Otherwise it was reordered by the network or the capture. `later_ns` is the time of the
        segment after the hole. A sender detects a loss after a round trip at the soonest, by
        duplicate ACKs or a timer.
        """
        waited = segment.time_ns - later_ns
        if waited >= REORDER_NS:
            return True
        return waited >= round_trip and self.asks_for(segment, 1)


# Of all sides that did nothing unusual; it is never changed.
NO_ANALYSIS: Final = TcpAnalysis()


def known_round_trip(connection: Connection) -> i64:
    """Round trip of a connection in ns, as far as one was seen."""
    if connection.handshake_rtt_ns >= 0:
        return connection.handshake_rtt_ns
    to_opener: i64 = connection.min_rtt_ns[0]
    to_accepter: i64 = connection.min_rtt_ns[1]
    if to_opener >= 0 and to_accepter >= 0:
        return to_opener + to_accepter
    return USUAL_RTT_NS
