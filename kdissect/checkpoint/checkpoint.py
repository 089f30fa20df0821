"""`Checkpoint`: the merger's state of a tap after a split, so that a later run can continue.

It is a boundary state without a left edge: the state of the stages for each open connection, and
the state that connections share. Its size depends on the open connections, not on the history.
"""

from typing import Final, NamedTuple

from kdissect.capture.splits import Split
from kdissect.checkpoint.boundary_state import GROUPS, NAMES, OPEN, SESSIONS, TOTALS, Open, Totals
from kdissect.checkpoint.codec.captures import FRAGMENTS, SPLITS
from kdissect.checkpoint.codec.exchanges import EXCHANGE
from kdissect.checkpoint.codec.streams import CHUNK, CLOCK, CONNECTION, MARKS, SEGMENT
from kdissect.checkpoint.codec.tls import SESSION
from kdissect.encoding.classes import Inline
from kdissect.encoding.documents import Document, dump, load
from kdissect.encoding.kinds import BYTES, INT, TEXT, Dict, Fixed, Many, Maybe, named
from kdissect.exchanges.connection_state import Positions
from kdissect.exchanges.exchange import Exchange
from kdissect.packets.fragments import Fragments
from kdissect.packets.segment import Segment
from kdissect.streams.clock import Clock
from kdissect.streams.duplicates import Mark
from kdissect.streams.events import Chunk, Connection
from kdissect.tls.session import Session

VERSION: Final = 13


class Checkpoint(NamedTuple):
    """See above; it contains no rows.

    `sessions` are those of TLS without keys. TLS that is `decrypted` can only be continued from its
    packets, as no secret is written: they are in `splits`, which are empty without such a
    connection. `due` are times to look for silent connections, see `Streams.due`; `clock` is the
    capture's, and `odd` its last segment, where that may have a wrong time. For the connections
    `told` a problem was reported that they hold too much; `told_link_types` are such texts. Marks
    and chunks, the number of segments, names, groups, fetch sessions and exchanges that wait for
    names are as in a boundary state.
    """

    version: int
    open: tuple[Open, ...]
    due: tuple[int, int, int, list[tuple[int, bytes]]]
    clock: Clock
    odd: Segment | None
    sessions: tuple[Session, ...]
    decrypted: tuple[Connection, ...]
    splits: tuple[Split, ...]
    told: tuple[Connection, ...]
    told_link_types: frozenset[str]
    link_types: frozenset[int]
    fragments: Fragments
    marks: tuple[tuple[int, Mark], ...]
    chunks: tuple[Chunk, ...]
    segments: int
    names: dict[bytes, str]
    groups: dict[str, tuple[str, str]]
    fetch_sessions: dict[tuple[bytes, int], Positions]
    waiting: tuple[Exchange, ...]
    given_up: dict[bytes, int]
    totals: Totals

    def to_bytes(self) -> bytes:
        """Encode for another process, machine or day; `from_bytes` reads it."""
        return dump(DOCUMENT, self, self.version)

    def oldest_capture(self) -> int:
        """Number of the first capture that anything refers to; 2^62 if there is none."""
        numbers = [one.opener.connection.capture for one in self.open]
        numbers += [one.connection.capture for one in self.waiting]
        numbers += [one.capture for one in (*self.told, *self.decrypted)]
        numbers += [split.capture for split in self.splits]
        numbers += self.fragments.captures()
        if self.odd is not None:
            numbers.append(self.odd.capture)
        return min((int(one) for one in numbers), default=1 << 62)

    @classmethod
    def from_bytes(cls, content: bytes) -> "Checkpoint":
        """Decode; raise EncodingError for bytes that are no checkpoint of this version."""
        state: Checkpoint = load(DOCUMENT, content)
        return state


STATE: Final = named(
    Checkpoint,
    version=INT,
    open=Many(OPEN, tuple),
    due=Fixed(INT, INT, INT, Many(Fixed(INT, BYTES))),
    clock=Inline(CLOCK),
    odd=Maybe(Inline(SEGMENT)),
    sessions=Many(SESSION, tuple),
    decrypted=Many(CONNECTION, tuple),
    splits=SPLITS,
    told=Many(CONNECTION, tuple),
    told_link_types=Many(TEXT, frozenset),
    link_types=Many(INT, frozenset),
    fragments=FRAGMENTS,
    marks=MARKS,
    chunks=Many(CHUNK, tuple),
    segments=INT,
    names=NAMES,
    groups=GROUPS,
    fetch_sessions=SESSIONS,
    waiting=Many(EXCHANGE, tuple),
    given_up=Dict(BYTES, INT),
    totals=TOTALS,
)
DOCUMENT: Final = Document(2, "state of this version of kdissect", VERSION, STATE)
