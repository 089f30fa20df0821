"""Chunk | Gap | End → Frame: extract the size-delimited frames from the byte streams.

    frame = int32 size, then `size` bytes          (both directions, Kafka 0.7 to today)

Independent of the content of frames; a `Probe` supplied by the caller finds likely frame starts
among the waiting bytes if the position of the next size field is unknown (`frame_search`). States
of one direction:

    SEARCHING ──probe finds a start──▶ AT_SIZE ──size field──▶ IN_BODY ──last byte──▶ AT_SIZE
    SEARCHING ──probe says so, or MAX_FAILURES──▶ IGNORED
    AT_SIZE ──impossible size, or a gap──▶ SEARCHING
    IN_BODY ──gap beyond the body──▶ SEARCHING         (a gap inside costs only this frame)
    any but IGNORED ──gap of no exact length──▶ SEARCHING

Example: the stream is 00 00 00 05 a b | c d e 00 00 | 00 02 f g, in three segments. At the first,
AT_SIZE reads 5, and IN_BODY wants 3 more; the second ends the body (a frame) and has half a size
field; the third completes it and its body. If the second is missing, the gap of 5 bytes reaches 2
bytes beyond the body: the frame is returned with 3 bytes missing, and the direction is SEARCHING.

After finish, for each direction: delivered bytes = framed bytes (size fields too) + skipped bytes.
Longer than other modules, to keep the stage and its contract, `Frame`, in one place, and the hot
loop next to the state it changes.
"""

from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64, mypyc_attr

from kdissect.errors import Problem
from kdissect.framing.frame_search import (
    FEW_BYTES,
    IGNORE,
    MAX_WAITING,
    MORE_SHARE,
    NOT_WAITING,
    PROBE_SIZE,
    WAIT,
    WINDOW,
    Probe,
    Waiting,
    Window,
    part_of,
)
from kdissect.streams.events import (
    CACHE_SIZE,
    CLOSED_BY_RST,
    OPENER,
    OWN_PAST,
    Chunk,
    Connection,
    End,
    Event,
    Gap,
)

# socket.request.max.bytes is 100 MiB; a response may carry as much plus a header.
MAX_FRAME_SIZE: Final = (100 << 20) + (64 << 10)
# Incomplete bodies of all directions: the largest, and a quarter of it in others.
MAX_HELD: Final = 128 << 20
MAX_FAILURES: Final = 8  # impossible sizes before a direction is ignored
TRUSTED_FRAMES: Final = 16  # consecutive frames after which earlier failures are forgiven


SEARCHING: Final = 0
AT_SIZE: Final = 1
IN_BODY: Final = 2
IGNORED: Final = 3

# Results of `step`.
NEEDS_FRAMING: Final = 0
NO_FRAME: Final = 1
GIVES_FRAME: Final = 2


@mypyc_attr(acyclic=True, free_list_len=1)
class Frame:
    """One frame of one direction of a connection.

    `data` is the body without the size field: all `size` bytes of it, or, if `missing` > 0, the
    bytes before the first hole (`missing` = size - len(data)). `position` is the stream position of
    the size field. Start is the packet with the first byte of the size field, end the one with the
    last byte of the body; `end_time_ns` is -1 when that packet was not captured. `index` counts the
    frames that start in the same packet from 0. `troubles_*` are the connection's running count of
    troubles at start and end, `steps_at_start` its `clock_steps`. `is_behind_loss`: other frames of
    its direction may have been missed since the one before it. `is_broken_off`: nothing was lost,
    but the connection was reset before it was sent in full.
    """

    __slots__ = (
        "connection", "direction", "position", "size", "data", "missing", "start_time_ns",
        "start_packet", "start_ordinal", "start_capture", "index", "end_time_ns", "end_packet",
        "tcp_events_at_start", "tcp_events_at_end", "steps_at_start", "is_behind_loss",
        "is_broken_off",
    )  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        direction: i64,
        position: i64,
        size: i64,
        data: bytes,
        missing: i64,
        start_time_ns: i64,
        start_packet: i64,
        start_ordinal: i64,
        start_capture: i64,
        index: i64,
        end_time_ns: i64,
        end_packet: i64,
        tcp_events_at_start: i64,
        tcp_events_at_end: i64,
    ) -> None:
        self.connection = connection
        self.direction = direction
        self.position = position
        self.size = size
        self.data = data
        self.missing = missing
        self.start_time_ns = start_time_ns
        self.start_packet = start_packet
        self.start_ordinal = start_ordinal
        self.start_capture = start_capture
        self.index = index
        self.end_time_ns = end_time_ns
        self.end_packet = end_packet
        self.tcp_events_at_start = tcp_events_at_start
        self.tcp_events_at_end = tcp_events_at_end
        self.steps_at_start: i64 = connection.clock_steps
        self.is_behind_loss: bool = False
        self.is_broken_off: bool = False

    @property
    def is_cut(self) -> bool:
        """Return whether the capture lacks sent bytes of it."""
        return self.missing > 0 and not self.is_broken_off


