"""Counts of one direction of a connection, and the columns of `connections` that they are."""

from typing import Final, NamedTuple

from mypy_extensions import i64, mypyc_attr

LONGEST: Final = "unacknowledged_ns"  # the only count that is a maximum, not a sum


@mypyc_attr(acyclic=True)
class DirectionCounts:
    """Counts of one direction of a connection; bytes are TCP payload unless stated otherwise.

    Those that are columns have an entry in BYTE_COUNTERS or SEGMENT_COUNTERS.
    """

    __slots__ = (
        "packets", "wire_bytes", "payload_bytes", "delivered_bytes", "duplicate_bytes",
        "cut_bytes", "missing_bytes", "gaps", "retransmitted_segments", "out_of_order_segments",
        "zero_windows", "duplicate_packets", "duplicate_packet_bytes", "fin_seen", "rst_seen",
        "capture_lost_bytes", "missing_cut_bytes", "network_lost_bytes", "fast_retransmits",
        "spurious_retransmits", "duplicate_acks", "zero_window_ns", "window_probes", "keepalives",
        "unacknowledged_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.packets: i64 = 0
        # Captured and truncated payload bytes as declared by the IP headers.
        self.wire_bytes: i64 = 0
        # Captured payload bytes: delivered_bytes + duplicate_bytes (+ what is still held).
        self.payload_bytes: i64 = 0
        self.delivered_bytes: i64 = 0
        self.duplicate_bytes: i64 = 0
        # On the wire, but cut off by the snaplen.
        self.cut_bytes: i64 = 0
        # Bytes of all gaps delivered, truncated ones included.
        self.missing_bytes: i64 = 0
        # Of them, acknowledged by the receiver: lost by the capture, not the network.
        self.capture_lost_bytes: i64 = 0
        # Of them, cut off by the snaplen.
        self.missing_cut_bytes: i64 = 0
        self.gaps: i64 = 0
        # Segments that repeat bytes, or fill a hole left by their first copy.
        self.retransmitted_segments: i64 = 0
        self.fast_retransmits: i64 = 0
        self.spurious_retransmits: i64 = 0
        # Payload of retransmitted segments that are not spurious (see resent.py).
        self.network_lost_bytes: i64 = 0
        self.out_of_order_segments: i64 = 0
        # For the side that sends in this direction; see tcp_analysis.py.
        self.duplicate_acks: i64 = 0
        # The longest time for which bytes or a SYN were sent again: LONGEST.
        self.unacknowledged_ns: i64 = 0
        self.zero_windows: i64 = 0
        self.zero_window_ns: i64 = 0
        self.window_probes: i64 = 0
        self.keepalives: i64 = 0
        # Duplicate packets (see duplicates.py), and their part of duplicate_bytes.
        self.duplicate_packets: i64 = 0
        self.duplicate_packet_bytes: i64 = 0
        self.fin_seen: bool = False
        self.rst_seen: bool = False

    def forget_longest(self) -> None:
        """Begin anew with the maximum, from which no earlier value can be subtracted later."""
        self.unacknowledged_ns = 0


class Counter(NamedTuple):
    """Two columns of `connections`, one for each direction, from its `DirectionCounts`.

    `source` is the code of the value, for `tables.writers_source`; the attribute `name` without.
    """

    name: str
    unit: str
    meaning: str
    source: str = ""


BYTE_COUNTERS: Final = (
    Counter("packets", "", "TCP segments"),
    Counter(
        "bytes", "bytes", "payload on the wire as the IP headers declare it, repeats included",
        source="{counts}.wire_bytes",
    ),
    Counter("payload_bytes", "bytes", "captured TCP payload"),
    Counter(
        "retransmitted_bytes", "bytes",
        "captured payload that had been seen before, duplicate packets aside",
        source="retransmitted_bytes({counts})",
    ),
    Counter(
        "network_lost_bytes", "bytes",
        "payload retransmitted before it was acknowledged: lost by the network, before or after "
        "the tap; without what the receiver had already (D-SACK)",
    ),
    Counter("missing_bytes", "bytes", "payload missing in the capture"),
    Counter(
        "capture_lost_bytes", "bytes",
        "part of missing_bytes that the receiver acknowledged: lost by the capture, not by the "
        "network",
    ),
    Counter(
        "cut_bytes", "bytes", "part of missing_bytes cut off by the snaplen",
        source="{counts}.missing_cut_bytes",
    ),
)  # fmt: skip
SEGMENT_COUNTERS: Final = (
    Counter("gaps", "", "holes in the payload"),
    Counter(
        "retransmitted_segments", "",
        "segments that repeat bytes, or fill a hole left before the tap; without keepalives and "
        "window probes",
    ),
    Counter("fast_retransmits", "", "retransmissions after two or more duplicate ACKs"),
    Counter("spurious_retransmits", "",
        "retransmissions of bytes that the receiver had: it had acknowledged all, or reports them "
        "as duplicate (D-SACK)"),
    Counter("unacknowledged_ns", "ns",
        "longest time from sending data or a SYN to its latest retransmission, without an "
        "acknowledgment"),
    Counter("duplicate_acks", "", "duplicate ACKs of the sender, which report a hole"),
    Counter("duplicate_packets", "",
        "packets captured twice; no other counter includes the second"),
    Counter("duplicate_packet_bytes", "bytes", "captured payload of duplicate packets"),
    Counter("out_of_order_segments", "", "segments that arrived after later ones"),
    Counter("zero_windows", "", "segments in which the sender announced a zero window"),
    Counter("zero_window_ns", "ns", "time during which the sender's receive window was zero"),
    Counter("window_probes", "", "probes of a zero window"),
    Counter("keepalives", "", "TCP keepalives"),
)  # fmt: skip
