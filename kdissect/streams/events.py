"""Output of the streams stage: `Chunk`, `Gap` and `End`, each of one direction of a `Connection`.

A position is a 64-bit count of stream bytes: 0 is the first byte after the SYN, or the first byte
seen when the capture starts in mid-connection.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from kdissect.streams.direction_counts import DirectionCounts

# Sides of a connection, and the direction named after the side that sends.
OPENER: Final = 0  # sent the SYN; without one, sent the first segment seen
ACCEPTER: Final = 1

CLOSED_BY_FIN: Final = "fin"
CLOSED_BY_RST: Final = "rst"
CLOSED_BY_REUSE: Final = "reuse"
CLOSED_BY_IDLE: Final = "idle"
CLOSED_BY_LIMIT: Final = "limit"
CAPTURE_ENDED: Final = "capture-end"

# Entries of each direct-mapped cache that finds the state of a connection without hashing.
CACHE_SIZE: Final = 1024  # a power of two

# `Connection.edge`: relation of a connection to the left edge of a split (docs/splits.md). Only
# `checkpoint` reads and sets it; stages ask the methods of `Connection`.
INSIDE: Final = 0  # began in the split, or the split is the whole capture
SUPPRESSED: Final = 1  # its results are not known to be right: the merger supplies them
FIRST_SEEN: Final = 2  # the same, and a request and its response were seen whole
SYNCHRONIZED: Final = (
    3  # results from here on are right if the whole capture comes to the same state
)
# `Connection.history_used`, bits: which history beyond the split was needed.
OWN_PAST: Final = 1  # of the connection
SHARED_PAST: Final = 2  # of others
PAST_GAPS: Final = 4  # whether bytes of the direction were missing before
PAST_IDS: Final = 8  # whether correlation ids were repeated before
# Of `Connection.ended_by`: the other side may have ended first, which was not captured.
UNKNOWN_SIDE: Final = 2

# Added to `Connection.tcp_events` by one segment: two counts in one number, so that a single
# difference between two moments yields both.
RETRANSMISSION: Final = 1
ZERO_WINDOW: Final = 1 << 32


@mypyc_attr(acyclic=True)
class Connection:
    """One TCP connection; counts grow until its `End`.

    `id` is the ordinal of its first packet, so it does not depend on how the capture is split.
    `flow` is the opener's direction (see `Segment.flow`). `handshake_rtt_ns` is SYN to the ACK of
    the SYN-ACK, `handshake_half_ns` its part between the tap and each side: SYN to SYN-ACK for the
    accepter, SYN-ACK to ACK for the opener; -1 if not seen whole. `rtt_ns` is the smallest round
    trip known so far, over both sides of the tap, or the one that is known; -1 while none is.
    `clear_directions` has a bit for each direction without TLS, set by the TLS stage. `edge` and
    `history_used` are for splits of captures, see above. `epoch` is that of the capture's clock at
    `last_time_ns` (see `clock`), `clock_steps` counts the changes of the clock since.
    """

    __slots__ = (
        "id", "capture", "flow", "first_time_ns", "last_time_ns", "first_packet", "syn_seen",
        "start_seen", "handshake_rtt_ns", "handshake_half_ns", "min_rtt_ns", "rtt_ns", "counts",
        "tcp_events", "closed_by", "ended_by", "clear_directions", "edge", "history_used", "given",
        "epoch", "clock_steps", "unframed",
    )  # fmt: skip

    def __init__(
        self, connection_id: i64, capture: i64, flow: bytes, time_ns: i64, packet: i64
    ) -> None:
        self.id = connection_id
        self.capture = capture
        self.flow = flow
        self.first_time_ns = time_ns
        self.last_time_ns = time_ns
        self.first_packet = packet
        self.syn_seen: bool = False
        # By direction: whether the start of its stream is known.
        self.start_seen: tuple[bool, bool] = (False, False)
        self.handshake_rtt_ns: i64 = -1
        self.handshake_half_ns: tuple[i64, i64] = (-1, -1)
        # Smallest data → ACK time seen, by the acknowledging side: the tap to that side.
        self.min_rtt_ns: tuple[i64, i64] = (-1, -1)
        self.rtt_ns: i64 = -1
        self.counts = (DirectionCounts(), DirectionCounts())
        # Retransmitted segments so far times RETRANSMISSION, and zero windows times ZERO_WINDOW,
        # both directions: differences of it are set on exchanges.
        self.tcp_events: i64 = 0
        self.epoch: i64 = 0
        self.clock_steps: i64 = 0
        self.closed_by: str = ""
        # Direction of the first FIN or RST; -1 while there is none, UNKNOWN_SIDE.
        self.ended_by: i64 = -1
        self.clear_directions: i64 = 0
        self.edge: i64 = INSIDE
        self.history_used: i64 = 0
        # Number of its exchanges.
        self.given: i64 = 0
        # At its end: directions, as bits, in which the last frames may have been missed.
        self.unframed: i64 = 0

    def use_history(self, history: i64) -> None:
        """Note that a result depends on earlier packets: OWN_PAST, SHARED_PAST and so on."""
        self.history_used |= history

    def lacks_history(self) -> bool:
        """Return whether the connection began before the split, whose merger has that part."""
        return self.edge != INSIDE

    def is_suppressed(self) -> bool:
        """Return whether its results are discarded: the merger replays it up to here."""
        return self.edge == SUPPRESSED or self.edge == FIRST_SEEN

    def is_synchronized(self) -> bool:
        """Return whether it lacks history, and its results have been valid since some packet."""
        return self.edge == SYNCHRONIZED

    def may_have_missed(self, direction: i64) -> bool:
        """Return whether bytes of a direction are missing, or the connection lacks history."""
        return self.gaps_in(direction) > 0 or self.edge != INSIDE

    def is_start_seen(self, direction: i64) -> bool:
        """Return whether the start of a direction's stream is known."""
        # Compiled, a tuple is boxed for a variable index.
        return self.start_seen[0] if direction == OPENER else self.start_seen[1]

    def set_start_seen(self, direction: i64, is_seen: bool) -> None:
        """Set whether the start of a direction's stream is known."""
        of_opener, of_accepter = self.start_seen
        self.start_seen = (is_seen, of_accepter) if direction == OPENER else (of_opener, is_seen)

    def note_round_trip(self, side: i64, round_trip: i64) -> None:
        """Note a time from data to the acknowledgment by one side; the smallest one counts."""
        to_opener, to_accepter = self.min_rtt_ns
        smallest = to_opener if side == OPENER else to_accepter
        if 0 <= smallest <= round_trip:
            return
        both = (round_trip, to_accepter) if side == OPENER else (to_opener, round_trip)
        self.min_rtt_ns = both
        self.refresh_rtt()

    def note_handshake_half(self, side: i64, time_ns: i64) -> None:
        """Set the part of the handshake between the tap and one side."""
        to_opener, to_accepter = self.handshake_half_ns
        self.handshake_half_ns = (time_ns, to_accepter) if side == OPENER else (to_opener, time_ns)
        self.refresh_rtt()

    def gaps_in(self, direction: i64) -> i64:
        """Gaps in one direction."""
        return self.counts[0].gaps if direction == 0 else self.counts[1].gaps

    def refresh_rtt(self) -> None:
        """Update `rtt_ns`, after one of its parts got smaller or known."""
        to_opener = smaller(self.handshake_half_ns[0], self.min_rtt_ns[0])
        to_accepter = smaller(self.handshake_half_ns[1], self.min_rtt_ns[1])
        if to_opener < 0 or to_accepter < 0:
            self.rtt_ns = max(to_opener, to_accepter)
        else:
            self.rtt_ns = to_opener + to_accepter


