"""The values between and inside the stages as bytes: for other processes, machines and days.

Each class is written with a number, not with its name, and field by field, so that only these
classes can come out of bytes: nothing in them is ever called. Both builds read each other's.
"""

import io
import pickle
from collections import deque
from collections.abc import Callable
from itertools import repeat
from typing import Any, Final

from kdissect.errors import KdissectError, Problem
from kdissect.exchanges.exchange import Asks, Exchange, Producing
from kdissect.exchanges.memory import (
    ConnectionState,
    EarlyResponse,
    TopicPositions,
    unpacked_positions,
)
from kdissect.exchanges.sasl import Login
from kdissect.frames import Cutting, Frame
from kdissect.kept_segments import packed_segments, unpacked_segments
from kdissect.messages.batches import Batch
from kdissect.messages.facts import ErrorFact
from kdissect.messages.partitions import HeldBatches, Partition, Partitions, unpacked
from kdissect.packets.segment import Segment
from kdissect.searching import Waiting
from kdissect.streams.acknowledged import Acknowledged
from kdissect.streams.copies import Mark
from kdissect.streams.events import Chunk, Connection, DirectionCounts, Event, Gap
from kdissect.streams.held import Allowance, Held, Piece
from kdissect.streams.receiver import Receiver
from kdissect.streams.recent import Recent
from kdissect.streams.symptoms import Symptoms
from kdissect.tls.stage import Watch

