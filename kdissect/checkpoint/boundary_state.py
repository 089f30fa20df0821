"""`BoundaryState`: unknown and open parts of a split of a capture, the input of `Merger`.

It holds no rows, but the stages' state of each connection that crosses an edge of the split: at the
left edge, the segments before the connection was synchronized (`left_edge.Prefix`); at the right
edge, the state of the stages. Its size depends on the crossing connections, not on the split.
Longer than other modules: its values stand beside their encoding.
"""

from typing import Any, Final, NamedTuple

import pyarrow as pa

from kdissect.capture.splits import Reached, Split
from kdissect.checkpoint.codec.captures import REACHED, SPLIT
from kdissect.checkpoint.codec.exchanges import EXCHANGE, POSITIONS, STATE
from kdissect.checkpoint.codec.streams import (
    CHUNK,
    CONNECTION,
    CUTTING,
    MARKS,
    NO_CONNECTION,
    ONE_MARK,
    PROBLEM,
    RECEIVER,
    SEGMENTS,
)
from kdissect.checkpoint.codec.tls import WATCH
from kdissect.checkpoint.group_history import LearnedAt
from kdissect.checkpoint.left_edge import BUCKETS, Ended, InsideEnded, Prefix
from kdissect.checkpoint.synchronization import Counted
from kdissect.dissection.totals import OF_CONNECTIONS
from kdissect.encoding.choices import Plain
from kdissect.encoding.classes import Fields, Inline
from kdissect.encoding.documents import Document, dump, load
from kdissect.encoding.kinds import (
    BOOL,
    BYTES,
    INT,
    INT_PAIR,
    INTS,
    TEXT,
    TEXT_COUNTS,
    Dict,
    Fixed,
    Many,
    Maybe,
    Rows,
    named,
)
from kdissect.errors import EncodingError, Problem
from kdissect.exchanges.connection_state import ConnectionState, Positions
from kdissect.exchanges.exchange import Exchange
from kdissect.framing.frames import FramingState
from kdissect.streams.connections import Repeat
from kdissect.streams.duplicates import Mark
from kdissect.streams.events import Chunk
from kdissect.streams.receiver import Receiver
from kdissect.tls.stage import Watch

VERSION: Final = 18
ARROW: Final = pa.schema(
    [
        pa.field("version", pa.int32()),
        pa.field("path", pa.string()),
        pa.field("start", pa.int64()),
        pa.field("ordinal", pa.int64()),
        pa.field("connections", pa.int64()),
        pa.field("content", pa.binary()),
    ],
    metadata={"kdissect.table": "boundaries"},
)


class Open(NamedTuple):
    """A connection that is open at the end of a split, with the state of each stage."""

    opener: Receiver
    opener_framing: FramingState | None
    accepter_framing: FramingState | None
    state: ConnectionState | None
    watch: Watch | None


class Left(NamedTuple):
    """A connection that cannot be continued from here: TLS, protocols from before 0.8.

    `given` exchanges came out of it in the split.
    """

    flow: bytes
    connection_id: int
    given: int


class Times(NamedTuple):
    """Clock of a split's segments at both ends (see `streams.clock`).

    `first_ns` is -1 without segments, `lowest_ns` the earliest time.
    """

    first_ns: int
    lowest_ns: int
    now_ns: int


class Totals(NamedTuple):
    """Counts of a split: of all its packets, and of the connections that it counted itself."""

    packets: int
    captured_bytes: int
    packets_by_reason: dict[str, int]
    payload_bytes: int
    framed_bytes: int
    skipped_bytes: int
    duplicate_bytes: int
    missing_bytes: int
    tls_bytes: int
    encrypted_bytes: int
    encrypted_connections: int
    connections: int
    exchanges: int
    protocols: dict[str, int]
    problems: dict[str, int]


class BoundaryState(NamedTuple):
    """See above. `is_whole`: the split cannot be dissected alone, all of it is left open.

    `prefixes` are of the flows that may have existed before. `born` are ``(flow, connection id)``
    of connections that began in the split. `left_open` are to be dissected again. `history_used`
    and `locked` are ids of connections that used the history of others, or are TLS without keys;
    `inside_ended` are those that began and ended in the split. The memory of the last segments
    (`marks` with their places, `chunks`), names and fetch sessions are as the split, of so many
    `segments`, has left them. `groups` are the protocols learned in it, in its order. `problems`
    are of reading and of packets, `link_types` those of packets that are not decoded. `reached` is
    the position where reading ended, None for a whole file. `closed_sessions` are fetch sessions
    that were closed, `shared` the ids of connections that used one with others.
    """

    version: int
    split: Split
    is_whole: bool
    prefixes: tuple[Prefix, ...]
    born: tuple[tuple[bytes, int], ...]
    open: tuple[Open, ...]
    left_open: tuple[Left, ...]
    ended: tuple[Ended, ...]
    deferred: tuple[tuple[Exchange, int, int], ...]
    history_used: tuple[int, ...]
    locked: tuple[int, ...]
    inside_ended: tuple[InsideEnded, ...]
    problems: tuple[Problem, ...]
    link_types: frozenset[int]
    problem_counts: dict[tuple[int, str], int]
    marks: tuple[tuple[int, Mark], ...]
    chunks: tuple[Chunk, ...]
    segments: int
    names: dict[bytes, str]
    groups: tuple[LearnedAt, ...]
    sessions: dict[tuple[bytes, int], Positions]
    closed_sessions: tuple[tuple[bytes, int], ...]
    shared: tuple[int, ...]
    waiting: tuple[Exchange, ...]
    totals: Totals
    times: Times
    reached: Reached | None

    def to_bytes(self) -> bytes:
        """Encode for another process, machine or day; `from_bytes` reads it."""
        return dump(DOCUMENT, self, self.version)

    @classmethod
    def from_bytes(cls, content: bytes) -> "BoundaryState":
        """Decode; raise EncodingError for bytes that are no boundary state of this version."""
        boundary: BoundaryState = load(DOCUMENT, content)
        return boundary

    def to_arrow(self) -> pa.RecordBatch:
        """Return one row; `from_arrow` uses its `content`."""
        row: dict[str, Any] = {
            "version": self.version,
            "path": self.split.path,
            "start": self.split.start,
            "ordinal": self.split.ordinal,
            "connections": len(self.prefixes) + len(self.open),
            "content": self.to_bytes(),
        }
        return pa.RecordBatch.from_pylist([row], ARROW)

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> "BoundaryState":
        """Restore the boundary state of a `to_arrow` row; raise EncodingError for other batches."""
        if batch.schema != ARROW or not batch.num_rows:
            raise EncodingError("no boundary state: a batch with other columns, or without a row")
        return cls.from_bytes(batch["content"][0].as_py() or b"")