def smaller(one: i64, other: i64) -> i64:
    """The smaller of two times of which each may be unknown, -1."""
    if one < 0 or other < 0:
        return max(one, other)
    return min(one, other)


@mypyc_attr(acyclic=True)
class Event:
    """Base of the events of the streams stage."""

    __slots__ = ("connection", "direction", "position", "time_ns", "packet", "ordinal", "capture")

    def __init__(
        self,
        connection: Connection,
        direction: i64,
        position: i64,
        time_ns: i64,
        packet: i64,
        ordinal: i64,
        capture: i64,
    ) -> None:
        self.connection = connection
        self.direction = direction
        self.position = position
        self.time_ns = time_ns
        self.packet = packet
        self.ordinal = ordinal
        self.capture = capture


@mypyc_attr(acyclic=True, free_list_len=1)
class Chunk(Event):
    """Stream bytes ``data[start:end]``, the first at `position`, in order and each once.

    `seen` is for `RecentChunks`: the number of segments at that time.
    """

    __slots__ = ("data", "start", "end", "seen")

    def __init__(
        self,
        connection: Connection,
        direction: i64,
        position: i64,
        time_ns: i64,
        packet: i64,
        ordinal: i64,
        capture: i64,
        data: bytes,
        start: i64,
        end: i64,
    ) -> None:
        # Without a call of the base: one chunk is created for every packet with payload.
        self.connection = connection
        self.direction = direction
        self.position = position
        self.time_ns = time_ns
        self.packet = packet
        self.ordinal = ordinal
        self.capture = capture
        self.data = data
        self.start = start
        self.end = end
        self.seen: i64 = 0


@mypyc_attr(acyclic=True)
class Gap(Event):
    """`length` stream bytes from `position` on that are missing in the capture.

    `is_acknowledged`: the receiver acknowledged them, so the capture lost them, not the network.
    `is_cut`: the packet was captured, but the snaplen cut these bytes off. `is_exact`: false if the
    missing data was encrypted and may not be `length` bytes.
    """

    __slots__ = ("length", "is_acknowledged", "is_cut", "is_exact")

    def __init__(
        self,
        connection: Connection,
        direction: i64,
        position: i64,
        time_ns: i64,
        packet: i64,
        ordinal: i64,
        capture: i64,
        length: i64,
        is_acknowledged: bool,
        is_cut: bool,
        is_exact: bool = True,
    ) -> None:
        super().__init__(connection, direction, position, time_ns, packet, ordinal, capture)
        self.length = length
        self.is_acknowledged = is_acknowledged
        self.is_cut = is_cut
        self.is_exact = is_exact


@mypyc_attr(acyclic=True)
class End(Event):
    """The connection is over, both directions; `reason` is one of the CLOSED_BY_ words.

    `direction` and `position` are not used. It is the connection's last event.
    """

    __slots__ = ("reason",)

    def __init__(
        self, connection: Connection, time_ns: i64, packet: i64, ordinal: i64, capture: i64,
        reason: str,
    ) -> None:  # fmt: skip
        super().__init__(connection, OPENER, -1, time_ns, packet, ordinal, capture)
        self.reason = reason
