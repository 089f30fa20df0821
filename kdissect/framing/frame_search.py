"""Search for the next frame start of a direction in its held bytes.

Bytes and holes wait in `Waiting`, until a `Probe` finds where in the `Window` over them a frame
starts: guess, confirm, trust. Bytes that a probe rejects are dropped at once; undecided ones wait,
WINDOW bytes at most.

The work of a search is bounded by the number of incoming bytes. Work is counted in steps
(`Window.work`): examining a byte is one, evaluating a guess some more. One search of a window may
take STEPS_EACH steps for each of its bytes. Each new byte grants a direction CREDIT_EACH steps for
all its searches; without credit the next search waits for more bytes, or the end. Longer than other
modules: one search, with its budget and its window.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from kdissect.streams.events import OPENER, Chunk, Connection, Event, Gap

# Maximum of waiting bytes of one direction: a producer's largest request by default, and a
# consumer's largest response for one partition.
WINDOW: Final = 1 << 20
# Maximum of waiting bytes of all directions, before guesses must use the available bytes.
MAX_WAITING: Final = 64 << 20
FEW_BYTES: Final = 4096  # so few can be searched with every segment
# More bytes are searched again when an eighth was added: all searches of a growing window together
# examine each byte 9 times.
MORE_SHARE: Final = 8
# The smallest Kafka request with its size field: fewer bytes are not enough for a probe, so they
# wait.
PROBE_SIZE: Final = 14
TOLD_SIZE: Final = 20  # fewer bytes of a frame do not show how it continues
TRUST: Final = 3  # score from which a guess is trusted
# Memory of an event in addition to its bytes, so tiny segments count too; and all waiting data of
# one direction: 26 000 segments of a byte, where WINDOW in segments of 1448 bytes takes 1.1 MiB.
EVENT_COST: Final = 160
MAX_COST: Final = 4 * WINDOW

# A step is about 16 instructions. Joining 16 bytes is one, an event in the window 4.
JOINED_EACH: Final = 16
EVENT_STEPS: Final = 4
# Steps of a guess, and of a frame of its chain, in addition to reading it.
GUESS_STEPS: Final = 8
FRAME_STEPS: Final = 8
# Steps of one search, for each byte of the window: searching takes 1, evaluating chains of the
# smallest frames 50 to 150. And some for small windows: trying all layouts on a few responses.
STEPS_EACH: Final = 160
FIRST_STEPS: Final = 1 << 18
# Steps that a new byte grants: as many as a search may take, so that searches of all waiting bytes
# happen at most when these have doubled, and together take no more than twice the last one. At the
# beginning, and after each loss, the credit covers some hundred searches of growing windows of
# small segments. The most that is saved up is the cost of one full window.
CREDIT_EACH: Final = STEPS_EACH
FIRST_CREDIT: Final = 1 << 18
MAX_CREDIT: Final = CREDIT_EACH * WINDOW
# Of the last search, in addition to the saved credit.
LAST_EACH: Final = 16

IGNORE: Final = -2  # this direction holds no frames at all
NOT_HERE: Final = -1  # no frame starts in these bytes
WAIT: Final = -3  # one may start at `Window.at`, more bytes are needed


@mypyc_attr(acyclic=True)
class Window:
    """The waiting bytes, ``data[start:end]``; those of holes are zeros.

    `starts`, `ends`, `holes` and `times` (ns) describe their segments, and are made when they are
    asked for: most windows are of one segment, from `only_start` (-1: its first bytes are gone) to
    `only_end`, at `only_time`. `position` is the stream position of the first byte.
    `is_last`: no more will follow; `is_full`: no more is held unless bytes at the start are
    dropped.

    A probe that returns WAIT sets `at` to where the frame may start, and `need` to the index up to
    which it needs bytes before the next call. `preface` of the bytes that it passes over are no
    loss: they precede all frames, and count as framed. It adds its steps to `work`, and stops when
    `is_spent`.
    """

    __slots__ = (
        "data", "start", "end", "is_full", "is_last", "at", "need", "preface", "position", "work",
        "limit", "only_start", "only_end", "only_time", "_starts", "_ends", "_holes", "_times",
        "_start_set",
    )  # fmt: skip

    def __init__(self, data: bytes, start: i64, end: i64, is_full: bool, is_last: bool) -> None:
        self.data = data
        self.start = start
        self.end = end
        self.is_full = is_full
        self.is_last = is_last
        self.only_start: i64 = -1
        self.only_end: i64 = -1
        self.only_time: i64 = -1
        self._starts: list[int] | None = None
        self._ends: set[int] | None = None
        self._holes: list[tuple[int, int]] | None = None
        self._times: list[tuple[int, int]] | None = None
        self.at: i64 = start
        self.need: i64 = end
        self.preface: i64 = 0
        self.position: i64 = -1
        self.work: i64 = 0
        self.limit: i64 = FIRST_STEPS + STEPS_EACH * (end - start)
        self._start_set: set[int] | None = None

    @property
    def starts(self) -> list[int]:
        """Indices where captured segments start, in order."""
        starts = self._starts
        if starts is None:
            starts = [self.only_start] if self.only_start >= 0 else []
            self._starts = starts
        return starts

    @property
    def ends(self) -> set[int]:
        """Indices where captured segments end on the wire."""
        ends = self._ends
        if ends is None:
            ends = {self.only_end} if self.only_end >= 0 else set()
            self._ends = ends
        return ends

    @property
    def holes(self) -> list[tuple[int, int]]:
        """Spans of missing bytes, in order."""
        holes = self._holes
        if holes is None:
            holes = []
            self._holes = holes
        return holes

    @property
    def times(self) -> list[tuple[int, int]]:
        """Indices in order, with the capture time from there on."""
        times = self._times
        if times is None:
            times = [(self.start, self.only_time)] if self.only_end >= 0 else []
            self._times = times
        return times

    @property
    def is_spent(self) -> bool:
        """Return whether the steps of this search are used up."""
        return self.work > self.limit

    def is_end(self, index: i64) -> bool:
        """Return whether a captured segment ends at `index` on the wire."""
        return index == self.only_end if self._ends is None else index in self._ends

    def is_start(self, index: i64) -> bool:
        """Return whether a captured segment starts at `index`."""
        if self._starts is None:
            return index >= 0 and index == self.only_start
        places = self._start_set
        if places is None:
            places = set(self.starts)
            self._start_set = places
        return index in places

    def time_at(self, index: i64) -> i64:
        """Capture time of the byte at `index`; 0 before the first captured byte."""
        if self._times is None:
            return self.only_time if self.only_end >= 0 and self.start <= index else 0
        low: i64 = 0
        high: i64 = len(self.times)
        while low < high:
            middle = (low + high) // 2
            if i64(self.times[middle][0]) > index:
                high = middle
            else:
                low = middle + 1
        return self.times[low - 1][1] if low > 0 else 0

    def can_wait(self, at: i64) -> bool:
        """Return whether more bytes of a frame that may start at `at` can be awaited."""
        return not self.is_last and (at > self.start or not self.is_full)

    def wait(self, at: i64, need: i64) -> i64:
        """Return WAIT, and set its parameters."""
        self.at = at
        self.need = need
        return WAIT

    def seen_from(self, index: i64) -> i64:
        """End of the bytes captured without a hole from `index` on; `index` for none."""
        holes = self._holes
        if holes is None:
            return self.end
        low: i64 = 0
        high: i64 = len(holes)
        while low < high:
            middle = (low + high) // 2
            if index < i64(holes[middle][1]):
                high = middle
            else:
                low = middle + 1
        return max(index, i64(holes[low][0])) if low < len(holes) else self.end

    def seen_parts(self) -> list[tuple[int, int]]:
        """Ranges of bytes captured without a hole, in order."""
        parts: list[tuple[int, int]] = []
        at = self.start
        for first, last in self.holes:
            if at < i64(first):
                parts.append((at, first))
            at = max(at, i64(last))
        if at < self.end:
            parts.append((at, self.end))
        return parts

    def captured_before(self, index: i64) -> i64:
        """Number of captured bytes before `index`."""
        count: i64 = 0
        for first, last in self.seen_parts():
            count += max(0, min(i64(last), index) - i64(first))
        return count

    def hold(self, at: i64) -> i64:
        """WAIT for an event outside this direction; the more is held, the less often."""
        size = self.end - at
        return self.wait(at, self.end + (1 if size < FEW_BYTES else size // 4))


@mypyc_attr(allow_interpreted_subclasses=True)
class Probe:
    """Finds frame starts; this base accepts any size, the exchanges stage refines it."""

    def find_start(self, connection: Connection, direction: i64, window: Window) -> i64:
        """Index in the window where a frame's size field starts, or NOT_HERE, WAIT or IGNORE.

        Called for the first bytes of every direction of every connection, and for more while the
        next frame's position is unknown. With less than PROBE_SIZE bytes, it is called only if no
        more will follow them.
        """
        return window.start

    def is_believed(self, connection: Connection) -> bool:
        """Return whether the connection has frames; if not, skipped bytes are no problem."""
        return True

    def ends_first(self, connection: Connection) -> i64:
        """Direction to finish first at the end of a connection, which helps with the other.

        -1 for the first in which a frame is found.
        """
        return OPENER


# The events of all that hold none; an empty list is never changed.
NO_EVENTS: Final[list[Event]] = []


@mypyc_attr(acyclic=True)
class Waiting:
    """Chunks and gaps in stream order; `span` is their length, `size` that of the chunks.

    `need` is the span at which the probe is called again. `is_cut`: the first chunk is not all of
    its segment. `credit` is the number of remaining steps.
    """

    __slots__ = ("events", "span", "size", "need", "is_cut", "credit")

    def __init__(self) -> None:
        self.events = NO_EVENTS
        self.span: i64 = 0
        self.size: i64 = 0
        self.need: i64 = PROBE_SIZE
        self.is_cut: bool = False
        self.credit: i64 = FIRST_CREDIT

    @property
    def cost(self) -> i64:
        """Approximate memory in use."""
        return self.size + EVENT_COST * len(self.events)

    @property
    def is_full(self) -> bool:
        """Return whether no more is held."""
        return self.span >= WINDOW or self.cost >= MAX_COST

    def pay_in(self, length: i64) -> None:
        """Grant credit for new bytes."""
        self.credit = min(MAX_CREDIT, self.credit + CREDIT_EACH * length)

    def pay_for(self, window: Window) -> i64:
        """Charge a search of the waiting bytes; returns the number of its steps."""
        steps = window.work + EVENT_STEPS * len(self.events)
        if len(self.events) > 1:
            steps += self.span // JOINED_EACH
        self.credit -= steps
        return steps

    def put_off(self) -> i64:
        """Postpone a search for lack of credit; return the number of captured bytes dropped.

        If full, half is dropped, as if no frame had been found in it.
        """
        dropped: i64 = 0
        if self.is_full:
            dropped = self.drop(max(1, self.span // 2))
        need = self.span + 1 - self.credit // CREDIT_EACH
        self.need = max(self.span + 1, min(need, WINDOW))
        return dropped

    def add(self, chunk: Chunk, is_cut: bool) -> None:
        """Hold one more chunk; `is_cut`: not all of its segment."""
        if self.events:
            self.events.append(chunk)
        else:
            self.is_cut = is_cut
            self.events = [chunk]
        length = chunk.end - chunk.start
        self.span += length
        self.size += length

    def add_gap(self, gap: Gap) -> None:
        """Hold a hole between chunks; one before the first is not needed."""
        if self.events:
            self.events.append(gap)
            self.span += gap.length

    def own_last(self) -> None:
        """Copy the newest bytes out of the large buffer they are in, which need not stay alive."""
        if self.events:
            last = self.events[-1]
            if isinstance(last, Chunk):
                self.events[-1] = own_copy(last)

    def window(self, is_full: bool, is_last: bool) -> Window:
        """All waiting data, for a probe."""
        window = self._window(is_full, is_last)
        if is_last:
            saved = max(FIRST_STEPS, self.credit) + LAST_EACH * self.span
            window.limit = min(window.limit, saved)
        return window

    def _window(self, is_full: bool, is_last: bool) -> Window:
        first = self.events[0]
        if len(self.events) == 1 and isinstance(first, Chunk):
            window = Window(first.data, first.start, first.end, is_full, is_last)
            window.position = first.position
            if not self.is_cut:
                window.only_start = first.start
            window.only_time = first.time_ns
            window.only_end = first.end
            return window
        parts: list[bytes] = []
        window = Window(b"", 0, self.span, is_full, is_last)
        window.position = first.position
        at: i64 = 0
        for event in self.events:
            if isinstance(event, Chunk):
                parts.append(event.data[event.start : event.end])
                if at > 0 or not self.is_cut:
                    window.starts.append(at)
                window.times.append((at, event.time_ns))
                at += event.end - event.start
                window.ends.add(at)
            elif isinstance(event, Gap):
                parts.append(bytes(event.length))
                window.holes.append((at, at + event.length))
                if event.is_cut:
                    window.ends.discard(at)
                at += event.length
                window.ends.add(at)
        window.data = b"".join(parts)
        return window

    def drop(self, length: i64) -> i64:
        """Drop the first `length` bytes of the span; return how many of them were captured."""
        dropped: i64 = 0
        self.span -= length
        events = self.events
        gone: i64 = 0
        while gone < len(events) and length > 0:
            first = events[gone]
            own: i64 = 0
            if isinstance(first, Chunk):
                own = first.end - first.start
                if length < own:
                    events[gone] = part_of(first, first.start + length)
                    self.is_cut = True
                    dropped += length
                    break
                dropped += own
            elif isinstance(first, Gap):
                own = first.length
                if length < own:
                    # The rest of a hole is not needed either.
                    self.span -= own - length
                    length = own
            length -= own
            gone += 1
            self.is_cut = False
        while gone < len(events):
            gap = events[gone]
            if not isinstance(gap, Gap):
                break
            self.span -= gap.length
            gone += 1
        if gone > 0:
            del events[:gone]
        self.size -= dropped
        return dropped

    def take(self) -> list[Event]:
        """Return all events, and hold none."""
        events = self.events
        self.events = NO_EVENTS
        self.span = 0
        self.size = 0
        self.need = PROBE_SIZE
        self.credit = FIRST_CREDIT
        return events


# Of all directions in which no frame is searched; it is never changed.
NOT_WAITING: Final = Waiting()


def part_of(chunk: Chunk, at: i64) -> Chunk:
    """The chunk from ``chunk.data[at]`` on."""
    if at == chunk.start:
        return chunk
    return Chunk(
        chunk.connection, chunk.direction, chunk.position + at - chunk.start, chunk.time_ns,
        chunk.packet, chunk.ordinal, chunk.capture, chunk.data, at, chunk.end,
    )  # fmt: skip


def own_copy(chunk: Chunk) -> Chunk:
    """Copy of the chunk with its bytes copied from the large buffer they are in."""
    data = chunk.data[chunk.start : chunk.end]
    return Chunk(
        chunk.connection, chunk.direction, chunk.position, chunk.time_ns, chunk.packet,
        chunk.ordinal, chunk.capture, data, 0, len(data),
    )  # fmt: skip
