"""What segments of one side show of the network beside their bytes: counts, and no event.

duplicate ACK     a segment without payload that repeats the acknowledgment and the window of the
                  one before, while later data was seen: something before that data is missing
zero window       the side takes nothing more: from the segment that says so to one that does not
keepalive         no payload, or one byte of any value, at the byte before the next one
window probe      the same, or one new byte, while the other side's window is closed
sent again        see `is_sent_again`; fast when duplicate ACKs asked for it, spurious when what it
                  holds was acknowledged before
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from kdissect.packets.segment import Segment
from kdissect.streams.acknowledged import REORDER_NS
from kdissect.streams.events import ZERO_WINDOW, Connection, DirectionCounts
from kdissect.streams.sequence import distance

# RFC 5681 asks for three; with SACK the sender may be sure after two, as Wireshark assumes.
FAST_AFTER: Final = 2
# Linux' smallest retransmission timer: what comes later than this was not asked for.
RTO_NS: Final = 200_000_000
# Taken for the round trip while none was seen, as by Wireshark.
USUAL_RTT_NS: Final = 3_000_000


@mypyc_attr(acyclic=True)
class TcpAnalysis:
    """What was seen of one side so far, counted in `counts`, those of the direction it sends.

    `repeated` is the acknowledgment number that `repeats` duplicate ACKs said again, the latest
    at `repeated_ns`; `closed_ns` is the time its window closed, -1 while it is open.
    """

    __slots__ = ("connection", "counts", "repeated", "repeats", "repeated_ns", "closed_ns")

    def __init__(self, connection: Connection, counts: DirectionCounts) -> None:
        self.connection = connection
        self.counts = counts
        self.repeated: i64 = -1
        self.repeats: i64 = 0
        self.repeated_ns: i64 = 0
        self.closed_ns: i64 = -1

    def note_duplicate_ack(self, segment: Segment) -> None:
        """The segment repeats an acknowledgment."""
        self.counts.duplicate_acks += 1
        if segment.acknowledgment != self.repeated:
            self.repeated = segment.acknowledgment
            self.repeats = 0
        self.repeats += 1
        self.repeated_ns = segment.time_ns

    def forget_times(self) -> None:
        """The clock was set: what was seen before has no time any more."""
        self.repeats = 0
        self.closed_ns = -1

    def note_zero_window(self, now: i64) -> None:
        """A segment says that the window is closed."""
        self.counts.zero_windows += 1
        self.connection.tcp_events += ZERO_WINDOW
        if self.closed_ns < 0:
            self.closed_ns = now

    def note_open_window(self, now: i64) -> None:
        """A segment says that it is open, or nothing more comes."""
        if self.closed_ns >= 0:
            self.counts.zero_window_ns += max(0, now - self.closed_ns)
            self.closed_ns = -1

    def asks_for(self, segment: Segment, count: i64) -> bool:
        """Whether at least `count` duplicate ACKs of this side ask for a segment of the other."""
        return (
            self.repeats >= count
            and 0 <= segment.time_ns - self.repeated_ns < RTO_NS
            and distance(segment.sequence, self.repeated) >= 0
        )

    def is_sent_again(self, segment: Segment, later_ns: i64) -> bool:
        """Whether a segment of the other side that fills a hole was sent twice, the first one lost.

        Otherwise it is out of order: the network, or the capture, had it overtaken. `later_ns` is
        the time of the segment behind the hole. A sender knows of a loss after a round trip at the
        soonest, and by duplicate ACKs or a timer.
        """
        waited = segment.time_ns - later_ns
        if waited >= REORDER_NS:
            return True
        return waited >= round_trip(self.connection) and self.asks_for(segment, 1)


def round_trip(connection: Connection) -> i64:
    """The round trip of a connection in ns, as far as one was seen."""
    if connection.handshake_rtt_ns >= 0:
        return connection.handshake_rtt_ns
    to_opener: i64 = connection.min_rtt_ns[0]
    to_accepter: i64 = connection.min_rtt_ns[1]
    if to_opener >= 0 and to_accepter >= 0:
        return to_opener + to_accepter
    return USUAL_RTT_NS
