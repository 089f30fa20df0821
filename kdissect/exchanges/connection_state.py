"""State of one connection between its frames.

Longer than other modules: the attributes of one object.
"""

from bisect import bisect_left
from typing import Any, Final

from librt.strings import read_i32_be
from librt.vecs import append, vec
from mypy_extensions import i64

from kdissect.errors import Problem
from kdissect.exchanges.exchange import CLOCK_SET, Exchange
from kdissect.exchanges.sasl import Login
from kdissect.framing.frames import Frame
from kdissect.protocol.readers import NULL
from kdissect.streams.events import Connection

EXCHANGES_PER_PACKET: Final = (
    100_000  # more than frames fit into one 256 KiB segment (>= 4 bytes each)
)
BITS_EACH: Final = 60
MIN_DROPPED: Final = 64  # requests that no longer wait, before the list of them is cut
# Requests that an early response is compared with: each comparison reads all of it.
MAX_TRIES: Final = 16
# Requests that wait longest: a response is nearly always to one of them. Others are found by id.
NEAR: Final = 16


# In place of a high watermark or a topic: a missing value may have been stated before the split of
# the capture, see `fetches`.
ASK: Final[i64] = -(1 << 62) + 1
PAST: Final = None
# In place of a high watermark or a topic: a missing value may have been stated in a hole of the
# capture, see `fetches`.
UNSTATED: Final[i64] = -(1 << 62) + 2
LOST: Final = False
# A row of `TopicPositions`: the number of a partition, followed by
POSITION_WIDTH: Final = 3
AT_OFFSET: Final = 1
AT_MARK: Final = 2
# Bytes of memory of a topic without partitions, with its name, and of a partition in `places`.
TOPIC_BYTES: Final = 256
PLACE_BYTES: Final = 128
# Up to this size a partition is found by linear search.
FEW_CELLS: Final[i64] = 144


class TopicPositions:
    """Positions of a fetch session in the partitions of a topic: rows of `WIDTH` in `cells`.

    A row is a partition's number, its offset, NULL when no request named it yet, and the end of the
    log as stated by the broker, NULL, ASK or UNSTATED. They are in the order in which they were
    named first, which is nearly always the order in which they are requested again.
    """

    __slots__ = ("cells", "places", "is_ascending")

    def __init__(self) -> None:
        self.cells: vec[i64] = vec[i64]()
        # Known to be sorted: then a number above the last is absent.
        self.is_ascending: bool = True
        # By number, built when one of many is requested out of order.
        self.places: dict[int, int] | None = None

    def place(self, number: i64, guess: i64) -> i64:
        """Index into `cells` of the partition's row; -1 if absent. Tries `guess` first."""
        cells = self.cells
        size: i64 = len(cells)
        if guess < size and cells[guess] == number:
            return guess
        if self.is_ascending and (size == 0 or cells[size - POSITION_WIDTH] < number):
            return -1
        if size <= FEW_CELLS:
            at: i64 = 0
            while at < size and cells[at] != number:
                at += POSITION_WIDTH
            return at if at < size else -1
        places = self.places
        if places is None:
            places = {cells[at]: at for at in range(0, len(cells), POSITION_WIDTH)}
            self.places = places
        return places.get(number, -1)

    def add(self, number: i64, offset: i64, high_watermark: i64) -> i64:
        """Add a partition; return the index of its row."""
        place: i64 = len(self.cells)
        if place > 0 and self.cells[place - POSITION_WIDTH] >= number:
            self.is_ascending = False
        self.cells = append(append(append(self.cells, number), offset), high_watermark)
        if self.places is not None:
            self.places[number] = place
        return place

    @property
    def size(self) -> i64:
        """Approximate bytes of memory."""
        size: i64 = TOPIC_BYTES + 8 * len(self.cells)
        if self.places is not None:
            size += PLACE_BYTES * len(self.places)
        return size

    def copied(self) -> "TopicPositions":
        """Return an independent copy."""
        made = TopicPositions()
        made.cells = self.cells[:]
        made.is_ascending = self.is_ascending
        return made

    def forget_marks(self) -> None:
        """Forget the ends of the logs."""
        cells = self.cells
        at: i64 = AT_MARK
        while at < len(cells):
            cells[at] = UNSTATED
            at += POSITION_WIDTH

    @property
    def packed(self) -> bytes:
        """The cells, 8 bytes each in the byte order of the machine."""
        return bytes(memoryview(self.cells))


def unpacked_positions(cells: bytes) -> TopicPositions:
    """Restore positions from the output of `TopicPositions.packed`."""
    made = TopicPositions()
    made.cells = vec[i64](memoryview(cells).cast("q").tolist())
    made.is_ascending = False
    return made


