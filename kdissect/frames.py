"""Chunk | Gap | End → Frame: cuts the size-delimited frames out of the byte streams.

    frame = int32 size, then `size` bytes          (both directions, Kafka 0.7 to today)

Knows nothing of what is inside a frame; a `Probe` given by the user tells likely frame starts when
the position of the next size field is not known. What is known of one direction:

    SEARCHING ──probe finds a start──▶ AT_SIZE ──size field──▶ IN_BODY ──last byte──▶ AT_SIZE
    SEARCHING ──probe says so, or MAX_FAILURES──▶ IGNORED
    AT_SIZE ──impossible size, or a gap──▶ SEARCHING
    IN_BODY ──gap beyond the body──▶ SEARCHING         (a gap inside costs only this frame)

After finish, for each direction: delivered bytes = framed bytes (size fields too) + skipped bytes.
Longer than other modules, because users find the stage and its two contracts, `Frame` and `Probe`,
in one place, and the hot loop beside the state it changes.
"""

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64, mypyc_attr

from kdissect.errors import Problem
from kdissect.streams.events import OPENER, Chunk, Connection, End, Event, Gap

# socket.request.max.bytes is 100 MiB; a response may hold as much and a header.
MAX_FRAME_SIZE: Final = (100 << 20) + (64 << 10)
# Bodies not yet complete, of all directions: ten of the largest.
MAX_HELD: Final = 1 << 30
# The smallest Kafka request with its size field: fewer bytes tell a probe too little, so they wait.
PROBE_SIZE: Final = 14
MAX_FAILURES: Final = 8  # impossible sizes before a direction is ignored
TRUSTED_FRAMES: Final = 16  # frames in a row after which earlier failures are forgiven

SEARCHING: Final = 0
AT_SIZE: Final = 1
IN_BODY: Final = 2
IGNORED: Final = 3