NOTHING: Final[list[Frame]] = []
# The parts of all directions that hold none.
NO_PARTS: Final[list[bytes]] = []
# Events to be processed from some index on, the last of the list first.
Todo = list[tuple[Event, int]]


@mypyc_attr(acyclic=True)
class FramingState:
    """Framing state of one direction.

    `wanted` is the number of remaining stream bytes of the body. `parts` are the bytes of the size
    field (AT_SIZE) or of the body before its first hole (IN_BODY); `held` is their size.
    `is_behind_loss`: frames may have been missed since the last one returned.
    """

    __slots__ = (
        "connection", "direction", "state", "position", "size", "wanted", "parts", "held",
        "is_holed", "time_ns", "packet", "ordinal", "capture", "index", "tcp_events", "steps",
        "framed", "skipped", "waiting", "waited", "was_found", "lost", "failures",
        "frames_since_found", "is_behind_loss",
    )  # fmt: skip

    def __init__(self, connection: Connection, direction: i64) -> None:
        self.connection = connection
        self.direction = direction
        self.state: i64 = SEARCHING
        # The frame being read: see Frame.
        self.position: i64 = -1
        self.size: i64 = 0
        self.wanted: i64 = 0
        self.parts = NO_PARTS
        self.held: i64 = 0
        self.is_holed: bool = False
        self.time_ns: i64 = -1
        self.packet: i64 = -1
        self.ordinal: i64 = -1
        self.capture: i64 = 0
        self.index: i64 = -1
        self.tcp_events: i64 = 0
        self.steps: i64 = 0
        self.framed: i64 = 0
        self.skipped: i64 = 0
        # Bytes that the probe needs more of, and their size as counted for all directions.
        self.waiting = NOT_WAITING
        self.waited: i64 = 0
        self.was_found: bool = False
        # Bytes skipped since the position of the next frame was lost.
        self.lost: i64 = 0
        self.failures: i64 = 0
        self.frames_since_found: i64 = 0
        # At the edge of a split the past is not lost: the merger has it.
        self.is_behind_loss: bool = not connection.lacks_history()

    @property
    def is_at_rest(self) -> bool:
        """Return whether no bytes are held."""
        return not self.parts and self.held == 0 and not self.waiting.events and self.waited == 0

    def keep(self, part: bytes) -> None:
        """Add to `parts`: an empty list is never changed, as others share it."""
        if self.parts:
            self.parts.append(part)
        else:
            self.parts = [part]

    def own_waiting(self) -> Waiting:
        """The waiting bytes of this direction alone, to be changed."""
        if self.waiting is NOT_WAITING:
            self.waiting = Waiting()
        return self.waiting

    def begin(self, chunk: Chunk, at: i64) -> None:
        """Start a frame at ``chunk.data[at]``."""
        self.index = self.index + 1 if self.ordinal == chunk.ordinal else 0
        self.position = chunk.position + at - chunk.start
        self.time_ns = chunk.time_ns
        self.packet = chunk.packet
        self.ordinal = chunk.ordinal
        self.capture = chunk.capture
        self.tcp_events = self.connection.tcp_events
        self.steps = self.connection.clock_steps

    def whole(self, chunk: Chunk) -> Frame:
        """The frame that fills the chunk exactly."""
        self.index = self.index + 1 if self.ordinal == chunk.ordinal else 0
        self.ordinal = chunk.ordinal
        start = chunk.start + 4
        size = chunk.end - start
        time_ns = chunk.time_ns
        packet = chunk.packet
        tcp_events = chunk.connection.tcp_events
        frame = Frame(
            chunk.connection, chunk.direction, chunk.position, size, chunk.data[start : chunk.end],
            0, time_ns, packet, chunk.ordinal, chunk.capture, self.index, time_ns, packet,
            tcp_events, tcp_events,
        )  # fmt: skip
        if self.is_behind_loss:
            self.mark(frame)
        return frame

    def frame(self, data: bytes, end_time_ns: i64, end_packet: i64) -> Frame:
        """The frame that was begun, with its body as far as available."""
        frame = Frame(
            self.connection, self.direction, self.position, self.size, data,
            self.size - len(data), self.time_ns, self.packet, self.ordinal, self.capture,
            self.index, end_time_ns, end_packet, self.tcp_events, self.connection.tcp_events,
        )  # fmt: skip
        frame.steps_at_start = self.steps
        if self.is_behind_loss:
            self.mark(frame)
        return frame

    def mark(self, frame: Frame) -> None:
        """Mark the frame as the first after a loss; later ones are not."""
        frame.is_behind_loss = True
        self.is_behind_loss = False


