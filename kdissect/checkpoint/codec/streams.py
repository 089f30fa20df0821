"""Values of the stages from segments to frames."""

from collections.abc import Sequence
from typing import Final

from kdissect.checkpoint.packed_segments import packed_segments, unpacked_segments
from kdissect.encoding.classes import Fields, Inline, Ref, declare
from kdissect.encoding.kinds import (
    BOOL,
    BYTES,
    INT,
    TEXT,
    Converted,
    Fixed,
    Many,
    Maybe,
    Rows,
    named,
)
from kdissect.encoding.sinks import U64, signed
from kdissect.errors import Problem
from kdissect.framing.frame_search import Waiting
from kdissect.framing.frames import Frame, FramingState
from kdissect.packets.segment import Segment
from kdissect.streams.acknowledged import Acknowledged
from kdissect.streams.clock import Clock
from kdissect.streams.duplicates import Mark
from kdissect.streams.events import Chunk, Connection, DirectionCounts, Gap
from kdissect.streams.reassembly_buffer import Piece, ReassemblyBudget, ReassemblyBuffer
from kdissect.streams.receiver import Receiver
from kdissect.streams.recent_chunks import RecentChunks
from kdissect.streams.tcp_analysis import TcpAnalysis

# Placeholder for fields that are set when an object is read.
NO_CONNECTION: Final = Connection(-1, 0, b"", 0, 0)
NO_ALLOWANCE: Final = ReassemblyBudget(0)
NO_RECENT: Final = RecentChunks()
NO_SEGMENT: Final = Segment(0, 0, 0, 0, b"", 0, 0, 0, 0, b"", 0, 0, 0, 0, 0)
NO_FRAME: Final = Frame(NO_CONNECTION, 0, 0, 0, b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

COUNTS: Final = Ref(DirectionCounts)
CONNECTION: Final = Ref(Connection)
RECEIVER: Final = Ref(Receiver)
CHUNK: Final = Ref(Chunk)
GAP: Final = Ref(Gap)
FRAME: Final = Ref(Frame)
EVENTS: Final = Many(Ref(Chunk, Gap))
PROBLEM: Final = named(
    Problem,
    stage=TEXT,
    kind=TEXT,
    message=TEXT,
    time_ns=INT,
    packet_number=INT,
    bytes=INT,
    connection_id=INT,
    exchange_id=INT,
    capture=INT,
)
PROBLEMS: Final = Many(PROBLEM)
# By direction, as mutable lists.
TWO_INTS: Final = Fixed(INT, INT, made=list)
TWO_BOOLS: Final = Fixed(BOOL, BOOL, made=list)

DIRECTION_COUNTS: Final = Fields(
    DirectionCounts,
    DirectionCounts,
    ints="capture_lost_bytes cut_bytes delivered_bytes duplicate_acks duplicate_bytes "
    "duplicate_packet_bytes duplicate_packets fast_retransmits gaps keepalives missing_bytes "
    "missing_cut_bytes network_lost_bytes out_of_order_segments packets payload_bytes "
    "retransmitted_segments spurious_retransmits window_probes wire_bytes zero_window_ns "
    "zero_windows",
    bools="fin_seen rst_seen",
)
OF_CONNECTION: Final = Fields(
    Connection,
    lambda: Connection(-1, 0, b"", 0, 0),
    ints="id capture first_time_ns last_time_ns first_packet handshake_rtt_ns rtt_ns tcp_events "
    "clear_directions edge history_used given epoch clock_steps ended_by "
    "unframed",
    bools="syn_seen",
    flow=BYTES,
    start_seen=TWO_BOOLS,
    handshake_half_ns=TWO_INTS,
    min_rtt_ns=TWO_INTS,
    counts=Fixed(COUNTS, COUNTS),
    closed_by=TEXT,
)
OF_EVENT: Final = "direction position time_ns packet ordinal capture"
OF_CHUNK: Final = Fields(
    Chunk,
    lambda: Chunk(NO_CONNECTION, 0, 0, 0, 0, 0, 0, b"", 0, 0),
    ints=f"{OF_EVENT} start end seen",
    connection=CONNECTION,
    data=BYTES,
)
OF_GAP: Final = Fields(
    Gap,
    lambda: Gap(NO_CONNECTION, 0, 0, 0, 0, 0, 0, 0, False, False),
    ints=f"{OF_EVENT} length",
    bools="is_acknowledged is_cut is_exact",
    connection=CONNECTION,
)

SYMPTOMS: Final = Fields(
    TcpAnalysis,
    lambda: TcpAnalysis(NO_CONNECTION, NO_CONNECTION.counts[0]),
    ints="repeated repeats repeated_ns closed_ns",
    connection=CONNECTION,
    counts=COUNTS,
)
CLOCK: Final = Fields(
    Clock,
    Clock,
    ints="first_ns now_ns lowest_ns mark epoch start_ns odd_ns steps back_count",
)
ACKNOWLEDGED: Final = Fields(
    Acknowledged, Acknowledged, ints="position _marked_position _marked_ns _settled_position"
)
PIECE: Final = Fields(
    Piece,
    lambda: Piece(0, 0, b"", NO_SEGMENT),
    ints="position length time_ns number ordinal capture",
    data=BYTES,
)
HELD: Final = Fields(
    ReassemblyBuffer,
    lambda: ReassemblyBuffer(NO_ALLOWANCE),
    ints="head payload cost",
    pieces=Many(Inline(PIECE)),
    left_out={"allowance": NO_ALLOWANCE},
)
SEGMENT: Final = Fields(
    Segment,
    lambda: Segment(0, 0, 0, 0, b"", 0, 0, 0, 0, b"", 0, 0, 0, 0, 0),
    ints="number ordinal capture time_ns sequence acknowledgment flags window start end "
    "payload_length header ip_id addresses ports",
    flow=BYTES,
    data=BYTES,
)
OF_RECEIVER: Final = Fields(
    Receiver,
    lambda: Receiver(NO_CONNECTION, 0, 0, NO_ALLOWANCE, NO_RECENT),
    ints="direction stream next_sequence next_position timed_position timed_ns syn_sequence "
    "syn_ns latest_acknowledgment latest_window fin_position window_probe hole_ns held_limit "
    "disagreements",
    bools="needs_care awaits_handshake announces_zero warned_of_start is_over",
    connection=CONNECTION,
    counts=COUNTS,
    peer=RECEIVER,
    tcp_analysis=Inline(SYMPTOMS),
    acknowledged=Inline(ACKNOWLEDGED),
    stray=Maybe(Inline(SEGMENT)),
    held=Inline(HELD),
    left_out={"recent": NO_RECENT},
)

WAITING: Final = Fields(
    Waiting, Waiting, ints="span size need credit", bools="is_cut", events=EVENTS
)
CUTTING: Final = Fields(
    FramingState,
    lambda: FramingState(NO_CONNECTION, 0),
    ints="direction state position size wanted held time_ns packet ordinal capture index "
    "steps tcp_events framed skipped waited lost failures frames_since_found",
    bools="is_holed was_found is_behind_loss",
    connection=CONNECTION,
    parts=Many(BYTES),
    waiting=Inline(WAITING),
)
OF_FRAME: Final = Fields(
    Frame,
    lambda: Frame(NO_CONNECTION, 0, 0, 0, b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    ints="direction position size missing start_time_ns start_packet start_ordinal "
    "start_capture index end_time_ns end_packet tcp_events_at_start tcp_events_at_end "
    "steps_at_start",
    bools="is_behind_loss is_broken_off",
    connection=CONNECTION,
    data=BYTES,
)
MARK: Final = Fields(Mark, Mark, ints="stream numbers identity state options time_ns")

STREAM_VALUES: Final = (
    DIRECTION_COUNTS, OF_CONNECTION, OF_CHUNK, OF_GAP, SYMPTOMS, ACKNOWLEDGED, PIECE, HELD,
    SEGMENT, OF_RECEIVER, WAITING, CUTTING, OF_FRAME, MARK,
)  # fmt: skip
# These numbers are part of the format.
for number, layout in enumerate((DIRECTION_COUNTS, OF_CONNECTION, OF_CHUNK, OF_GAP, OF_RECEIVER)):
    declare(number, layout)
declare(5, OF_FRAME)

# A boundary state has thousands of these.
SEGMENTS: Final = Converted(
    Fixed(BYTES, BYTES), packed_segments, lambda value: unpacked_segments(*value)
)


def wraps() -> bool:
    """Return whether numbers have 64 bits, as they do in the compiled build."""
    try:
        Mark().numbers = 1 << 63
    except (TypeError, OverflowError):
        return True
    return False


HAS_64_BITS: Final = wraps()


def fields_of_mark(mark: Mark) -> Sequence[int]:
    """Fields of a mark; sequence and acknowledgment number take all of 64 bits."""
    return (
        mark.stream,
        signed(mark.numbers),
        mark.identity,
        mark.state,
        signed(mark.options),
        mark.time_ns,
    )


def make_mark(
    stream: int, numbers: int, identity: int, state: int, options: int, time_ns: int
) -> Mark:
    """Build a mark from its fields in their order."""
    mark = Mark()
    mark.stream = stream
    mark.numbers = signed(numbers) if HAS_64_BITS else numbers & U64
    mark.identity, mark.state, mark.options, mark.time_ns = identity, state, options, time_ns
    return mark


def split_placed(placed: tuple[int, Mark]) -> Sequence[int]:
    """Place of a mark among the last segments, and its fields."""
    at, mark = placed
    return (at, *fields_of_mark(mark))


def placed_mark(at: int, *fields: int) -> tuple[int, Mark]:
    """Build a mark with its place."""
    return at, make_mark(*fields)


ONE_MARK: Final = Converted(
    Fixed(*[INT] * len(MARK.ints)), fields_of_mark, lambda fields: make_mark(*fields)
)
MARKS: Final = Rows(1 + len(MARK.ints), split_placed, placed_mark, tuple)