NO_CONNECTION: Final = Connection(-1, 0, b"", 0, 0)
NO_ALLOWANCE: Final = Allowance(0)
NO_RECENT: Final = Recent()
NO_SEGMENT: Final = Segment(0, 0, 0, 0, b"", 0, 0, 0, 0, b"", 0, 0, 0, 0, 0)
NO_FRAME: Final = Frame(NO_CONNECTION, 0, 0, 0, b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

# How to make one of each, whose fields are then set. The order is their number: add at the end.
BLANKS: Final[list[tuple[type, Callable[[], Any]]]] = [
    (Connection, lambda: Connection(-1, 0, b"", 0, 0)),
    (DirectionCounts, DirectionCounts),
    (Receiver, lambda: Receiver(NO_CONNECTION, 0, 0, NO_ALLOWANCE, NO_RECENT)),
    (Symptoms, lambda: Symptoms(NO_CONNECTION, NO_CONNECTION.counts[0])),
    (Acknowledged, Acknowledged),
    (Held, lambda: Held(NO_ALLOWANCE)),
    (Piece, lambda: Piece(0, 0, b"", NO_SEGMENT)),
    (Segment, lambda: Segment(0, 0, 0, 0, b"", 0, 0, 0, 0, b"", 0, 0, 0, 0, 0)),
    (Chunk, lambda: Chunk(NO_CONNECTION, 0, 0, 0, 0, 0, 0, b"", 0, 0)),
    (Gap, lambda: Gap(NO_CONNECTION, 0, 0, 0, 0, 0, 0, 0, False, False)),
    (Cutting, lambda: Cutting(NO_CONNECTION, 0)),
    (Waiting, Waiting),
    (Frame, lambda: Frame(NO_CONNECTION, 0, 0, 0, b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
    (ConnectionState, lambda: ConnectionState(NO_CONNECTION)),
    (TopicPositions, TopicPositions),
    (EarlyResponse, lambda: EarlyResponse(0, NO_FRAME, 0)),
    (Login, Login),
    (Exchange, lambda: Exchange(NO_CONNECTION, 0, 0, 0)),
    (Asks, lambda: Asks([], [], 0, 0)),
    (Partition, lambda: Partition("", b"", 0)),
    (ErrorFact, lambda: ErrorFact("", 0)),
    (Batch, lambda: Batch(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
    (Mark, Mark),
    (Watch, Watch),
    (HeldBatches, lambda: HeldBatches([], b"")),
    (Partitions, lambda: unpacked([], [], b"", None)),
    (Producing, lambda: Producing(0, 0, 0, 0)),
]
NUMBERS: Final = {kind: number for number, (kind, _) in enumerate(BLANKS)}
FIELDS: Final[dict[type, tuple[str, ...]]] = {}
# What belongs to the stage that a value is in, and is put in its place there.
PLACES: Final[dict[str, Any]] = {"recent": NO_RECENT, "allowance": NO_ALLOWANCE}
# Long lists of small values, as bytes: how to make them, and the lists again.
PACKED: Final[dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "segments": (packed_segments, lambda value: unpacked_segments(*value)),
}
SPECIAL: Final[set[str]] = {*PLACES, *PACKED}


def fields_of(kind: type) -> tuple[str, ...]:
    """The fields of one of these classes; nothing for other classes."""
    fields = FIELDS.get(kind)
    if fields is None:
        fields = FIELDS[kind] = find_fields(kind)
    return fields


def find_fields(kind: type) -> tuple[str, ...]:
    """The same, not looked up."""
    if kind not in NUMBERS:
        return ()
    names: list[str] = []
    for one in (kind, Event) if issubclass(kind, Event) else (kind,):
        own = getattr(one, "__slots__", ()) or getattr(one, "__mypyc_attrs__", ())
        names += [name for name in own if name not in names]
    if not names:
        names += list(vars(blank(NUMBERS[kind])))
    return tuple(sorted(names))


def blank(number: int) -> Any:
    """A value of a class, whose fields are to be set."""
    return BLANKS[number][1]()


def fill(value: Any, fields: tuple[Any, ...]) -> None:
    """Set all fields of a value, in the order of `fields_of`."""
    names = fields_of(type(value))
    if len(fields) != len(names):
        raise ValueError(f"{len(fields)} fields of {type(value).__name__}")
    if not SPECIAL.isdisjoint(names):
        fields = tuple(map(received, names, fields))
    # One after the other, without a loop in Python: there are many thousands.
    deque(map(setattr, repeat(value), names, fields), 0)


def make_segment(*fields: Any) -> Segment:
    """A segment of fields in the order of its constructor."""
    return Segment(*fields)


def make_mark(*fields: Any) -> Mark:
    """A mark of its fields in their order."""
    stream, numbers, identity, state, options, time_ns = fields
    mark = Mark()
    if HAS_64_BITS:
        numbers, options = signed(numbers), signed(options)
    else:
        numbers &= U64
    mark.stream, mark.numbers, mark.identity = stream, numbers, identity
    mark.state, mark.options, mark.time_ns = state, options, time_ns
    return mark


def signed(number: int) -> int:
    """As 64 bits have it."""
    return (number + (1 << 63) & U64) - (1 << 63)


def wraps() -> bool:
    """Whether numbers have 64 bits, as they do in the compiled build."""
    try:
        Mark().numbers = 1 << 63
    except (TypeError, OverflowError):
        return True
    return False


U64: Final = (1 << 64) - 1
HAS_64_BITS: Final = wraps()


MADE: Final[dict[int, Callable[..., Any]]] = {
    NUMBERS[Segment]: make_segment,
    NUMBERS[Mark]: make_mark,
    NUMBERS[Partitions]: unpacked,
    NUMBERS[TopicPositions]: unpacked_positions,
}
MADE_FIELDS: Final = {
    NUMBERS[Segment]: (
        "number", "ordinal", "capture", "time_ns", "flow", "sequence", "acknowledgment", "flags",
        "window", "data", "start", "end", "payload_length", "header", "ip_id", "addresses", "ports",
    ),
    NUMBERS[Mark]: ("stream", "numbers", "identity", "state", "options", "time_ns"),
    NUMBERS[TopicPositions]: ("packed",),
    NUMBERS[Partitions]: ("topics", "topic_ids", "packed", "held"),
}  # fmt: skip


def sent(name: str, field: Any) -> Any:
    """What travels of a field."""
    if name in PLACES:
        return None
    return PACKED[name][0](field) if name in PACKED else field


def received(name: str, field: Any) -> Any:
    """The field of what has travelled."""
    if name in PACKED:
        return PACKED[name][1](field)
    return PLACES.get(name, field)


class _Writer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        number = NUMBERS.get(type(value))
        if number is None:
            return NotImplemented
        if number in MADE:
            # Thousands of them are in a seam: made at once, and not filled field by field.
            return MADE[number], tuple(map(getattr, repeat(value), MADE_FIELDS[number]))
        names = fields_of(type(value))
        fields = tuple(map(getattr, repeat(value), names))
        if not SPECIAL.isdisjoint(names):
            fields = tuple(map(sent, names, fields))
        return blank, (number,), fields, None, None, fill


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[name]
        except KeyError:
            raise KdissectError(f"bytes that are no seam: they name {module}.{name}") from None


# What unpickling raises of bytes that are not whole: sizes and indices in them may be anything.
DAMAGE: Final = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, LookupError,
    OverflowError, MemoryError,
)  # fmt: skip
# By name alone: where a class lives differs between builds.
ALLOWED: Final[dict[str, Any]] = {
    "blank": blank,
    "fill": fill,
    "Problem": Problem,
    "make_segment": make_segment,
    "make_mark": make_mark,
    "unpacked": unpacked,
    "unpacked_positions": unpacked_positions,
}


def allow(*kinds: type) -> None:
    """Let these classes, of plain tuples or frozen values, come out of bytes too."""
    for kind in kinds:
        ALLOWED[kind.__name__] = kind


def allow_stage(kind: type, make: Callable[[], Any]) -> None:
    """Let a class with fields of its own come out of bytes too; `make` makes a blank one.

    The order of these calls is part of the format.
    """
    NUMBERS[kind] = len(BLANKS)
    BLANKS.append((kind, make))


def allow_place(name: str) -> None:
    """Let fields of this name stay behind: who loads a value fills in what belongs there."""
    PLACES[name] = None
    SPECIAL.add(name)


def dump(value: Any) -> bytes:
    """A value made of these classes, tuples, lists, dicts, texts, bytes and numbers, as bytes."""
    out = io.BytesIO()
    _Writer(out, protocol=5).dump(value)
    return out.getvalue()


def load(content: bytes) -> Any:
    """The value that `dump` wrote; raises KdissectError for anything else."""
    try:
        return _Reader(io.BytesIO(content)).load()
    except DAMAGE as error:
        raise KdissectError(f"bytes that are no seam: {error}") from error
