"""The left edge of a piece of a capture: connections from before it, and when to trust them.

A piece is dissected alone. A connection that has no SYN in it was begun before, or lost its SYN;
nobody can tell yet. It is muted: what comes out of it is thrown away, and its segments are kept,
its `Head`, for `stitch`, who knows the past and dissects them again. The head ends, and the
connection is joined, once what is known of it no longer depends on what came before it, as far as
one can tell: both directions are cut into frames, a request seen whole is answered (so all before
it are), no round trip is timed that began before. What was known then is kept too (`join_state`),
and `stitch` compares it with what it has come to itself. Where the two differ, and where something
later did ask for the past (`Connection.touched`), the piece's rows of the connection do not count.

What repeats something may be a copy of a packet from before the connection was joined (see
`streams.copies`). So the head also has what was asked about such segments and answered here, for
`stitch` to answer too.
"""

from typing import Any, Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from kdissect.boundaries.synchronization import NOTHING_COUNTED, Cuttings, counted, join_state
from kdissect.errors import Problem
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.pairing import Exchanges
from kdissect.framing.frames import IN_BODY, Frames
from kdissect.packets.segment import ACK, SYN, Segment, flow_of
from kdissect.streams.connections import Repeat, Streams, own_copy, reverse_flow
from kdissect.streams.duplicates import RECENT_SEGMENTS
from kdissect.streams.events import JOINED, MET, MUTED, SHARED_PAST, Connection
from kdissect.streams.receiver import Receiver
from kdissect.streams.recent_chunks import RECENT_SEGMENTS as CHUNKS_OF_SEGMENTS
from kdissect.streams.recent_chunks import Comparison
from kdissect.tls.stage import Tls

# Bytes of segments that one head may hold, and all of a piece.
HEAD_BYTES: Final = 8 << 20
HEAD_BYTES_IN_ALL: Final = 128 << 20
SEGMENT_COST: Final = 300  # bytes that a kept segment takes beside its payload, about
BOTH: Final = 3
OF_PACKETS: Final = ("capture", "packets")


class Head:
    """The first segments of one flow (both directions) in a piece, until it is joined.

    `places` are, for each segment, how many there were in the piece with it. `is_cut`: there were
    too many to be kept. `ids` are of all connections on the flow. Of the join: `state` is what was
    known (see `join_state`), `at` what was counted, `place` that of the last segment; `steps` are
    ``(row, to opener, to accepter)``: from that exchange of the connection on its smallest round
    trips were these. `repeats` are what was asked since then that the past has a say in.
    """

    __slots__ = (
        "flow", "connection", "ids", "segments", "places", "size", "is_cut", "quiet", "is_joined",
        "joined", "joined_id", "state", "at", "place", "repeats", "steps", "rows",
    )  # fmt: skip

    def __init__(self, connection: Connection) -> None:
        self.flow = connection.flow
        self.connection = connection
        self.ids: list[int] = [connection.id]
        self.segments: list[Segment] = []
        self.places: list[int] = []
        self.size: i64 = 0
        self.is_cut: bool = False
        self.quiet: i64 = 0
        self.is_joined: bool = False
        # The connection that was joined, and its id in the piece.
        self.joined = connection
        self.joined_id: i64 = -1
        self.state: tuple[Any, ...] = ()
        self.at = NOTHING_COUNTED
        self.place: i64 = 0
        self.repeats: list[Repeat] = []
        self.steps: list[tuple[int, int, int]] = []
        self.rows: i64 = 0


class Ended:
    """A joined connection that ended in the piece; framed and skipped bytes are by direction."""

    __slots__ = ("state", "framed", "skipped")

    def __init__(
        self, state: ConnectionState, framed: tuple[int, int], skipped: tuple[int, int]
    ) -> None:
        self.state = state
        self.framed = framed
        self.skipped = skipped


