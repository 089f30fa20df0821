"""The left edge of a split: connections from before it, and the point from which their rows count.

A split is dissected alone. A connection without a SYN in it began earlier, or its SYN was lost; the
split cannot distinguish the two. States of a connection (`Connection.edge`):

    INSIDE        its SYN is in the split: its rows count from the first one
    SUPPRESSED    older, or possibly older: rows are dropped and segments kept, in a `Prefix`
    FIRST_SEEN    as SUPPRESSED, after a request and its response were seen whole
    SYNCHRONIZED  its rows count from here on, if the merger comes to the same state

    first segment with SYN ──▶ INSIDE
    first segment without  ──▶ SUPPRESSED ──request and response whole──▶ FIRST_SEEN
    SUPPRESSED, FIRST_SEEN ──`can_synchronize`──▶ SYNCHRONIZED          (the prefix ends)
    SUPPRESSED, FIRST_SEEN ──more segments than may be kept──▶ the merger reads the split again

A connection can be synchronized when its further rows no longer depend on the past, as far as the
split can determine: both directions are cut into frames, a request seen whole is answered (so all
before it are), and no round trip is timed that began earlier. The state at that moment is kept
(`sync_state`). The merger knows the past: it replays the prefix and compares. Where the two differ,
and where something later needed the past after all (`Connection.history_used`), the split's rows of
the connection are replaced by the merger's.

Example. A split begins in the middle of a connection that has two requests waiting. The response to
the first one comes (segment 1), a request (2), the second response (3), its own response (4). All
four segments are in the prefix; with 4 the request of 2 is answered, both directions are at a size
field, so the connection is synchronized at 4, and exchanges from 5 on are rows of the split. The
merger, which knows the two requests, makes the rows of 1 to 4.

A repeated segment may be a copy of a packet from before the connection was synchronized (see
`streams.duplicates`). So the prefix also records the lookups made for such segments with their
results, for the merger to repeat. Longer than other modules: one state machine, with the diagram
above.
"""

from typing import Any, Final, NamedTuple

from librt.strings import read_i32_be, read_i64_be
from librt.vecs import vec
from mypy_extensions import i64

from kdissect.checkpoint.group_history import GroupHistory
from kdissect.checkpoint.split_sink import SplitSink
from kdissect.checkpoint.synchronization import NOTHING_COUNTED, FramingStates, counted, sync_state
from kdissect.dissection.totals import CaptureTotals
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.groups import Learned
from kdissect.exchanges.pairing import Exchanges
from kdissect.framing.frames import IN_BODY, Frames
from kdissect.packets.segment import ACK, NO_FLOW, SYN, Segment, flow_of
from kdissect.streams.connections import SPREAD, Repeat, Streams, own_copy, reverse_flow
from kdissect.streams.duplicates import RECENT_SEGMENTS
from kdissect.streams.events import FIRST_SEEN, SHARED_PAST, SUPPRESSED, SYNCHRONIZED, Connection
from kdissect.streams.receiver import Receiver
from kdissect.streams.recent_chunks import RECENT_SEGMENTS as CHUNKS_OF_SEGMENTS
from kdissect.streams.recent_chunks import Comparison
from kdissect.tls.stage import Tls

# Bytes of segments that one prefix may hold, and all prefixes of a split.
PREFIX_BYTES: Final = 8 << 20
PREFIX_BYTES_IN_ALL: Final = 128 << 20
SEGMENT_COST: Final = 300  # bytes that a kept segment takes beside its payload, approximately
BOTH: Final = 3
# Of the table that tells most segments apart from those of growing prefixes: a power of two.
BUCKETS: Final = 4096
OF_IPV4: Final = 12  # bytes of a flow