def empty_boundary(
    split: Split,
    problems: tuple[Problem, ...],
    totals: Totals,
    times: Times,
    reached: Reached | None,
) -> BoundaryState:
    """Boundary state of a split that is left open as a whole."""
    return BoundaryState(
        VERSION, split, True, (), (), (), (), (), (), (), (), (), problems,
        frozenset(), {}, (), (), 0,
        {}, (), {}, (), (), (), totals, times, reached,
    )  # fmt: skip


COUNTED: Final = named(
    Counted,
    positions=INT_PAIR,
    counts=Fixed(Many(INT, tuple), Many(INT, tuple)),
    framed=INT_PAIR,
    skipped=INT_PAIR,
    frames=INT_PAIR,
    exchanges=INT,
    repeats_ids=BOOL,
)
REPEAT: Final = named(
    Repeat,
    flow=BYTES,
    number=INT,
    mark=ONE_MARK,
    limit=INT,
    place=INT,
    compared=Maybe(Rows(3)),
)
HEAD: Final = Fields(
    Prefix,
    lambda: Prefix(NO_CONNECTION, BUCKETS),
    ints="size quiet synchronized_id place rows",
    bools="is_cut is_synchronized",
    flow=BYTES,
    connection=CONNECTION,
    ids=INTS,
    segments=SEGMENTS,
    places=INTS,
    synchronized=CONNECTION,
    state=Many(Plain(), tuple),
    at=COUNTED,
    repeats=Many(REPEAT),
    steps=Rows(3),
    left_out={"bucket": BUCKETS},
)
ENDED: Final = Fields(
    Ended,
    lambda: Ended(ConnectionState(NO_CONNECTION), (0, 0), (0, 0)),
    state=STATE,
    framed=INT_PAIR,
    skipped=INT_PAIR,
)
OPEN: Final = named(
    Open,
    opener=RECEIVER,
    opener_framing=Maybe(Inline(CUTTING)),
    accepter_framing=Maybe(Inline(CUTTING)),
    state=Maybe(STATE),
    watch=WATCH,
)
TOTALS: Final = named(
    Totals,
    packets=INT,
    captured_bytes=INT,
    packets_by_reason=TEXT_COUNTS,
    payload_bytes=INT,
    framed_bytes=INT,
    skipped_bytes=INT,
    duplicate_bytes=INT,
    missing_bytes=INT,
    tls_bytes=INT,
    encrypted_bytes=INT,
    encrypted_connections=INT,
    connections=INT,
    exchanges=INT,
    protocols=TEXT_COUNTS,
    problems=TEXT_COUNTS,
)
INSIDE_ENDED: Final = named(
    InsideEnded,
    connection_id=INT,
    exchanges=INT,
    protocol=TEXT,
    counts=Fixed(*[INT] * len(OF_CONNECTIONS)),
)
NAMES: Final = Dict(BYTES, TEXT)
PROTOCOL: Final = Fixed(TEXT, TEXT)
GROUPS: Final = Dict(TEXT, PROTOCOL)
LEARNED: Final = Fixed(INT, TEXT, PROTOCOL, INT)
SESSION: Final = Fixed(BYTES, INT)
SESSIONS: Final = Dict(SESSION, POSITIONS)
TIMES: Final = named(
    Times,
    first_ns=INT,
    lowest_ns=INT,
    now_ns=INT,
)
BOUNDARY: Final = named(
    BoundaryState,
    version=INT,
    split=SPLIT,
    is_whole=BOOL,
    prefixes=Many(Inline(HEAD), tuple),
    born=Many(Fixed(BYTES, INT), tuple),
    open=Many(OPEN, tuple),
    left_open=Many(named(Left, flow=BYTES, connection_id=INT, given=INT), tuple),
    ended=Many(Inline(ENDED), tuple),
    deferred=Many(Fixed(EXCHANGE, INT, INT), tuple),
    history_used=Many(INT, tuple),
    locked=Many(INT, tuple),
    inside_ended=Many(INSIDE_ENDED, tuple),
    problems=Many(PROBLEM, tuple),
    link_types=Many(INT, frozenset),
    problem_counts=Dict(Fixed(INT, TEXT), INT),
    marks=MARKS,
    chunks=Many(CHUNK, tuple),
    segments=INT,
    names=NAMES,
    groups=Many(LEARNED, tuple),
    sessions=SESSIONS,
    closed_sessions=Many(SESSION, tuple),
    shared=Many(INT, tuple),
    waiting=Many(EXCHANGE, tuple),
    totals=TOTALS,
    times=TIMES,
    reached=Maybe(REACHED),
)
DOCUMENT: Final = Document(1, "boundary state of this version of kdissect", VERSION, BOUNDARY)