class Frames:
    """Frames of all connections; `problems` grows until the owner drains it.

    The list that `feed` returns may be shared: do not change it. For speed, pass chunks to `step`,
    and to `cut` only if it says so.
    """

    __slots__ = (
        "problems", "_probe", "_max_frame_size", "_max_held", "_held", "_waiting", "_max_waiting",
        "_from_opener", "_from_accepter", "_counts", "_told", "_no_framing", "_cache", "frame",
        "steps", "searches",
    )  # fmt: skip

    def __init__(
        self,
        probe: Probe,
        max_frame_size: i64 = MAX_FRAME_SIZE,
        max_held: i64 = MAX_HELD,
        max_waiting: i64 = MAX_WAITING,
    ) -> None:
        self.problems: list[Problem] = []
        # Work of all searches so far, see `frame_search`. Without `searches`, waiting bytes are
        # dropped.
        self.steps: i64 = 0
        self.searches: bool = True
        self._probe = probe
        self._max_frame_size = max_frame_size
        self._max_held = max_held
        self._held: i64 = 0
        # Waiting bytes of all directions.
        self._waiting: i64 = 0
        self._max_waiting = max_waiting
        # Connections for which too many waiting bytes were reported.
        self._told: set[Connection] = set()
        self._from_opener: dict[Connection, FramingState] = {}
        self._from_accepter: dict[Connection, FramingState] = {}
        # Framing states that are found without looking up their connection.
        nowhere = Connection(-1, 0, b"", 0, 0)
        self._no_framing = FramingState(nowhere, OPENER)
        self._cache = [self._no_framing] * CACHE_SIZE
        # Result of the last `step` that returned one.
        self.frame = Frame(nowhere, OPENER, 0, 0, b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        self._counts: dict[Connection, tuple[tuple[int, int], tuple[int, int]]] = {}

    def feed(self, event: Event) -> list[Frame]:
        """Frames that the event completes, in order."""
        if isinstance(event, Chunk):
            step = self.step(event)
            if step == NEEDS_FRAMING:
                return self.cut(event)
            return [self.frame] if step == GIVES_FRAME else NOTHING
        if isinstance(event, Gap):
            return self._gap(self._framing(event.connection, event.direction), event)
        if isinstance(event, End):
            return self._end(event)
        return NOTHING

    def step(self, chunk: Chunk) -> i64:
        """Process the common chunk: exactly one frame, or more of an incomplete one.

        GIVES_FRAME: `frame` is complete. NO_FRAME. NEEDS_FRAMING: the chunk is of another kind, for
        `cut`.
        """
        framing = self._framing(chunk.connection, chunk.direction)
        start = chunk.start
        length = chunk.end - start
        if framing.state == IN_BODY and length < framing.wanted and not framing.is_holed:
            framing.wanted -= length
            framing.framed += length
            if self._held + length > self._max_held:
                self._let_go(framing, length, chunk)
                return NO_FRAME
            framing.keep(chunk.data[start : chunk.end])
            framing.held += length
            self._held += length
            return NO_FRAME
        if (
            framing.state == AT_SIZE
            and framing.held == 0
            and 8 <= length <= self._max_frame_size
            and read_i64_be(chunk.data, start) >> 32 == length - 4
        ):
            framing.framed += length
            framing.frames_since_found += 1
            self.frame = framing.whole(chunk)
            return GIVES_FRAME
        return NEEDS_FRAMING

    def cut(self, chunk: Chunk) -> list[Frame]:
        """Frames that a chunk completes, in order, if `step` says so."""
        frames: list[Frame] = []
        self._cut(self._framing(chunk.connection, chunk.direction), chunk, frames)
        return frames

    def settle(self, end: End) -> list[Frame]:
        """Frames found in the waiting bytes of one direction of a connection that ends.

        Call it before `feed` with this end, so that these frames are known when the other direction
        is searched for the last time.
        """
        frames: list[Frame] = []
        first = self._probe.ends_first(end.connection)
        for table in (self._from_opener, self._from_accepter):
            framing = table.get(end.connection)
            if framing is None or framing.state != SEARCHING or framing.waiting.span == 0:
                continue
            if first < 0 and self.searches:
                window = framing.waiting.window(False, True)
                found = self._probe.find_start(end.connection, framing.direction, window)
                self.steps += framing.waiting.pay_for(window)
                if found < 0:
                    continue
                first = framing.direction
            if first == framing.direction:
                self._look_last(framing, frames)
        return frames

    def take_counts(self, connection: Connection) -> tuple[tuple[int, int], tuple[int, int]]:
        """Framed and skipped bytes of an ended connection, by direction; once."""
        return self._counts.pop(connection, ((0, 0), (0, 0)))

    def counts_until_now(self, connection: Connection) -> tuple[tuple[int, int], tuple[int, int]]:
        """Framed and skipped bytes of an open connection so far, by direction."""
        framed = [0, 0]
        skipped = [0, 0]
        for framing in self.framings(connection):
            if framing is not None:
                framed[framing.direction] = framing.framed
                skipped[framing.direction] = framing.skipped
        return (framed[0], framed[1]), (skipped[0], skipped[1])

    def framings(self, connection: Connection) -> tuple[FramingState | None, FramingState | None]:
        """Framing states of a connection: the opener's direction, the accepter's."""
        return self._from_opener.get(connection), self._from_accepter.get(connection)

    def take_in(
        self, connection: Connection, framings: tuple[FramingState | None, FramingState | None]
    ) -> None:
        """Take over a connection from another `Frames`."""
        opener, accepter = framings
        self._drop_cached(connection)
        if opener is not None:
            self._from_opener[connection] = opener
        if accepter is not None:
            self._from_accepter[connection] = accepter
        for framing in (opener, accepter):
            if framing is not None:
                self._waiting += framing.waited
                if framing.state == IN_BODY:
                    self._held += framing.held

    def has_told(self, connection: Connection) -> bool:
        """Return whether too many waiting bytes were reported for the connection."""
        return connection in self._told

    def set_told(self, connection: Connection) -> None:
        """Mark it as reported before."""
        self._told.add(connection)

    def forget(self, connection: Connection) -> None:
        """Forget a connection that another `Frames` continues."""
        for framing in self.framings(connection):
            if framing is not None:
                self._waiting -= framing.waited
                if framing.state == IN_BODY:
                    self._held -= framing.held
        self._from_opener.pop(connection, None)
        self._from_accepter.pop(connection, None)
        self._drop_cached(connection)

    def forget_direction(self, framing: FramingState) -> None:
        """Forget a direction that is at rest."""
        table = self._from_opener if framing.direction == OPENER else self._from_accepter
        table.pop(framing.connection, None)
        self._drop_cached(framing.connection)

    def take_direction(self, framing: FramingState) -> None:
        """Take over a direction that is at rest."""
        table = self._from_opener if framing.direction == OPENER else self._from_accepter
        table[framing.connection] = framing
        self._drop_cached(framing.connection)

    def _framing(self, connection: Connection, direction: i64) -> FramingState:
        at = (connection.id << 1 | direction) & (CACHE_SIZE - 1)
        framing = self._cache[at]
        if framing.connection is connection and framing.direction == direction:
            return framing
        table = self._from_opener if direction == OPENER else self._from_accepter
        found = table.get(connection)
        if found is None:
            found = FramingState(connection, direction)
            table[connection] = found
        self._cache[at] = found
        return found

    def _drop_cached(self, connection: Connection) -> None:
        """Invalidate the cached framing states of the connection."""
        at = connection.id << 1 & (CACHE_SIZE - 1)
        self._cache[at] = self._no_framing
        self._cache[at + 1] = self._no_framing

    def _cut(self, framing: FramingState, chunk: Chunk, frames: list[Frame]) -> None:
        """Process a new chunk."""
        at = self._cut_known(framing, chunk, chunk.start, frames)
        if at < chunk.end:
            framing.own_waiting().pay_in(chunk.end - at)
            self._search(framing, [(chunk, at)], frames)

    def _cut_known(self, framing: FramingState, chunk: Chunk, at: i64, frames: list[Frame]) -> i64:
        """Process ``chunk.data[at : chunk.end]`` up to where the next frame has to be searched."""
        end = chunk.end
        while at < end:
            state = framing.state
            if state == AT_SIZE:
                at = self._cut_sizes(framing, chunk, at, frames)
            elif state == IN_BODY:
                at = self._cut_body(framing, chunk, at, frames)
            elif state == SEARCHING:
                return at
            else:
                framing.skipped += end - at
                return end
        return end

    def _cut_sizes(self, framing: FramingState, chunk: Chunk, at: i64, frames: list[Frame]) -> i64:
        """Frames entirely in the chunk, and the start of the one that is not."""
        if framing.parts:
            return self._cut_split_size(framing, chunk, at, frames)
        data = chunk.data
        end = chunk.end
        first = at
        while end - at >= 4:
            size = i64(read_i32_be(data, at))
            # A size below 0 or of gigabytes would make everything after it part of this frame.
            if size < 0 or size > self._max_frame_size:
                framing.framed += at - first
                self._fail(framing, chunk, at, size)
                self._skip(framing, 1)
                return at + 1
            framing.begin(chunk, at)
            framing.size = size
            if end - at - 4 < size:
                framing.framed += at + 4 - first
                self._begin_body(framing)
                return at + 4
            at += 4 + size
            frames.append(framing.frame(data[at - size : at], chunk.time_ns, chunk.packet))
            framing.frames_since_found += 1
        framing.framed += at - first
        if at < end:
            framing.begin(chunk, at)
            framing.keep(data[at:end])
            framing.held = end - at
        return end

    def _cut_split_size(
        self, framing: FramingState, chunk: Chunk, at: i64, frames: list[Frame]
    ) -> i64:
        """Continue a size field that began in an earlier chunk; return where reading stopped."""
        stop = min(at + 4 - framing.held, chunk.end)
        framing.keep(chunk.data[at:stop])
        framing.held += stop - at
        if framing.held < 4:
            return stop
        field = b"".join(framing.parts)
        framing.parts = NO_PARTS
        framing.held = 0
        size = i64(read_i32_be(field, 0))
        if size < 0 or size > self._max_frame_size:
            # The bytes in earlier chunks are gone; the search continues in this one.
            self._fail(framing, chunk, at, size)
            self._skip(framing, 4 - (stop - at))
            return at
        framing.framed += 4
        framing.size = size
        self._begin_body(framing)
        if size == 0:
            self._complete(framing, chunk.time_ns, chunk.packet, frames)
        return stop

    def _begin_body(self, framing: FramingState) -> None:
        framing.state = IN_BODY
        framing.wanted = framing.size
        framing.is_holed = False

    def _cut_body(self, framing: FramingState, chunk: Chunk, at: i64, frames: list[Frame]) -> i64:
        """Continue the body; return where reading stopped."""
        stop = min(at + framing.wanted, chunk.end)
        framing.wanted -= stop - at
        framing.framed += stop - at
        if not framing.is_holed:
            self._keep(framing, chunk.data[at:stop], chunk)
        if framing.wanted == 0:
            self._complete(framing, chunk.time_ns, chunk.packet, frames)
        return stop

    def _keep(self, framing: FramingState, part: bytes, chunk: Chunk) -> None:
        """Add bytes to the body, unless too much is held already."""
        size: i64 = len(part)
        if self._held + size > self._max_held:
            self._let_go(framing, size, chunk)
            return
        framing.keep(part)
        framing.held += size
        self._held += size

    def _let_go(self, framing: FramingState, size: i64, chunk: Chunk) -> None:
        """Memory limit reached: the body has a hole from here on, first of `size` bytes."""
        framing.is_holed = True
        text = f"{self._held} bytes of incomplete frames are held: the rest of one is dropped"
        self._report("frame-held-limit", text, framing.wanted + size, chunk)

    def _complete(
        self, framing: FramingState, end_time_ns: i64, end_packet: i64, frames: list[Frame]
    ) -> None:
        """Complete the frame; missing parts of its body stay missing."""
        parts = framing.parts
        frames.append(
            framing.frame(parts[0] if len(parts) == 1 else b"".join(parts), end_time_ns, end_packet)
        )
        framing.frames_since_found += 1
        self._held -= framing.held
        framing.parts = NO_PARTS
        framing.held = 0
        framing.state = AT_SIZE

    def _gap(self, framing: FramingState, gap: Gap) -> list[Frame]:
        frames: list[Frame] = []
        if framing.state == SEARCHING:
            self._search(framing, [(gap, 0)], frames)
        else:
            self._pass_gap(framing, gap, frames)
        return frames

    def _pass_gap(self, framing: FramingState, gap: Gap, frames: list[Frame]) -> None:
        """Process a gap; only the states IN_BODY and AT_SIZE are affected."""
        if framing.state == IN_BODY:
            framing.is_holed = True
            if gap.length < framing.wanted and gap.is_exact:
                framing.wanted -= gap.length
                return
            is_next_known = gap.length == framing.wanted and gap.is_exact
            if gap.is_cut:
                self._complete(framing, gap.time_ns, gap.packet, frames)
            else:
                self._complete(framing, -1, -1, frames)
            if is_next_known:
                return
        if framing.state == AT_SIZE:
            self._lose(framing)

    def _lose(self, framing: FramingState) -> None:
        """Lose the position of the next size field."""
        framing.state = SEARCHING
        framing.is_behind_loss = True
        framing.connection.use_history(OWN_PAST)
        if framing.frames_since_found >= TRUSTED_FRAMES:
            framing.failures = 0
        framing.lost = 0
        framing.was_found = True
        self._skip(framing, framing.held)
        framing.parts = NO_PARTS
        framing.held = 0

    def _fail(self, framing: FramingState, chunk: Chunk, at: i64, size: i64) -> None:
        """Handle an impossible size field at ``chunk.data[at]``, or ending there."""
        is_believed = self._probe.is_believed(framing.connection)
        if is_believed:
            self._report("bad-frame-size", f"size field says {size}", chunk.end - at, chunk)
        self._lose(framing)
        framing.failures += 1
        if framing.failures >= MAX_FAILURES:
            if is_believed:
                text = f"{MAX_FAILURES} impossible sizes: the rest of this direction is skipped"
                self._report("not-frames", text, chunk.end - at, chunk)
            framing.state = IGNORED

    def _search(self, framing: FramingState, todo: Todo, frames: list[Frame]) -> None:
        """Process events from some index on, the last of the list first, while frames are searched.

        Frames found in waiting events are extracted at once; events to be searched again are put
        back on the list.
        """
        waiting = framing.own_waiting()
        while todo:
            event, at = todo.pop()
            if isinstance(event, Chunk):
                at = self._cut_known(framing, event, at, frames)
                if at == event.end:
                    continue
                waiting.add(part_of(event, at), at > event.start)
                if framing.connection.is_suppressed():
                    # A frame may start with each segment.
                    waiting.need = 0
                todo += self._look(framing, False)
            elif isinstance(event, Gap):
                if framing.state != SEARCHING:
                    self._pass_gap(framing, event, frames)
                elif gap_is_held(event):
                    waiting.add_gap(event)
                    todo += self._look(framing, False)
                elif waiting.span > 0:
                    todo.append((event, 0))
                    todo += self._look(framing, True)
        if framing.state != SEARCHING:
            framing.waiting = NOT_WAITING
        elif waiting.events:
            waiting.own_last()

    def _look_last(self, framing: FramingState, frames: list[Frame]) -> None:
        """Search the waiting bytes a last time, as no more follow."""
        while framing.state == SEARCHING and framing.waiting.span > 0:
            self._search(framing, self._look(framing, True), frames)

    def _look(self, framing: FramingState, is_last: bool) -> Todo:
        """Probe the waiting bytes as long as the result makes progress.

        Returns the events to be processed, if a frame is found, in reverse order.
        """
        waiting = framing.waiting
        found_ones: Todo = []
        while waiting.span > 0 and (is_last or waiting.span >= waiting.need):
            self._count_waiting(framing)
            if not self.searches:
                self._skip(framing, waiting.drop(waiting.span))
                break
            if waiting.credit < 0 and not is_last:
                self._skip(framing, waiting.put_off())
                break
            is_short = not waiting.is_full and self._waiting >= self._max_waiting
            window = waiting.window(waiting.is_full or is_short, is_last)
            found = self._probe.find_start(framing.connection, framing.direction, window)
            self.steps += waiting.pay_for(window)
            if window.preface > 0:
                framing.framed += window.preface
                framing.skipped -= window.preface
                framing.lost -= window.preface
            if is_short and found < 0 and found != IGNORE and not is_last:
                self._report_search(framing)
            if found >= 0:
                found_ones = self._resume(framing, found - window.start)
                break
            if found == IGNORE:
                framing.state = IGNORED
                framing.skipped += waiting.size
                waiting.take()
                break
            if found == WAIT and not is_last:
                self._wait(framing, window)
            else:
                # The last bytes may be the first of a frame, unless nothing follows.
                keep: i64 = 0 if is_last else PROBE_SIZE - 1
                self._skip(framing, waiting.drop(max(0, waiting.span - keep)))
                waiting.need = max(PROBE_SIZE, waiting.span + 1)
        self._count_waiting(framing)
        return found_ones

    def _count_waiting(self, framing: FramingState) -> None:
        """Add the direction's waiting bytes to the total."""
        cost = framing.waiting.cost
        self._waiting += cost - framing.waited
        framing.waited = cost

    def _wait(self, framing: FramingState, window: Window) -> None:
        """Skip to `window.at`, before which nothing starts; search again with more bytes."""
        waiting = framing.waiting
        dropped = max(0, min(window.at - window.start, waiting.span))
        if dropped == 0 and window.is_full:
            dropped = 1
        need = window.need - window.start - dropped
        self._skip(framing, waiting.drop(dropped))
        span = waiting.span
        more: i64 = 1
        if span > FEW_BYTES and not framing.connection.is_suppressed():
            more = span // MORE_SHARE
        waiting.need = max(min(span + more, WINDOW), span + 1, min(need, WINDOW))

    def _resume(self, framing: FramingState, found: i64) -> Todo:
        """Resume at a frame `found` bytes into the waiting bytes: the events from there on."""
        events = framing.waiting.take()
        framing.state = AT_SIZE
        framing.frames_since_found = 0
        todo: Todo = []
        for event in events:
            if todo:
                todo.append((event, event.start if isinstance(event, Chunk) else 0))
            elif isinstance(event, Chunk):
                length = event.end - event.start
                if found >= length:
                    self._skip(framing, length)
                    found -= length
                    continue
                self._skip(framing, found)
                self._report_resync(framing, event)
                if is_first_byte(framing, event.position + found):
                    framing.is_behind_loss = False
                todo.append((event, event.start + found))
            elif isinstance(event, Gap):
                found = max(0, found - event.length)
        todo.reverse()
        return todo

    def _skip(self, framing: FramingState, size: i64) -> None:
        framing.skipped += size
        framing.lost += size

    def _report_search(self, framing: FramingState) -> None:
        """Report, once per connection, that fewer bytes are searched than a frame may need."""
        connection = framing.connection
        if connection in self._told or not self._probe.is_believed(connection):
            return
        self._told.add(connection)
        held = framing.waiting
        text = f"{self._waiting} bytes wait in which no frame was found: fewer are looked at"
        self._report("search-limit", text, held.size, held.events[0])

    def _report_resync(self, framing: FramingState, chunk: Chunk) -> None:
        if framing.was_found:
            text = f"{framing.lost} bytes skipped until a frame was found again"
            self._report("resync", text, framing.lost, chunk)
        elif framing.lost > 0:
            text = f"{framing.lost} bytes skipped until the first frame was found"
            self._report("mid-stream", text, framing.lost, chunk)

    def _end(self, end: End) -> list[Frame]:
        frames: list[Frame] = []
        connection = end.connection
        opener = self._from_opener.pop(connection, None)
        accepter = self._from_accepter.pop(connection, None)
        self._drop_cached(connection)
        self._told.discard(connection)
        framed = [0, 0]
        skipped = [0, 0]
        for framing in (opener, accepter):
            if framing is not None:
                self._finish(framing, end, frames)
                framed[framing.direction] = framing.framed
                skipped[framing.direction] = framing.skipped
        self._counts[connection] = ((framed[0], framed[1]), (skipped[0], skipped[1]))
        return frames

    def _finish(self, framing: FramingState, end: End, frames: list[Frame]) -> None:
        """End of a direction."""
        self._look_last(framing, frames)
        if framing.state == IN_BODY:
            self._complete(framing, -1, -1, frames)
            frames[-1].is_broken_off = not framing.is_holed and end.reason == CLOSED_BY_RST
        elif framing.state == AT_SIZE:
            framing.skipped += framing.held
        if framing.is_behind_loss or framing.held > 0:
            framing.connection.unframed |= 1 << framing.direction
        if framing.state == SEARCHING and framing.lost > 0:
            if not self._probe.is_believed(framing.connection):
                return
            text = f"{framing.lost} bytes skipped at the end, where no frame was found"
            self._report("no-resync", text, framing.lost, end)

    def _report(self, kind: str, text: str, size: i64, event: Event) -> None:
        self.problems.append(
            Problem("frames", kind, text, event.time_ns, event.packet, size,
                    event.connection.id, -1, event.capture)
        )  # fmt: skip


def is_first_byte(framing: FramingState, position: i64) -> bool:
    """Return whether a stream starts at the position, except for a PROXY header before it."""
    is_known = framing.connection.is_start_seen(framing.direction)
    return is_known and position == framing.framed and framing.skipped == 0


def gap_is_held(gap: Gap) -> bool:
    """Return whether bytes on both sides of a hole are searched together."""
    return gap.length < WINDOW and gap.is_exact