class Prefix:
    """The first segments of one flow (both directions) in a split, until it is synchronized.

    `places` holds for each segment the number of segments in the split up to it. `is_cut`: there
    were too many to keep. `ids` are of all connections on the flow. Of the synchronization: `state`
    is the state then (see `sync_state`), `at` the counts, `place` that of the last segment; `steps`
    are ``(row, to opener, to accepter)``: the smallest round trips of the connection from that
    exchange on. `repeats` are the lookups since then whose results depend on the past. `bucket` is
    that of its flow while it grows, see `bucket_of`.
    """

    __slots__ = (
        "flow", "connection", "ids", "segments", "places", "size", "is_cut", "quiet",
        "is_synchronized", "synchronized", "synchronized_id", "state", "at", "place", "repeats",
        "steps", "rows", "bucket",
    )  # fmt: skip

    def __init__(self, connection: Connection, bucket: i64) -> None:
        self.bucket = bucket
        self.flow = connection.flow
        self.connection = connection
        self.ids: list[int] = [connection.id]
        self.segments: list[Segment] = []
        self.places: list[int] = []
        self.size: i64 = 0
        self.is_cut: bool = False
        self.quiet: i64 = 0
        self.is_synchronized: bool = False
        # The synchronized connection, and its id in the split.
        self.synchronized = connection
        self.synchronized_id: i64 = -1
        self.state: tuple[Any, ...] = ()
        self.at = NOTHING_COUNTED
        self.place: i64 = 0
        self.repeats: list[Repeat] = []
        self.steps: list[tuple[int, int, int]] = []
        self.rows: i64 = 0


class Ended:
    """A synchronized connection that ended in the split; framed and skipped bytes are by
    direction.
    """

    __slots__ = ("state", "framed", "skipped")

    def __init__(
        self, state: ConnectionState, framed: tuple[int, int], skipped: tuple[int, int]
    ) -> None:
        self.state = state
        self.framed = framed
        self.skipped = skipped


class InsideEnded(NamedTuple):
    """A connection that began and ended in a split: `counts` are as `OF_CONNECTIONS` names them."""

    connection_id: int
    exchanges: int
    protocol: str
    counts: tuple[int, ...]


