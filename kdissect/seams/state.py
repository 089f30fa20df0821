"""`State`: all that is known of a tap after a piece, so that others can go on behind it.

It is a seam without a left edge: where the stages stand with each connection that is open, and what
connections share. Its size is that of what is open, whatever was before.
"""

from typing import Final, NamedTuple

from kdissect import stage_values
from kdissect.capture.packet import Packet
from kdissect.capture.pieces import Piece
from kdissect.errors import KdissectError
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.holding import Holding
from kdissect.exchanges.memory import ConnectionState, Positions
from kdissect.exchanges.old_conversations import Asked, OldConversation
from kdissect.messages.facts import FactSink
from kdissect.messages.interner import Interner
from kdissect.messages.old_facts import OldFacts
from kdissect.messages.old_protocols import KAFKA_07, Field, OldApi
from kdissect.packets import fragments
from kdissect.packets.fragments import Fragments, Whole
from kdissect.packets.segment import Segment
from kdissect.seams.seam import Open, Totals
from kdissect.streams.clock import Clock
from kdissect.streams.copies import Mark
from kdissect.streams.events import Chunk, Connection
from kdissect.tls import records
from kdissect.tls.agreement import Agreement
from kdissect.tls.half import Half
from kdissect.tls.hellos import Hello, Messages
from kdissect.tls.keylog import KeyLog
from kdissect.tls.masters import Masters
from kdissect.tls.records import Hole, Record, RecordCutter
from kdissect.tls.reports import Reports
from kdissect.tls.session import Session

VERSION: Final = 2


class State(NamedTuple):
    """See above; no rows are in it.

    `sessions` are those of TLS without keys. Of TLS that is `decrypted` only the packets say how it
    goes on, as no secret is written down: they are in `pieces`, which are empty where there is no
    such connection. `due` are times to look for silent connections, see `Streams.due`; `clock` is
    the capture's, and `odd` its last segment, where that may have a wrong time. Of the connections
    `told` a problem said that they hold too much; `told_link_types` are such texts.
    Marks and chunks, how many segments there were, names, groups, fetch sessions and what waits for
    names are as in a seam.
    """

    version: int
    open: tuple[Open, ...]
    due: tuple[int, int, int, list[tuple[int, bytes]]]
    clock: Clock
    odd: Segment | None
    sessions: tuple[Session, ...]
    decrypted: tuple[Connection, ...]
    pieces: tuple[Piece, ...]
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
        """For another process, machine or day; `from_bytes` reads it."""
        return stage_values.dump(tuple(self))

    @classmethod
    def from_bytes(cls, content: bytes) -> "State":
        """Raises KdissectError for bytes that are no state, or one of another version."""
        value = stage_values.load(content)
        is_state = isinstance(value, tuple) and len(value) == len(cls._fields)
        if not is_state or value[0] != VERSION:
            raise KdissectError("no state of this version of kdissect")
        return cls(*value)


NO_CONNECTION: Final = stage_values.NO_CONNECTION
NO_PACKET: Final = Packet(0, 0, 0, b"", 0, 0, 0, 0, 0)
NO_SINK: Final = FactSink(Interner(), {})


def blank_conversation() -> OldConversation:
    """One whose fields are to be set."""
    state = ConnectionState(NO_CONNECTION)
    return OldConversation(state, KAFKA_07, NO_SINK, False, 0, Holding())


def blank_session() -> Session:
    """The same of TLS."""
    return Session(NO_CONNECTION, KeyLog(), Masters(), (False, False))


stage_values.allow(Record, Hole, records.Mark, Hello, OldApi, Field)
# `carrying` fills these in.
for place in ("_keys", "_masters", "_sink", "_holding", "sink"):
    stage_values.allow_place(place)
stage_values.allow_stage(Packet, lambda: Packet(0, 0, 0, b"", 0, 0, 0, 0, 0))
stage_values.allow_stage(fragments.Piece, lambda: fragments.Piece(0, 0, b""))
stage_values.allow_stage(Whole, lambda: Whole(b"", b"", 0, 0, 0, NO_PACKET))
stage_values.allow_stage(Fragments, Fragments)
stage_values.allow_stage(Clock, Clock)
stage_values.allow_stage(OldFacts, lambda: OldFacts(NO_SINK))
stage_values.allow_stage(
    Asked,
    lambda: Asked(OldApi(0, "", (), ()), Exchange(NO_CONNECTION, 0, 0, 0), OldFacts(NO_SINK)),
)
stage_values.allow_stage(OldConversation, blank_conversation)
stage_values.allow_stage(RecordCutter, lambda: RecordCutter(False))
stage_values.allow_stage(Messages, Messages)
stage_values.allow_stage(Reports, lambda: Reports(NO_CONNECTION))
stage_values.allow_stage(Half, lambda: Half(NO_CONNECTION, 0, False))
stage_values.allow_stage(Agreement, lambda: Agreement(KeyLog(), Masters(), Reports(NO_CONNECTION)))
stage_values.allow_stage(Session, blank_session)
