"""Runs the TLS stage over conversations."""

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kdissect
from kdissect.errors import Problem
from kdissect.streams.connections import Streams
from kdissect.streams.events import Chunk, Connection, End, Event, Gap
from kdissect.tables.schemas import TABLES
from kdissect.tls.keylog import KeyLog
from kdissect.tls.session_properties import SessionProperties
from kdissect.tls.stage import Tls
from tests.conversation import Conversation
from tests.tls.talks import Talk

Row = dict[str, Any]


@dataclass
class Plain:
    """Output of the stage for the last connection."""

    events: list[Event] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    facts: SessionProperties | None = None

    @property
    def chunks(self) -> list[Chunk]:
        return [event for event in self.events if isinstance(event, Chunk)]

    @property
    def gaps(self) -> list[Gap]:
        return [event for event in self.events if isinstance(event, Gap)]

    @property
    def streams(self) -> tuple[bytes, bytes]:
        """Bytes of both directions, without gaps."""
        parts = [b"", b""]
        for chunk in self.chunks:
            parts[chunk.direction] += chunk.data[chunk.start : chunk.end]
        return parts[0], parts[1]


def key_log(content: bytes) -> KeyLog:
    log = KeyLog()
    log.add(content, "test")
    assert log.problems == []
    return log


def read_plain(talk: Talk, then: Talk | None = None) -> Plain:
    """One talk, and perhaps another after it, whose events are returned then; keys of the first."""
    stage = Tls(key_log(talk.keylog))
    plain = feed(stage, talk.conversation())
    if then is not None:
        plain = feed(stage, then.conversation())
    assert stage.held == 0
    return plain


def feed(stage: Tls, talk: Conversation) -> Plain:
    """One conversation through the streams stage and this one."""
    streams = Streams()
    plain = Plain()
    events = [event for segment in talk.segments() for event in streams.feed(segment)]
    connection: Connection | None = None
    for event in events + streams.finish():
        connection = event.connection
        plain.events += stage.feed(event)
        if isinstance(event, End):
            plain.facts = stage.take_facts(connection)
    plain.problems, stage.problems = stage.problems, []
    return plain


def run_tables(capture: bytes, keylog: Path | tuple[Path, ...] = (), **options: Any) -> Any:
    """Rows of all tables."""
    settings = kdissect.Options(tables=tuple(TABLES), keylog=keylog, **options)
    run = kdissect.Run(io.BytesIO(capture), settings)
    tables: dict[str, list[Row]] = {name: [] for name in TABLES}
    for name, batch in run:
        tables[name] += batch.to_pylist()
    balance = run.balance
    assert balance.payload_bytes == (
        balance.framed_bytes + balance.skipped_bytes + balance.duplicate_bytes
        + balance.tls_bytes + balance.encrypted_bytes
    )  # fmt: skip
    return tables