class Edges:
    """The connections of a piece that may have been there before it."""

    __slots__ = (
        "streams", "frames", "exchanges", "tls", "is_first", "heads", "open", "count", "size",
        "muted", "born_flows", "born_ids", "ended", "deferred", "touched_ids", "locked_ids",
        "inside_ended", "problem_counts", "of_packets", "used_flows", "used_again",
    )  # fmt: skip

    def __init__(
        self,
        streams: Streams,
        frames: Frames,
        exchanges: Exchanges,
        tls: Tls,
        is_first: bool,
    ) -> None:
        self.streams = streams
        self.frames = frames
        self.exchanges = exchanges
        self.tls = tls
        # There is nothing before it.
        self.is_first = is_first
        # By both flows of a connection.
        self.heads: dict[bytes, Head] = {}
        # Heads that go on growing.
        self.open: i64 = 0
        self.count: i64 = 0
        self.size: i64 = 0
        self.muted: set[int] = set()
        # Connections whose first segment is a SYN.
        self.born_flows: list[bytes] = []
        self.born_ids: list[int] = []
        self.ended: list[Ended] = []
        # Exchanges that only the past of a fetch session can complete, and their round trips.
        self.deferred: list[tuple[Exchange, int, int]] = []
        # Ended connections that asked for the past of others; TLS without keys; all that ended.
        self.touched_ids: list[int] = []
        self.locked_ids: list[int] = []
        self.inside_ended: set[int] = set()
        # Those of the stages that know no connections, for the whole to tell.
        self.of_packets: list[Problem] = []
        # Of the first piece: flows of all connections, and those that more than one had.
        self.used_flows: set[bytes] = set()
        self.used_again: set[bytes] = set()
        # By connection and kind.
        self.problem_counts: dict[tuple[int, str], int] = {}
        streams.notes_opened = True

    def note(self, segment: Segment) -> Head | None:
        """To be called with each segment: the head that goes on growing by it, if any."""
        self.count += 1
        if self.streams.repeats:
            repeats, self.streams.repeats = self.streams.repeats, []
            for repeat in repeats:
                self._repeated(repeat)
        if self.streams.opened:
            opened, self.streams.opened = self.streams.opened, []
            for connection in opened:
                self._opened(connection, segment)
        if self.open == 0:
            return None
        head = self.heads.get(flow_of(segment))
        if head is None or head.is_joined or head.is_cut:
            return None
        self._keep(head, segment)
        return head

    def can_join(self, head: Head) -> bool:
        """Whether the connection of the head no longer depends on its past, as far as one sees."""
        connection = head.connection
        receiver = self.streams.receiver_of(connection.flow)
        if receiver is None or receiver.connection is not connection:
            return False
        head.quiet |= quiet_bit(receiver) | quiet_bit(receiver.peer)
        if head.quiet != BOTH or self.tls.has_session(connection) or connection.closed_by:
            return False
        state = self.exchanges.states.get(connection.id)
        if state is None:
            return False
        cuttings = self.frames.cuttings(connection)
        if connection.edge != MET and not is_first_answered(state, cuttings):
            return False
        known = join_state(receiver, cuttings, state)
        if known is None:
            return False
        head.state = known
        head.at = counted(receiver, cuttings, state)
        return True

    def join(self, head: Head) -> None:
        """From here on what comes out of the connection counts; `can_join` has just said so."""
        connection = head.connection
        head.is_joined = True
        head.joined = connection
        head.joined_id = connection.id
        head.place = self.count
        self.open -= 1
        self.muted.discard(connection.id)
        # What speaks Kafka is no TLS.
        self.tls.set_clear(connection)
        connection.touched = 0
        # Those measured since then are the whole's too.
        connection.min_rtt_ns = [-1, -1]
        connection.edge = JOINED

    def step(self, exchange: Exchange) -> None:
        """One more exchange of a joined connection gets its row."""
        connection = exchange.connection
        head = self.heads[connection.flow]
        to_opener, to_accepter = connection.min_rtt_ns
        if not head.steps or head.steps[-1][1:] != (to_opener, to_accepter):
            head.steps.append((head.rows, to_opener, to_accepter))
        head.rows += 1

    def defer(self, exchange: Exchange) -> None:
        """An exchange of which some rows wait for the past of its fetch session; batches do not."""
        if exchange.partitions is not None:
            exchange.partitions.held = None
        to_opener, to_accepter = exchange.connection.min_rtt_ns
        self.deferred.append((exchange, to_opener, to_accepter))

    def end_inside(self, connection: Connection, is_locked: bool) -> None:
        """A connection that began in the piece is over; locked: TLS that could not be read."""
        self.inside_ended.add(connection.id)
        if connection.touched & SHARED_PAST:
            self.touched_ids.append(connection.id)
        if is_locked:
            self.locked_ids.append(connection.id)

    def count_problem(self, problem: Problem) -> bool:
        """Whether a problem counts here, which is counted then."""
        if problem.connection_id in self.muted:
            return False
        if problem.stage in OF_PACKETS:
            self.of_packets.append(problem)
            return False
        key = (problem.connection_id, problem.kind)
        self.problem_counts[key] = self.problem_counts.get(key, 0) + 1
        return True

    def _opened(self, connection: Connection, segment: Segment) -> None:
        if self.is_first:
            if connection.flow in self.used_flows:
                self.used_again.add(connection.flow)
                self.used_again.add(reverse_flow(connection.flow))
            self.used_flows.add(connection.flow)
            self.used_flows.add(reverse_flow(connection.flow))
            return
        head = self.heads.get(connection.flow)
        if head is not None:
            head.ids.append(connection.id)
            if not head.is_joined:
                head.connection = connection
                self._mute(connection)
        elif segment.flags & (SYN | ACK) == SYN:
            self.born_flows.append(connection.flow)
            self.born_ids.append(connection.id)
        else:
            head = Head(connection)
            self.heads[connection.flow] = head
            self.heads[reverse_flow(connection.flow)] = head
            self.open += 1
            self._mute(connection)

    def _repeated(self, repeat: Repeat) -> None:
        """Keep what was asked where what came before the join has a say in it."""
        head = self.heads[repeat.flow]
        if repeat.number - 1 - RECENT_SEGMENTS >= head.place:
            return
        is_asked = repeat.limit >= 0 and repeat.place < head.place
        compared = older(repeat, head.place)
        if is_asked or compared is not None:
            limit = repeat.limit if is_asked else -1
            mark, place = repeat.mark, repeat.place
            head.repeats.append(Repeat(repeat.flow, repeat.number, mark, limit, place, compared))

    def _mute(self, connection: Connection) -> None:
        connection.edge = MUTED
        self.muted.add(connection.id)

    def _keep(self, head: Head, segment: Segment) -> None:
        size = SEGMENT_COST + segment.end - segment.header
        if head.size + size > HEAD_BYTES or self.size + size > HEAD_BYTES_IN_ALL:
            head.is_cut = True
            self.open -= 1
            return
        head.size += size
        self.size += size
        head.segments.append(own_copy(segment))
        head.places.append(self.count)


