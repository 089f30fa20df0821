"""`Tls`: Chunk | Gap | End → Chunk | Gap | End, with TLS records replaced by their plaintext.

The events of a connection that is not TLS pass unchanged. TLS is detected by the first bytes of
each direction, if known to be the first; otherwise by further chunks, each of which may begin with
a record. States of a direction:

    WATCHED ──first bytes of a handshake, or a chunk that begins with a hello or records──▶ SESSION
    WATCHED ──other first bytes, or MAX_WATCHED chunks without a record──▶ CLEAR
    SESSION ──the other direction was detected, and this one does not begin with TLS──▶ CLEAR

Watched: `Watch`; first bytes that are too few to decide are kept. A `Session` is of both
directions. Clear: `Connection.clear_directions` has its bit, and only its End has to be fed.

Example. The client's first chunk is 16 03: too short, kept. The next one completes the header of a
handshake record, so a session is opened with both chunks. The server's first bytes are 15 03, an
alert: they go to the session. Had they been 00 00, the server's direction would have been clear.

Plaintext has its own positions, starting at that of the first record in each direction. Each byte
is assigned to the packet that carried it encrypted, the last byte of a record to the packet that
completed the record. Longer than other modules: one state machine, with the diagram above.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from kdissect.errors import Problem
from kdissect.limits import Limits
from kdissect.streams.events import Chunk, Connection, End, Event, Gap
from kdissect.streams.proxy_header import (
    INCOMPLETE,
    V1_FIRST,
    V2_FIRST,
    V2_FIXED,
    read_proxy_header,
)
from kdissect.tls.hellos import CLIENT_HELLO, MESSAGE_HEADER, SERVER_HELLO
from kdissect.tls.keylog import KeyLog
from kdissect.tls.masters import Masters
from kdissect.tls.records import (
    ALERT,
    HANDSHAKE,
    HEADER_SIZE,
    KINDS,
    LAST_MINOR_VERSION,
    MAJOR_VERSION,
    is_header,
    size_of,
)
from kdissect.tls.session_properties import SessionProperties

if TYPE_CHECKING:
    from kdissect.tls.session import Session

# Type and version of the first record.
START_SIZE: Final = 3
LONGEST_HEADER: Final = V2_FIXED + 0xFFFF + START_SIZE
# Chunks examined in a direction whose start was not captured: half a megabyte of full segments.
MAX_WATCHED: Final = 32
DEFAULT_LIMITS: Final = Limits()


class Watch:
    """A connection that is not yet known to be TLS or not."""

    def __init__(self) -> None:
        # Chunks examined, and the first bytes while they are too few; by direction.
        self.seen = [0, 0]
        self.first: list[list[Chunk]] = [[], []]
        # Where the streams begin: after the PROXY header, if that was seen.
        self.begin = [0, 0]


class Tls:
    """TLS of all connections; `problems` grows until the owner drains it.

    Records that are incomplete, or wait for the other direction's hello, take at most `max_held`
    bytes per connection, `max_held_in_all` in total.
    """

    def __init__(
        self,
        keys: KeyLog,
        max_held: int = DEFAULT_LIMITS.tls_bytes,
        max_held_in_all: int = DEFAULT_LIMITS.tls_bytes_in_all,
    ) -> None:
        self.problems: list[Problem] = []
        self.keys = keys
        self._masters = Masters()
        self._max_held = max_held
        self._max_held_in_all = max_held_in_all
        self._held = 0
        # Sessions that hold bytes, the longest first; a dict is slow to find its first key.
        self._holding: OrderedDict[Connection, Session] = OrderedDict()
        self._watched: dict[Connection, Watch] = {}
        self._sessions: dict[Connection, Session] = {}
        self._facts: dict[Connection, SessionProperties] = {}

    @property
    def sessions(self) -> "Mapping[Connection, Session]":
        """TLS sessions of open connections."""
        return self._sessions

    @property
    def held(self) -> int:
        """Memory of held data of all connections."""
        return self._held

    def feed(self, event: Event) -> list[Event]:
        """Output events for an input event, in order."""
        if isinstance(event, End):
            return self._end(event)
        if not isinstance(event, (Chunk, Gap)):
            return [event]
        connection, direction = event.connection, event.direction
        if connection.clear_directions >> direction & 1:
            return [event]
        session = self._sessions.get(connection)
        if session is not None:
            if not is_first(event, 0) or may_be_start(event):
                return self._feed_session(session, [event])
            self._clear(connection, direction)
            return [event]
        watch = self._watched.get(connection)
        if watch is None:
            if is_first(event, 0) and begins_neither(event):
                connection.clear_directions |= 1 << direction
                return [event]
            watch = self._watched[connection] = Watch()
        if isinstance(event, Gap):
            return [*self._take_first(watch, direction), event]
        if is_first(event, watch.begin[direction]) or watch.first[direction]:
            return self._decide(watch, event)
        return self._look(watch, event)

    def take_facts(self, connection: Connection) -> SessionProperties | None:
        """Properties of a connection that has ended, once; None if it was not TLS."""
        return self._facts.pop(connection, None)

    def watch_of(self, connection: Connection) -> Watch | None:
        """State of a connection that is not yet known to be TLS or not."""
        return self._watched.get(connection)

    def has_session(self, connection: Connection) -> bool:
        """Return whether the connection is TLS."""
        return connection in self._sessions

    def set_clear(self, connection: Connection) -> None:
        """Mark the connection as not TLS."""
        connection.clear_directions = 3
        watch = self._watched.pop(connection, None)
        if watch is not None:
            self._take_both(watch)

    def take_in(self, connection: Connection, watch: Watch | None) -> None:
        """Take over a connection from another `Tls` that is not known to be TLS."""
        if watch is not None:
            self._watched[connection] = watch
            self._held += sum(one.end - one.start for held in watch.first for one in held)

    def sibling(self) -> "Tls":
        """A new stage that shares only the secrets with this one."""
        made = Tls(self.keys, self._max_held, self._max_held_in_all)
        made._masters = self._masters
        return made

    def session_of(self, connection: Connection) -> "Session | None":
        """TLS session of the connection, None if it has none."""
        return self._sessions.get(connection)

    def take_session(self, session: "Session") -> None:
        """Take over a TLS connection from another `Tls`."""
        session.move_to(self.keys, self._masters)
        self._sessions[session.connection] = session
        self._note_held(session, 0)

    # Recognition

    def _decide(self, watch: Watch, chunk: Chunk) -> list[Event]:
        """Decide by the first bytes of a direction, or those after a PROXY header."""
        direction = chunk.direction
        held = watch.first[direction]
        if held:
            chunk = concatenated([*held, chunk])
        data, start, end = chunk.data, chunk.start, chunk.end
        header = read_proxy_header(data, start, end).size
        if header != INCOMPLETE:
            start += header
        if start == end:
            self._keep(watch, direction, [])
            watch.begin[direction] = chunk.position + header
            return [chunk]
        is_short = header == INCOMPLETE or (end - start < START_SIZE and data[start] in KINDS)
        size = end - chunk.start
        if is_short and size < LONGEST_HEADER and self._held + size <= self._max_held_in_all:
            self._keep(watch, direction, [chunk])
            return []
        self._keep(watch, direction, [])
        if not is_start(data, start, end):
            self._clear(chunk.connection, direction)
            return [chunk]
        ahead: list[Event] = [] if start == chunk.start else [part_of(chunk, chunk.start, start)]
        rest = part_of(chunk, start, end)
        return ahead + self._open(chunk.connection, [rest], (True, True))

    def _look(self, watch: Watch, chunk: Chunk) -> list[Event]:
        """Examine a chunk from the middle of a stream."""
        direction = chunk.direction
        watch.seen[direction] += 1
        if is_hello(chunk):
            return self._open(chunk.connection, [chunk], (True, True))
        if is_chain(chunk):
            return self._open(chunk.connection, [chunk], (False, False))
        if watch.seen[direction] >= MAX_WATCHED:
            self._clear(chunk.connection, direction)
        return [chunk]

    def _keep(self, watch: Watch, direction: int, chunks: list[Chunk]) -> None:
        """Keep first bytes that are too few, replacing earlier ones."""
        old = watch.first[direction]
        self._held += sum(one.end - one.start for one in chunks)
        self._held -= sum(one.end - one.start for one in old)
        watch.first[direction] = chunks

    def _take_first(self, watch: Watch, direction: int) -> list[Event]:
        events: list[Event] = list(watch.first[direction])
        self._keep(watch, direction, [])
        return events

    def _take_both(self, watch: Watch) -> list[Event]:
        return self._take_first(watch, 0) + self._take_first(watch, 1)

    def _clear(self, connection: Connection, direction: int) -> None:
        connection.clear_directions |= 1 << direction
        if connection.clear_directions == 3:
            self._watched.pop(connection, None)

    # Sessions

    def _open(
        self, connection: Connection, events: list[Event], is_start: tuple[bool, bool]
    ) -> list[Event]:
        # Most captures have no TLS, and keys and ciphers take 5 ms of a start-up of 150.
        from kdissect.tls.session import Session

        session = Session(connection, self.keys, self._masters, is_start)
        self._sessions[connection] = session
        watch = self._watched.pop(connection, None)
        others = [] if watch is None else self._take_both(watch)
        return self._feed_session(session, events + others)

    def _feed_session(self, session: "Session", events: list[Event]) -> list[Event]:
        before = session.held
        out: list[Event] = []
        for event in events:
            if isinstance(event, (Chunk, Gap)):
                out += session.feed(event)
        self._note_held(session, before)
        if session.held > self._max_held:
            self._give_up(session, events[-1])
        elif self._held > self._max_held_in_all and self._holding:
            self._give_up(next(iter(self._holding.values())), events[-1])
        self.problems += session.take_problems()
        return out

    def _note_held(self, session: "Session", before: int) -> None:
        held = session.held
        self._held += held - before
        if held:
            self._holding.setdefault(session.connection, session)
        elif before:
            self._holding.pop(session.connection, None)

    def _give_up(self, session: "Session", event: Event) -> None:
        before = session.held
        session.limit(event)
        self._note_held(session, before)
        self.problems += session.take_problems()

    def _end(self, end: End) -> list[Event]:
        connection = end.connection
        watch = self._watched.pop(connection, None)
        out = [] if watch is None else self._take_both(watch)
        session = self._sessions.pop(connection, None)
        if session is not None:
            before = session.held
            session.finish()
            self._note_held(session, before)
            self.problems += session.take_problems()
            self._facts[connection] = session.facts
        return [*out, end]


def is_first(event: Chunk | Gap, begin: i64) -> bool:
    """Return whether it is certain that the stream starts here, at the position `begin`."""
    starts = event.connection.is_start_seen(event.direction)
    return isinstance(event, Chunk) and event.position == begin and starts


def begins_neither(event: Chunk | Gap) -> bool:
    """Return whether bytes are neither the first of TLS nor of a PROXY header, few as they are."""
    if not isinstance(event, Chunk):
        return False
    first = event.data[event.start]
    return first not in KINDS and first != V1_FIRST and first != V2_FIRST


def may_be_start(event: Chunk | Gap) -> bool:
    """Return whether the first bytes of a direction, perhaps only one, may be TLS."""
    return isinstance(event, Chunk) and event.data[event.start] in KINDS


def is_start(data: bytes, start: i64, end: i64) -> bool:
    """Return whether a stream that starts with ``data[start:end]`` is TLS."""
    return (
        end - start >= START_SIZE
        and data[start] in (ALERT, HANDSHAKE)
        and data[start + 1] == MAJOR_VERSION
        and data[start + 2] <= LAST_MINOR_VERSION
    )


def part_of(chunk: Chunk, start: int, end: int) -> Chunk:
    """``chunk.data[start:end]`` as a chunk."""
    return Chunk(
        chunk.connection, chunk.direction, chunk.position + start - chunk.start, chunk.time_ns,
        chunk.packet, chunk.ordinal, chunk.capture, chunk.data, start, end,
    )  # fmt: skip


def concatenated(chunks: list[Chunk]) -> Chunk:
    """Join consecutive chunks to one, assigned to the last one's packet."""
    data = b"".join(chunk.data[chunk.start : chunk.end] for chunk in chunks)
    first, last = chunks[0], chunks[-1]
    return Chunk(
        first.connection, first.direction, first.position, last.time_ns, last.packet,
        last.ordinal, last.capture, data, 0, len(data),
    )  # fmt: skip


def is_hello(chunk: Chunk) -> bool:
    """Return whether the chunk begins with a hello in a record of its own."""
    at, data = chunk.start, chunk.data
    if chunk.end - at < HEADER_SIZE + MESSAGE_HEADER or data[at] != HANDSHAKE:
        return False
    message = at + HEADER_SIZE
    return (
        is_header(data, at)
        and data[message] in (CLIENT_HELLO, SERVER_HELLO)
        and int.from_bytes(data[message + 1 : message + MESSAGE_HEADER], "big") + MESSAGE_HEADER
        <= size_of(data, at)
    )


def is_chain(chunk: Chunk) -> bool:
    """Return whether the chunk begins with a record that ends with it or precedes another."""
    at, end, data = chunk.start, chunk.end, chunk.data
    if end - at < HEADER_SIZE or not is_header(data, at) or size_of(data, at) == 0:
        return False
    after = at + HEADER_SIZE + size_of(data, at)
    return after == end or (after + HEADER_SIZE <= end and is_header(data, after))