class LeftEdge:
    """Connections of a split that may have existed before it."""

    __slots__ = (
        "streams", "frames", "exchanges", "tls", "sink", "is_first", "prefixes", "open",
        "count", "size", "born_flows", "born_ids", "ended", "deferred", "history_used_ids",
        "locked_ids", "inside_ended", "used_flows", "used_again", "groups", "news", "_growing",
    )  # fmt: skip

    def __init__(
        self,
        streams: Streams,
        frames: Frames,
        exchanges: Exchanges,
        tls: Tls,
        sink: SplitSink,
        is_first: bool,
    ) -> None:
        self.streams = streams
        self.frames = frames
        self.exchanges = exchanges
        self.tls = tls
        self.sink = sink
        # Nothing precedes it.
        self.is_first = is_first
        # By both flows of a connection.
        self.prefixes: dict[bytes, Prefix] = {}
        # Number of prefixes that are still growing, in all and by bucket.
        self.open: i64 = 0
        self._growing: vec[i64] = vec[i64]([0] * (BUCKETS + 1))
        self.count: i64 = 0
        self.size: i64 = 0
        # Connections whose first segment is a SYN.
        self.born_flows: list[bytes] = []
        self.born_ids: list[int] = []
        self.ended: list[Ended] = []
        # Exchanges that only the past of a fetch session can complete, and their round trips.
        self.deferred: list[tuple[Exchange, int, int]] = []
        # Ended connections that used the history of others; TLS without keys; all that ended.
        self.history_used_ids: list[int] = []
        self.locked_ids: list[int] = []
        self.inside_ended: list[InsideEnded] = []
        # For the first split: flows of all connections, and flows that had more than one.
        self.used_flows: set[bytes] = set()
        self.used_again: set[bytes] = set()
        self.groups = GroupHistory(exchanges.bodies.groups)
        # Its list: asked for with each segment.
        self.news: list[Learned] = self.groups.news
        streams.notes_opened = True

    def note(self, segment: Segment) -> Prefix | None:
        """Note a segment, each in turn; return the growing prefix that it extends, if any."""
        if self.news:
            self.groups.take(self.count)
        self.count += 1
        if self.streams.repeats:
            repeats, self.streams.repeats = self.streams.repeats, []
            for repeat in repeats:
                self._repeated(repeat)
        if self.streams.opened:
            opened, self.streams.opened = self.streams.opened, []
            for connection in opened:
                self._opened(connection, segment)
        if self.open == 0 or self._growing[bucket_of(segment)] == 0:
            return None
        prefix = self.prefixes.get(flow_of(segment))
        if prefix is None or prefix.is_synchronized or prefix.is_cut:
            return None
        self._keep(prefix, segment)
        return prefix

    def can_synchronize(self, prefix: Prefix) -> bool:
        """Return whether the connection of the prefix visibly no longer depends on its past."""
        connection = prefix.connection
        receiver = self.streams.receiver_of(connection.flow)
        if receiver is None or receiver.connection is not connection:
            return False
        prefix.quiet |= quiet_bit(receiver) | quiet_bit(receiver.peer)
        if prefix.quiet != BOTH or self.tls.has_session(connection) or connection.closed_by:
            return False
        state = self.exchanges.states.get(connection.id)
        if state is None:
            return False
        framings = self.frames.framings(connection)
        if connection.edge != FIRST_SEEN and not is_first_answered(state, framings):
            return False
        known = sync_state(receiver, framings, state)
        if known is None:
            return False
        prefix.state = known
        prefix.at = counted(receiver, framings, state)
        return True

    def synchronize(self, prefix: Prefix) -> None:
        """Synchronize the connection: its output counts from here on. `can_synchronize` must have
        held.
        """
        connection = prefix.connection
        prefix.is_synchronized = True
        prefix.synchronized = connection
        prefix.synchronized_id = connection.id
        prefix.place = self.count
        self._end_growth(prefix)
        self.sink.release(connection.id)
        # A connection that speaks Kafka is not TLS.
        self.tls.set_clear(connection)
        connection.history_used = 0
        # Round trips and waits measured since then apply to the whole too.
        connection.min_rtt_ns = (-1, -1)
        for counts in connection.counts:
            counts.forget_longest()
        connection.edge = SYNCHRONIZED

    def step(self, exchange: Exchange) -> None:
        """Count another exchange of a synchronized connection that gets its row."""
        connection = exchange.connection
        prefix = self.prefixes[connection.flow]
        to_opener, to_accepter = connection.min_rtt_ns
        if not prefix.steps or prefix.steps[-1][1:] != (to_opener, to_accepter):
            prefix.steps.append((prefix.rows, to_opener, to_accepter))
        prefix.rows += 1

    def defer(self, exchange: Exchange) -> None:
        """Defer rows of an exchange that wait for its fetch session's past; batches do not wait."""
        if exchange.partitions is not None:
            exchange.partitions.held = None
        to_opener, to_accepter = exchange.connection.min_rtt_ns
        self.deferred.append((exchange, to_opener, to_accepter))

    def end_inside(self, state: ConnectionState, is_locked: bool, share: CaptureTotals) -> None:
        """End a connection that began in the split; locked: TLS that could not be read.

        `share` is what is counted of it, except for its exchanges.
        """
        connection = state.connection
        self.inside_ended.append(
            InsideEnded(connection.id, connection.given, state.protocol, share.of_connections())
        )
        if connection.history_used & SHARED_PAST:
            self.history_used_ids.append(connection.id)
        if is_locked:
            self.locked_ids.append(connection.id)

    def _opened(self, connection: Connection, segment: Segment) -> None:
        if self.is_first:
            if connection.flow in self.used_flows:
                self.used_again.add(connection.flow)
                self.used_again.add(reverse_flow(connection.flow))
            self.used_flows.add(connection.flow)
            self.used_flows.add(reverse_flow(connection.flow))
            return
        prefix = self.prefixes.get(connection.flow)
        if prefix is not None:
            prefix.ids.append(connection.id)
            if not prefix.is_synchronized:
                prefix.connection = connection
                self._suppress(connection)
        elif segment.flags & (SYN | ACK) == SYN:
            self.born_flows.append(connection.flow)
            self.born_ids.append(connection.id)
        else:
            prefix = Prefix(connection, bucket_of(segment))
            self.prefixes[connection.flow] = prefix
            self.prefixes[reverse_flow(connection.flow)] = prefix
            self.open += 1
            self._growing[prefix.bucket] += 1
            self._suppress(connection)

    def _repeated(self, repeat: Repeat) -> None:
        """Keep a lookup whose result depends on segments from before the synchronization."""
        prefix = self.prefixes[repeat.flow]
        if repeat.number - 1 - RECENT_SEGMENTS >= prefix.place:
            return
        is_asked = repeat.limit >= 0 and repeat.place < prefix.place
        compared = older(repeat, prefix.place)
        if is_asked or compared is not None:
            limit = repeat.limit if is_asked else -1
            mark, place = repeat.mark, repeat.place
            prefix.repeats.append(Repeat(repeat.flow, repeat.number, mark, limit, place, compared))

    def _suppress(self, connection: Connection) -> None:
        connection.edge = SUPPRESSED
        self.sink.suppress(connection.id)

    def _keep(self, prefix: Prefix, segment: Segment) -> None:
        size = SEGMENT_COST + segment.end - segment.header
        if prefix.size + size > PREFIX_BYTES or self.size + size > PREFIX_BYTES_IN_ALL:
            prefix.is_cut = True
            self._end_growth(prefix)
            return
        prefix.size += size
        self.size += size
        prefix.segments.append(own_copy(segment))
        prefix.places.append(self.count)

    def _end_growth(self, prefix: Prefix) -> None:
        self.open -= 1
        self._growing[prefix.bucket] -= 1