def older(repeat: Repeat, joined: i64) -> list[Comparison] | None:
    """With which chunks up to the join a segment is compared; None where none may be."""
    compared = repeat.compared
    if compared is None or repeat.number - CHUNKS_OF_SEGMENTS >= joined:
        return None
    found: list[Comparison] = []
    for one in compared:
        if one[0] <= joined:
            found.append(one)
        elif one[1] <= 0:
            # Nobody looks further.
            return None
    return found


def is_first_answered(state: ConnectionState, cuttings: Cuttings) -> bool:
    """Whether a response is coming in that answers the first of the requests that wait.

    All before it were answered then.
    """
    if state.request_direction < 0 or state.pending_head >= len(state.pending):
        return False
    cutting = cuttings[1 - state.request_direction]
    if cutting is None or cutting.state != IN_BODY or not cutting.parts:
        return False
    first = cutting.parts[0]
    if len(first) < 4:
        return False
    return i64(read_i32_be(first, 0)) == state.pending[state.pending_head].correlation_id


def quiet_bit(receiver: Receiver) -> i64:
    """The bit of a direction in which nothing waits for its acknowledgment."""
    if receiver.timed_position >= 0 or receiver.next_sequence < 0:
        return 0
    if receiver.peer.latest_acknowledgment != receiver.next_sequence:
        return 0
    return 1 << receiver.direction