@mypyc_attr(acyclic=True)
class Frame:
    """One frame of one direction of a connection.

    `data` is the body without the size field: all `size` bytes of it, or, when `missing` > 0, the
    bytes before the first hole (`missing` = size - len(data)). `position` is the stream position
    of the size field. Start is the packet that holds the first byte of the size field, end the one
    that holds the last byte of the body; `end_time_ns` is -1 when that packet was not captured.
    `index` counts the frames that start in the same packet from 0. `retransmits_*` are the
    connection's running count of retransmitted segments at start and end.
    """

    __slots__ = (
        "connection", "direction", "position", "size", "data", "missing", "start_time_ns",
        "start_packet", "start_ordinal", "start_capture", "index", "end_time_ns", "end_packet",
        "retransmits_at_start", "retransmits_at_end",
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
        retransmits_at_start: i64,
        retransmits_at_end: i64,
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
        self.retransmits_at_start = retransmits_at_start
        self.retransmits_at_end = retransmits_at_end


IGNORE: Final = -2  # Probe.find_start: this direction holds no frames at all
NOT_HERE: Final = -1  # Probe.find_start: no frame starts in these bytes
NOTHING: Final[list[Frame]] = []


@mypyc_attr(allow_interpreted_subclasses=True)
class Probe:
    """Tells where frames start; this one trusts any size, the exchanges stage knows better."""

    def find_start(
        self, connection: Connection, direction: i64, data: bytes, start: i64, end: i64
    ) -> i64:
        """Index in ``data[start:end]`` where a frame's size field starts, or NOT_HERE or IGNORE.

        Asked for the first bytes of every direction of every connection, and for each chunk while
        the next frame's position is not known. Less than PROBE_SIZE bytes are asked about only
        when no more will follow them.
        """
        return start


@mypyc_attr(acyclic=True)
class Cutting:
    """Where the cutting of one direction stands.

    `wanted` is how many stream bytes of the body are still to come. `parts` are the bytes of the
    size field (AT_SIZE) or of the body before its first hole (IN_BODY); `held` is their size.
    """

    __slots__ = (
        "connection", "direction", "state", "position", "size", "wanted", "parts", "held",
        "is_holed", "time_ns", "packet", "ordinal", "capture", "index", "retransmits",
        "framed", "skipped", "pending", "pending_size", "was_found", "lost", "failures",
        "frames_since_found",
    )  # fmt: skip

    def __init__(self, connection: Connection, direction: i64) -> None:
        self.connection = connection
        self.direction = direction
        self.state: i64 = SEARCHING
        # The frame being read: see Frame.
        self.position: i64 = -1
        self.size: i64 = 0
        self.wanted: i64 = 0
        self.parts: list[bytes] = []
        self.held: i64 = 0
        self.is_holed: bool = False
        self.time_ns: i64 = -1
        self.packet: i64 = -1
        self.ordinal: i64 = -1
        self.capture: i64 = 0
        self.index: i64 = -1
        self.retransmits: i64 = 0
        self.framed: i64 = 0
        self.skipped: i64 = 0
        # Chunks too small to ask the probe about.
        self.pending: list[Chunk] = []
        self.pending_size: i64 = 0
        self.was_found: bool = False
        # Bytes skipped since the position of the next frame was lost.
        self.lost: i64 = 0
        self.failures: i64 = 0
        self.frames_since_found: i64 = 0

    def begin(self, chunk: Chunk, at: i64) -> None:
        """A frame starts at ``chunk.data[at]``."""
        self.index = self.index + 1 if self.ordinal == chunk.ordinal else 0
        self.position = chunk.position + at - chunk.start
        self.time_ns = chunk.time_ns
        self.packet = chunk.packet
        self.ordinal = chunk.ordinal
        self.capture = chunk.capture
        self.retransmits = self.connection.retransmits

    def frame(self, data: bytes, end_time_ns: i64, end_packet: i64) -> Frame:
        """The frame that was begun, with its body or what there is of it."""
        return Frame(
            self.connection, self.direction, self.position, self.size, data,
            self.size - len(data), self.time_ns, self.packet, self.ordinal, self.capture,
            self.index, end_time_ns, end_packet, self.retransmits, self.connection.retransmits,
        )  # fmt: skip


class Frames:
    """All connections' frames; `problems` grows until the owner takes it away.

    The list that `feed` gives may be shared: do not change it.
    """

    __slots__ = (
        "problems", "_probe", "_max_frame_size", "_max_held", "_held", "_from_opener",
        "_from_accepter", "_counts",
    )  # fmt: skip

    def __init__(
        self, probe: Probe, max_frame_size: i64 = MAX_FRAME_SIZE, max_held: i64 = MAX_HELD
    ) -> None:
        self.problems: list[Problem] = []
        self._probe = probe
        self._max_frame_size = max_frame_size
        self._max_held = max_held
        self._held: i64 = 0
        self._from_opener: dict[Connection, Cutting] = {}
        self._from_accepter: dict[Connection, Cutting] = {}
        self._counts: dict[Connection, tuple[tuple[int, int], tuple[int, int]]] = {}

    def feed(self, event: Event) -> list[Frame]:
        """The frames that the event completes, in order."""
        if isinstance(event, Chunk):
            cutting = self._cutting(event)
            start = event.start
            length = event.end - start
            if cutting.state == IN_BODY and length < cutting.wanted and not cutting.is_holed:
                cutting.wanted -= length
                cutting.framed += length
                self._keep(cutting, event.data[start : event.end], event)
                return NOTHING
            frames: list[Frame] = []
            self._cut(cutting, event, start, frames)
            return frames
        if isinstance(event, Gap):
            return self._gap(self._cutting(event), event)
        if isinstance(event, End):
            return self._end(event)
        return NOTHING

    def take_counts(self, connection: Connection) -> tuple[tuple[int, int], tuple[int, int]]:
        """Framed and skipped bytes of a connection that has ended, by direction; once."""
        return self._counts.pop(connection, ((0, 0), (0, 0)))

    def _cutting(self, event: Event) -> Cutting:
        table = self._from_opener if event.direction == OPENER else self._from_accepter
        cutting = table.get(event.connection)
        if cutting is None:
            cutting = Cutting(event.connection, event.direction)
            table[event.connection] = cutting
        return cutting

    def _cut(self, cutting: Cutting, chunk: Chunk, at: i64, frames: list[Frame]) -> None:
        """Take ``chunk.data[at : chunk.end]``."""
        end = chunk.end
        while at < end:
            state = cutting.state
            if state == AT_SIZE:
                at = self._cut_sizes(cutting, chunk, at, frames)
            elif state == IN_BODY:
                at = self._cut_body(cutting, chunk, at, frames)
            elif state == SEARCHING:
                self._search(cutting, part_of(chunk, at), frames)
                return
            else:
                cutting.skipped += end - at
                return

    def _cut_sizes(self, cutting: Cutting, chunk: Chunk, at: i64, frames: list[Frame]) -> i64:
        """Frames that lie wholly in the chunk, and the start of the one that does not."""
        if cutting.parts:
            return self._cut_split_size(cutting, chunk, at, frames)
        data = chunk.data
        end = chunk.end
        first = at
        while end - at >= 4:
            size = i64(read_i32_be(data, at))
            # A size below 0 or of gigabytes would make everything after it part of this frame.
            if size < 0 or size > self._max_frame_size:
                cutting.framed += at - first
                self._fail(cutting, chunk, at, size)
                self._skip(cutting, 1)
                return at + 1
            cutting.begin(chunk, at)
            cutting.size = size
            if end - at - 4 < size:
                cutting.framed += at + 4 - first
                self._begin_body(cutting)
                return at + 4
            at += 4 + size
            frames.append(cutting.frame(data[at - size : at], chunk.time_ns, chunk.packet))
            cutting.frames_since_found += 1
        cutting.framed += at - first
        if at < end:
            cutting.begin(chunk, at)
            cutting.parts.append(data[at:end])
            cutting.held = end - at
        return end

    def _cut_split_size(self, cutting: Cutting, chunk: Chunk, at: i64, frames: list[Frame]) -> i64:
        """More of a size field that began in an earlier chunk; gives where it stopped reading."""
        stop = min(at + 4 - cutting.held, chunk.end)
        cutting.parts.append(chunk.data[at:stop])
        cutting.held += stop - at
        if cutting.held < 4:
            return stop
        field = b"".join(cutting.parts)
        cutting.parts = []
        cutting.held = 0
        size = i64(read_i32_be(field, 0))
        if size < 0 or size > self._max_frame_size:
            # The bytes in earlier chunks are gone; the search goes on in this one.
            self._fail(cutting, chunk, at, size)
            self._skip(cutting, 4 - (stop - at))
            return at
        cutting.framed += 4
        cutting.size = size
        self._begin_body(cutting)
        if size == 0:
            self._complete(cutting, chunk.time_ns, chunk.packet, frames)
        return stop

    def _begin_body(self, cutting: Cutting) -> None:
        cutting.state = IN_BODY
        cutting.wanted = cutting.size
        cutting.is_holed = False

    def _cut_body(self, cutting: Cutting, chunk: Chunk, at: i64, frames: list[Frame]) -> i64:
        """More of the body; gives where it stopped reading."""
        stop = min(at + cutting.wanted, chunk.end)
        cutting.wanted -= stop - at
        cutting.framed += stop - at
        if not cutting.is_holed:
            self._keep(cutting, chunk.data[at:stop], chunk)
        if cutting.wanted == 0:
            self._complete(cutting, chunk.time_ns, chunk.packet, frames)
        return stop

    def _keep(self, cutting: Cutting, part: bytes, chunk: Chunk) -> None:
        """Put bytes to the body, unless too much is held already."""
        size: i64 = len(part)
        if self._held + size > self._max_held:
            cutting.is_holed = True
            text = f"{self._held} bytes of incomplete frames are held: the rest of one is dropped"
            self._report("frame-held-limit", text, cutting.wanted + size, chunk)
            return
        cutting.parts.append(part)
        cutting.held += size
        self._held += size

    def _complete(
        self, cutting: Cutting, end_time_ns: i64, end_packet: i64, frames: list[Frame]
    ) -> None:
        """The frame is over; what is missing of its body is missing."""
        parts = cutting.parts
        frames.append(
            cutting.frame(parts[0] if len(parts) == 1 else b"".join(parts), end_time_ns, end_packet)
        )
        cutting.frames_since_found += 1
        self._held -= cutting.held
        cutting.parts = []
        cutting.held = 0
        cutting.state = AT_SIZE

    def _gap(self, cutting: Cutting, gap: Gap) -> list[Frame]:
        frames: list[Frame] = []
        if cutting.state == SEARCHING:
            # Bytes before and after a gap cannot be asked about together.
            self._search_pending(cutting, 1, frames)
        if cutting.state == IN_BODY:
            cutting.is_holed = True
            if gap.length < cutting.wanted:
                cutting.wanted -= gap.length
                return frames
            is_next_known = gap.length == cutting.wanted
            if gap.is_cut:
                self._complete(cutting, gap.time_ns, gap.packet, frames)
            else:
                self._complete(cutting, -1, -1, frames)
            if is_next_known:
                return frames
        if cutting.state == AT_SIZE:
            self._lose(cutting)
        return frames

    def _lose(self, cutting: Cutting) -> None:
        """The position of the next size field is not known any more."""
        cutting.state = SEARCHING
        if cutting.frames_since_found >= TRUSTED_FRAMES:
            cutting.failures = 0
        cutting.lost = 0
        cutting.was_found = True
        self._skip(cutting, cutting.held)
        cutting.parts = []
        cutting.held = 0

    def _fail(self, cutting: Cutting, chunk: Chunk, at: i64, size: i64) -> None:
        """The size field that was read at ``chunk.data[at]``, or ended there, is impossible."""
        self._report("bad-frame-size", f"size field says {size}", chunk.end - at, chunk)
        self._lose(cutting)
        cutting.failures += 1
        if cutting.failures >= MAX_FAILURES:
            text = f"{MAX_FAILURES} impossible sizes: the rest of this direction is skipped"
            self._report("not-frames", text, chunk.end - at, chunk)
            cutting.state = IGNORED

    def _search(self, cutting: Cutting, chunk: Chunk, frames: list[Frame]) -> None:
        """Ask the probe about a chunk, together with the small ones before it."""
        cutting.pending.append(chunk)
        cutting.pending_size += chunk.end - chunk.start
        self._search_pending(cutting, PROBE_SIZE, frames)
        if cutting.pending:
            # A few bytes that wait must not keep a large buffer alive.
            cutting.pending.append(own_copy(cutting.pending.pop()))

    def _search_pending(self, cutting: Cutting, enough: i64, frames: list[Frame]) -> None:
        """Ask about the chunks that wait, while they are `enough` bytes; drop where the no is."""
        while cutting.pending_size >= enough:
            first = cutting.pending[0]
            found = self._ask(cutting)
            if found == IGNORE:
                cutting.state = IGNORED
                cutting.skipped += cutting.pending_size
                self._drop_pending(cutting)
            elif found < 0:
                self._skip(cutting, first.end - first.start)
                cutting.pending_size -= first.end - first.start
                del cutting.pending[0]
            else:
                self._resume(cutting, found, frames)

    def _ask(self, cutting: Cutting) -> i64:
        """How far into the waiting bytes a frame starts, or NOT_HERE or IGNORE."""
        chunk = cutting.pending[0]
        data = chunk.data
        start = chunk.start
        end = chunk.end
        if len(cutting.pending) > 1:
            data = b"".join([part.data[part.start : part.end] for part in cutting.pending])
            start = 0
            end = len(data)
        found = self._probe.find_start(cutting.connection, cutting.direction, data, start, end)
        return found - start if start <= found < end else min(found, NOT_HERE)

    def _resume(self, cutting: Cutting, found: i64, frames: list[Frame]) -> None:
        """A frame starts `found` bytes into the waiting chunks: cut from there on."""
        chunks = cutting.pending
        self._drop_pending(cutting)
        self._skip(cutting, found)
        cutting.state = AT_SIZE
        cutting.frames_since_found = 0
        is_reported = False
        for chunk in chunks:
            length = chunk.end - chunk.start
            if found < length:
                if not is_reported:
                    self._report_resync(cutting, chunk)
                    is_reported = True
                self._cut(cutting, chunk, chunk.start + found, frames)
            found = max(0, found - length)

    def _drop_pending(self, cutting: Cutting) -> None:
        cutting.pending = []
        cutting.pending_size = 0

    def _skip(self, cutting: Cutting, size: i64) -> None:
        cutting.skipped += size
        cutting.lost += size

    def _report_resync(self, cutting: Cutting, chunk: Chunk) -> None:
        if cutting.was_found:
            text = f"{cutting.lost} bytes skipped until a frame was found again"
            self._report("resync", text, cutting.lost, chunk)
        elif cutting.lost > 0:
            text = f"{cutting.lost} bytes skipped until the first frame was found"
            self._report("resync", text, cutting.lost, chunk)

    def _end(self, end: End) -> list[Frame]:
        frames: list[Frame] = []
        connection = end.connection
        opener = self._from_opener.pop(connection, None)
        accepter = self._from_accepter.pop(connection, None)
        framed = [0, 0]
        skipped = [0, 0]
        for cutting in (opener, accepter):
            if cutting is not None:
                self._finish(cutting, end, frames)
                framed[cutting.direction] = cutting.framed
                skipped[cutting.direction] = cutting.skipped
        self._counts[connection] = ((framed[0], framed[1]), (skipped[0], skipped[1]))
        return frames

    def _finish(self, cutting: Cutting, end: End, frames: list[Frame]) -> None:
        """Nothing more comes in a direction."""
        if cutting.state == SEARCHING:
            self._search_pending(cutting, 1, frames)
        if cutting.state == IN_BODY:
            self._complete(cutting, -1, -1, frames)
        elif cutting.state == AT_SIZE:
            cutting.skipped += cutting.held
        elif cutting.state == SEARCHING and cutting.lost > 0:
            text = f"{cutting.lost} bytes skipped at the end, where no frame was found"
            self._report("no-resync", text, cutting.lost, end)

    def _report(self, kind: str, text: str, size: i64, event: Event) -> None:
        self.problems.append(
            Problem("frames", kind, text, event.time_ns, event.packet, size,
                    event.connection.id, -1, event.capture)
        )  # fmt: skip


def part_of(chunk: Chunk, at: i64) -> Chunk:
    """The chunk from ``chunk.data[at]`` on."""
    if at == chunk.start:
        return chunk
    return Chunk(
        chunk.connection, chunk.direction, chunk.position + at - chunk.start, chunk.time_ns,
        chunk.packet, chunk.ordinal, chunk.capture, chunk.data, at, chunk.end,
    )  # fmt: skip


def own_copy(chunk: Chunk) -> Chunk:
    """The chunk with its bytes copied out of the large buffer they lie in."""
    data = chunk.data[chunk.start : chunk.end]
    return Chunk(
        chunk.connection, chunk.direction, chunk.position, chunk.time_ns, chunk.packet,
        chunk.ordinal, chunk.capture, data, 0, len(data),
    )  # fmt: skip