# By topic (name or id); those of PAST and LOST are empty.
Positions = dict[object, TopicPositions]


class EarlyResponse:
    """A response that came before its request; `previous_end` is of the answer before it.

    `tries` is the number of requests of its id that it was compared with.
    """

    __slots__ = ("correlation_id", "frame", "previous_end", "tries")

    def __init__(self, correlation_id: i64, frame: Frame, previous_end: i64) -> None:
        self.correlation_id = correlation_id
        self.frame = frame
        self.previous_end = previous_end
        self.tries: i64 = 0


# What waits on connections on which nothing does; an empty list is never changed.
NO_FRAMES: Final[list[Frame]] = []
NO_RESPONSES: Final[list[EarlyResponse]] = []
# In place of a request that no longer waits.
NO_EXCHANGE: Final = Exchange(Connection(-1, 0, b"", 0, 0), -1, -1, -1)


class ConnectionState:
    """State of one connection between its frames.

    `request_direction` is the direction that carries requests, -1 while unknown; `protocol` is ""
    while nothing was recognized. Requests waiting are ``pending[pending_head:]``. `by_id` maps
    correlation ids to the indices of waiting requests, and of some that waited; it is built for a
    response to none of the first. `old` is the state of a connection that uses a protocol from
    before 0.8, instead of the rest.

    `dialect` is the one protocol in use, or AUTO; `is_told`: the user has set it. `is_unproved`
    while frames are cut from the stream's first byte on and none of them must be Kafka. `refused`
    client frames could not be requests, `refusal` describes the first. `proxied_ip` and
    `proxied_port` are the client's as reported by a proxy. `repeats_ids`: a request had the
    correlation id of the one before it. `vendor` is the broker's, by its last answer to ApiVersions
    on this connection (see `apis.VENDORS`); -1 without one.
    """

    __slots__ = (
        "connection", "request_direction", "broker_side_by", "protocol", "pending",
        "pending_head", "last_response_end", "exchange_count", "login",
        "software_name", "software_version", "positions", "session_id", "held", "probed", "early",
        "unheld", "last_correlation_id", "last_client_id", "client_id_bytes", "last_request_ns",
        "old", "spoken_low", "spoken_high", "has_overflowed", "has_let_go", "dialect", "is_told",
        "is_unproved", "refused", "refusal", "proxy_header_size", "proxied_ip", "proxied_port",
        "repeats_ids", "by_id", "vendor", "last_response_steps", "misses_answers", "newest_fetch",
    )  # fmt: skip

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.request_direction: i64 = -1
        self.broker_side_by = ""
        self.protocol = ""
        self.pending: list[Exchange] = []
        self.pending_head: i64 = 0
        self.by_id: dict[int, list[int]] | None = None
        self.last_response_end: i64 = NULL
        self.last_response_steps: i64 = 0  # of the clock, when that was
        self.exchange_count: i64 = 0
        self.login = Login()
        self.software_name = ""
        self.software_version = ""
        # The newest Fetch request, by its exchange.
        self.newest_fetch: i64 = -1
        # Fetch offsets, for sessions that leave them out; `session_id` is 0 without a session.
        self.positions: Positions = {PAST: TopicPositions()} if connection.lacks_history() else {}
        self.session_id: i64 = 0
        # Frames that wait until the protocol is known, and the number that had no room.
        self.held = NO_FRAMES
        self.unheld: i64 = 0
        self.early = NO_RESPONSES
        # Of the newest request.
        self.last_correlation_id: i64 = NULL
        self.last_client_id: str | None = None
        self.client_id_bytes = b""  # of the newest non-null one
        self.last_request_ns: i64 = NULL
        # API keys that were certainly used, as bits; those from BITS_EACH on in the second.
        self.spoken_low: i64 = 0
        self.spoken_high: i64 = 0
        # A problem has reported that requests, or early responses, were dropped.
        self.has_overflowed: bool = False
        self.has_let_go: bool = False
        self.repeats_ids: bool = False
        # Responses may have been missed since the last one that answered a request.
        self.misses_answers: bool = False
        self.vendor: i64 = -1
        self.old: Any = None  # an `OldConversation` for a protocol from before 0.8
        self.dialect: i64 = -1
        self.is_told: bool = False
        self.is_unproved: bool = False
        self.refused: i64 = 0
        self.refusal: Problem | None = None
        self.proxy_header_size: i64 = 0  # 0 without one
        self.proxied_ip = b""
        self.proxied_port: i64 = NULL
        # Directions examined by the detector, as bits.
        self.probed: i64 = 0