def bucket_of(segment: Segment) -> i64:
    """Bucket of a segment's flow, the same in both directions; BUCKETS for all of IPv6."""
    addresses = segment.addresses
    ports = segment.ports
    if addresses == NO_FLOW:
        flow = flow_of(segment)
        if len(flow) != OF_IPV4:
            return BUCKETS
        addresses = read_i64_be(flow, 0)
        ports = i64(read_i32_be(flow, 8))
    hosts = (addresses ^ addresses >> 32) & 0xFFFF_FFFF
    mixed = hosts ^ (ports ^ ports >> 16) & 0xFFFF
    return mixed * SPREAD >> 20 & (BUCKETS - 1)


def older(repeat: Repeat, synchronized: i64) -> list[Comparison] | None:
    """Chunks up to the synchronization to compare a segment with; None if none may match."""
    compared = repeat.compared
    if compared is None or repeat.number - CHUNKS_OF_SEGMENTS >= synchronized:
        return None
    found: list[Comparison] = []
    for one in compared:
        if one[0] <= synchronized:
            found.append(one)
        elif one[1] <= 0:
            # Lookups go no further.
            return None
    return found


def is_first_answered(state: ConnectionState, framings: FramingStates) -> bool:
    """Return whether an incoming response answers the first of the waiting requests.

    All requests before it were answered then.
    """
    if state.request_direction < 0 or state.pending_head >= len(state.pending):
        return False
    framing = framings[1 - state.request_direction]
    if framing is None or framing.state != IN_BODY or not framing.parts:
        return False
    first = framing.parts[0]
    if len(first) < 4:
        return False
    return i64(read_i32_be(first, 0)) == state.pending[state.pending_head].correlation_id


def quiet_bit(receiver: Receiver) -> i64:
    """Bit of a direction without unacknowledged data."""
    if receiver.timed_position >= 0 or receiver.next_sequence < 0:
        return 0
    if receiver.peer.latest_acknowledgment != receiver.next_sequence:
        return 0
    return 1 << receiver.direction
