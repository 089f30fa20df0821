"""Values of the stages from segments to frames."""

from collections.abc import Sequence
from typing import Final

from kdissect.checkpoint.packed_segments import packed_segments, unpacked_segments
from kdissect.encoding.classes import Fields, Inline, Ref, declare, fields_by_value
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
from kdissect.streams.direction_counts import DirectionCounts
from kdissect.streams.duplicates import Mark
from kdissect.streams.events import Chunk, Connection, Gap
from kdissect.streams.reassembly_buffer import Piece, ReassemblyBudget, ReassemblyBuffer
from kdissect.streams.receiver import Receiver
from kdissect.streams.recent_chunks import RecentChunks
from kdissect.streams.resent import Resent
from kdissect.streams.tcp_analysis import TcpAnalysis

# Placeholder for fields that are set when an object is read.
NO_CONNECTION: Final = Connection(-1, 0, b"", 0, 0)
NO_BUDGET: Final = ReassemblyBudget(0)
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
# By direction.
INTS: Final = Fixed(INT, INT)
BOOLS: Final = Fixed(BOOL, BOOL)

DIRECTION_COUNTS: Final = fields_by_value(
    DirectionCounts,
    DirectionCounts,
)
OF_CONNECTION: Final = fields_by_value(
    Connection,
    lambda: Connection(-1, 0, b"", 0, 0),
    start_seen=BOOLS,
    handshake_half_ns=INTS,
    min_rtt_ns=INTS,
    counts=Fixed(COUNTS, COUNTS),
)
OF_EVENT: Final = "direction position time_ns packet ordinal capture"
OF_CHUNK: Final = fields_by_value(
    Chunk,
    lambda: Chunk(NO_CONNECTION, 0, 0, 0, 0, 0, 0, b"", 0, 0),
    connection=CONNECTION,
)
OF_GAP: Final = fields_by_value(
    Gap,
    lambda: Gap(NO_CONNECTION, 0, 0, 0, 0, 0, 0, 0, False, False),
    connection=CONNECTION,
)

SYMPTOMS: Final = fields_by_value(
    TcpAnalysis,
    TcpAnalysis,
)
CLOCK: Final = fields_by_value(
    Clock,
    Clock,
)
ACKNOWLEDGED: Final = Fields(
    Acknowledged, Acknowledged, ints="position _marked_position _marked_ns _settled_position"
)
RESENT: Final = Fields(Resent, Resent, ints="start end size due_ns waiting since_ns")
PIECE: Final = fields_by_value(
    Piece,
    lambda: Piece(0, 0, b"", NO_SEGMENT),
)
HELD: Final = fields_by_value(
    ReassemblyBuffer,
    lambda: ReassemblyBuffer(NO_BUDGET),
    pieces=Many(Inline(PIECE)),
    left_out={"budget": NO_BUDGET},
)
SEGMENT: Final = fields_by_value(
    Segment,
    lambda: Segment(0, 0, 0, 0, b"", 0, 0, 0, 0, b"", 0, 0, 0, 0, 0),
)
OF_RECEIVER: Final = fields_by_value(
    Receiver,
    lambda: Receiver(NO_CONNECTION, 0, 0, NO_BUDGET, NO_RECENT),
    connection=CONNECTION,
    counts=COUNTS,
    peer=RECEIVER,
    tcp_analysis=Inline(SYMPTOMS),
    acknowledged=Inline(ACKNOWLEDGED),
    resent=Inline(RESENT),
    stray=Maybe(Inline(SEGMENT)),
    held=Inline(HELD),
    left_out={"recent": NO_RECENT},
)

WAITING: Final = Fields(
    Waiting, Waiting, ints="span size need credit", bools="is_cut", events=EVENTS
)
CUTTING: Final = fields_by_value(
    FramingState,
    lambda: FramingState(NO_CONNECTION, 0),
    connection=CONNECTION,
    parts=Many(BYTES),
    waiting=Inline(WAITING),
)
OF_FRAME: Final = fields_by_value(
    Frame,
    lambda: Frame(NO_CONNECTION, 0, 0, 0, b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    connection=CONNECTION,
)
MARK: Final = Fields(Mark, Mark, ints="stream numbers identity state options time_ns")

STREAM_VALUES: Final = (
    DIRECTION_COUNTS, OF_CONNECTION, OF_CHUNK, OF_GAP, SYMPTOMS, ACKNOWLEDGED, RESENT, PIECE,
    HELD, SEGMENT, OF_RECEIVER, WAITING, CUTTING, OF_FRAME, MARK,
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