def note_spoken(state: ConnectionState, key: i64) -> None:
    """Note that the connection has certainly used this API."""
    # Compiled, a constant on the left is shifted in 32 bits: so it is a variable.
    bit: i64 = 1
    if 0 <= key < BITS_EACH:
        bit <<= key
        state.spoken_low |= bit
    elif BITS_EACH <= key < 2 * BITS_EACH:
        bit <<= key - BITS_EACH
        state.spoken_high |= bit


def has_spoken(state: ConnectionState, key: i64) -> bool:
    """Return whether `note_spoken` was called for the API."""
    if 0 <= key < BITS_EACH:
        return state.spoken_low >> key & 1 == 1
    return BITS_EACH <= key < 2 * BITS_EACH and state.spoken_high >> (key - BITS_EACH) & 1 == 1


def may_see_answers(state: ConnectionState) -> bool:
    """Return whether the capture has data of the broker, or the start of its direction."""
    direction = 1 - state.request_direction
    counts = state.connection.counts[direction]
    is_start_seen = state.connection.is_start_seen(direction)
    return counts.wire_bytes > 0 or (counts.packets > 0 and is_start_seen)


def new_exchange(state: ConnectionState, frame: Frame) -> Exchange:
    """Create an exchange of the connection, which begins with `frame`."""
    state.exchange_count += 1
    exchange = Exchange(
        frame.connection,
        state.request_direction,
        frame.start_ordinal * EXCHANGES_PER_PACKET + frame.index,
        frame.start_capture,
    )
    exchange.tcp_events_at_start = frame.tcp_events_at_start
    exchange.steps_at_start = frame.steps_at_start
    if frame.steps_at_start != frame.connection.clock_steps:
        exchange.status |= CLOCK_SET
    return exchange


def place_response(exchange: Exchange, frame: Frame) -> None:
    """Fill in time and place of the response."""
    if (
        frame.steps_at_start != exchange.steps_at_start
        or frame.connection.clock_steps != frame.steps_at_start
    ):
        exchange.status |= CLOCK_SET
    exchange.response_start = frame.start_time_ns
    exchange.response_end = frame.end_time_ns if frame.end_time_ns >= 0 else NULL
    exchange.response_size = frame.size
    exchange.response_packet = frame.start_packet
    exchange.missing_bytes += frame.missing
    exchange.rtt_ns = frame.connection.rtt_ns
    exchange.note_tcp_events(frame.tcp_events_at_end)


def frame_problem(frame: Frame, kind: str, text: str, exchange_id: i64) -> Problem:
    """A problem with a frame; `exchange_id` is -1 without exchange."""
    return Problem(
        "exchanges",
        kind,
        text,
        frame.start_time_ns,
        frame.start_packet,
        len(frame.data),
        frame.connection.id,
        exchange_id,
        frame.start_capture,
    )


def drop_pending(state: ConnectionState, head: i64) -> None:
    """Drop requests before `head`; the list is cut when most of it is dropped."""
    pending = state.pending
    at = state.pending_head
    state.pending_head = head
    if head >= MIN_DROPPED and head * 2 >= len(pending):
        del pending[:head]
        state.pending_head = 0
        # Building it again takes no longer than the removals did.
        state.by_id = None
        return
    while at < head:
        # They are not held any longer.
        pending[at] = NO_EXCHANGE
        at += 1


def position_in_pending(state: ConnectionState, data: bytes) -> i64:
    """Index of the waiting request with a response's correlation id; -1 for none."""
    if len(data) < 4:
        return -1
    correlation_id = i64(read_i32_be(data, 0))
    pending = state.pending
    at = state.pending_head
    end: i64 = min(len(pending), at + NEAR)
    while at < end:
        if pending[at].correlation_id == correlation_id:
            return at
        at += 1
    return find_pending(state, correlation_id, at) if at < len(pending) else -1


def find_pending(state: ConnectionState, correlation_id: i64, first: i64) -> i64:
    """Index in ``pending[first:]``, all waiting, of the correlation id; -1 for none."""
    by_id = state.by_id
    if by_id is None:
        by_id = {}
        state.by_id = by_id
        for at in range(state.pending_head, len(state.pending)):
            note_pending(state, at)
    places = by_id.get(correlation_id)
    if places is None:
        return -1
    found = bisect_left(places, first)
    return places[found] if found < len(places) else -1


def note_pending(state: ConnectionState, at: i64) -> None:
    """Index ``pending[at]``, the last one so far, by its correlation id."""
    by_id = state.by_id
    if by_id is None:
        return
    correlation_id = state.pending[at].correlation_id
    places = by_id.get(correlation_id)
    if places is None:
        by_id[correlation_id] = [int(at)]
    else:
        places.append(int(at))


def early_limit_text(number: int) -> str:
    """The message of an `early-limit` problem."""
    return f"{number} responses wait for requests from behind holes; the oldest are let go"
