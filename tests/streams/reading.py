"""Feeds segments to the streams stage and converts its events to comparable values."""

from collections.abc import Iterable
from typing import NamedTuple

from kdissect.errors import Problem
from kdissect.packets.segment import Segment
from kdissect.streams.connections import Streams
from kdissect.streams.events import Chunk, Connection, End, Event, Gap


class Heard(NamedTuple):
    """One direction of one connection: bytes with the gaps marked, and gaps as values."""

    text: bytes
    gaps: list[tuple[int, int, str]]
    """Position, length, and why: acknowledged, cut or lost."""


class Reading:
    """Output of a stage for some segments, checked against the laws on the way."""

    def __init__(self, segments: Iterable[Segment], streams: Streams | None = None) -> None:
        self.streams = Streams() if streams is None else streams
        self.events: list[Event] = []
        for segment in segments:
            self.events += self.streams.feed(segment)
        self.events_before_finish = len(self.events)
        self.open_before_finish = self.streams.connections
        self.events += self.streams.finish()
        self.problems: list[Problem] = self.streams.problems
        self.connections: list[Connection] = list(
            dict.fromkeys(event.connection for event in self.events)
        )
        for connection in self.connections:
            check_laws(connection, self.events)
        assert self.streams.connections == []

    @property
    def connection(self) -> Connection:
        (only,) = self.connections
        return only

    def heard(self, direction: int, connection: Connection | None = None) -> Heard:
        return hear(self.events, connection or self.connection, direction)

    def both(self, connection: Connection | None = None) -> tuple[bytes, bytes]:
        """Bytes sent by the opener and by the accepter, without gaps."""
        said = [self.heard(direction, connection) for direction in (0, 1)]
        assert [one.gaps for one in said] == [[], []]
        return said[0].text, said[1].text

    @property
    def ends(self) -> list[tuple[int, str]]:
        """Identity of each connection that ended, and the reason."""
        return [
            (event.connection.id, event.reason) for event in self.events if isinstance(event, End)
        ]

    @property
    def kinds(self) -> list[str]:
        return [problem.kind for problem in self.problems]


def hear(events: Iterable[Event], connection: Connection, direction: int) -> Heard:
    """The bytes of a direction, "_" for each that is missing."""
    text = b""
    gaps = []
    for event in events:
        if event.connection is not connection or event.direction != direction:
            continue
        if isinstance(event, Chunk):
            assert event.position == len(text)
            assert event.start < event.end
            text += event.data[event.start : event.end]
        elif isinstance(event, Gap):
            assert event.position == len(text)
            assert event.length > 0
            why = "cut" if event.is_cut else "acknowledged" if event.is_acknowledged else "lost"
            gaps.append((event.position, event.length, why))
            text += b"_" * event.length
    return Heard(text, gaps)


def check_laws(connection: Connection, events: list[Event]) -> None:
    """Bytes balance and positions tile in both directions; the End is there once, and last."""
    own = [event for event in events if event.connection is connection]
    assert [isinstance(event, End) for event in own] == [False] * (len(own) - 1) + [True]
    assert connection.closed_by == own[-1].reason  # type: ignore[attr-defined]
    for direction, counts in enumerate(connection.counts):
        chunks = [e for e in own if isinstance(e, Chunk) and e.direction == direction]
        gaps = [e for e in own if isinstance(e, Gap) and e.direction == direction]
        spans = sorted(
            [(e.position, e.position + e.end - e.start) for e in chunks]
            + [(e.position, e.position + e.length) for e in gaps]
        )
        assert [start for start, _ in spans] == [0, *(end for _, end in spans)][: len(spans)]
        assert counts.payload_bytes == counts.delivered_bytes + counts.duplicate_bytes
        assert counts.wire_bytes == counts.payload_bytes + counts.cut_bytes
        assert counts.delivered_bytes == sum(e.end - e.start for e in chunks)
        assert counts.missing_bytes == sum(e.length for e in gaps)
        assert counts.gaps == len(gaps)
        assert spans[-1:] == [] or spans[-1][1] == counts.delivered_bytes + counts.missing_bytes
