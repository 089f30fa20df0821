"""The command loop every Python agent shares, and the events it reports.

A command is one JSON line on stdin: {"op": name, ...arguments}. The reply is one JSON line on
stdout: {"start_ns", "end_ns", "result", "error", "events"}, times by the wall clock. An event is
{"kind": table of the side-car, ...columns}; `error` is the last error's name or null.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Command = dict[str, Any]


class Agent:
    """Base of the agents: a public method is a command, its keyword arguments the command's."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.events: list[Event] = []

    def emit(self, kind: str, **columns: Any) -> None:
        """Add an event to the reply of the running command."""
        self.events.append({"kind": kind, **columns})

    def emit_error(
        self,
        session: str,
        operation: str,
        code: int | None,
        name: str,
        topic: str | None = None,
        partition: int | None = None,
    ) -> None:
        """Report an error a client received; a code of None is the library's own."""
        self.emit(
            "errors",
            session=session,
            operation=operation,
            code=code,
            name=name,
            topic=topic,
            partition=partition,
            time_ns=time.time_ns(),
        )


class Produced:
    """A record being sent: collects its metadata, then emits it."""

    def __init__(self, agent: Agent, client: str, settings: Command, record: Command) -> None:
        self.topic: str = record["topic"]
        self.partition: int | None = record.get("partition")
        self.key: bytes | None = to_bytes(record.get("key"))
        self.value: bytes | None = to_bytes(record.get("value"))
        self.headers = [(name, value.encode()) for name, value in record.get("headers", [])]
        self._agent = agent
        self._client = client
        self._settings = settings
        self._sent_ns = time.time_ns()

    def acknowledged(self, partition: int, offset: int | None, timestamp_ms: int | None) -> None:
        """The library says it is done; offset None means the broker was not asked to say it."""
        self._agent.emit(
            "produced",
            session=self._client,
            topic=self.topic,
            partition=partition,
            offset=None if offset is None or offset < 0 else offset,
            timestamp_ms=timestamp_ms,
            key_size=size(self.key),
            value_size=size(self.value),
            key_sha256=sha256(self.key),
            value_sha256=sha256(self.value),
            header_count=len(self.headers),
            codec=self._settings["codec"],
            acks=self._settings["acks"],
            transaction=self._settings.get("transaction"),
            sent_ns=self._sent_ns,
            acknowledged_ns=time.time_ns(),
        )


def to_bytes(text: str | None) -> bytes | None:
    """UTF-8, or None for null."""
    return None if text is None else text.encode()


def size(data: bytes | None) -> int:
    """Length in bytes, -1 for null as on the wire."""
    return -1 if data is None else len(data)


def sha256(data: bytes | None) -> str | None:
    """Hex digest, None for null."""
    return None if data is None else hashlib.sha256(data).hexdigest()


def iter_records(command: Command) -> Iterator[Command]:
    """The records of a produce command: in the command itself, or JSON lines in a file."""
    yield from command.get("records", ())
    if "records_file" in command:
        with Path(command["records_file"]).open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def consumed(
    client: str,
    group: str | None,
    place: tuple[str, int, int],
    timestamp_ms: int | None,
    key: bytes | None,
    value: bytes | None,
    header_count: int,
) -> Event:
    """A record as a consumer saw it; place is (topic, partition, offset)."""
    topic, partition, offset = place
    return {
        "kind": "consumed",
        "session": client,
        "group": group,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp_ms": timestamp_ms,
        "key_size": size(key),
        "value_size": size(value),
        "key_sha256": sha256(key),
        "value_sha256": sha256(value),
        "header_count": header_count,
        "time_ns": time.time_ns(),
    }


def serve(make_agent: Callable[[str], Agent]) -> None:
    """Obey commands until stdin ends. The first argument is the bootstrap address."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library that prints must not speak in the agent's name
    agent = make_agent(sys.argv[1])
    for line in sys.stdin:
        replies.write(json.dumps(_obey(agent, json.loads(line))) + "\n")
        replies.flush()


def _obey(agent: Agent, command: Command) -> dict[str, Any]:
    operation = command.pop("op")
    agent.events = []
    failure: str | None = None
    result: Any = None
    start_ns = time.time_ns()
    try:
        result = getattr(agent, operation)(**command)
    except Exception as error:  # interpreted by the driver
        failure = f"{type(error).__name__}: {error}"
    return {
        "start_ns": start_ns,
        "end_ns": time.time_ns(),
        "result": result,
        "error": failure,
        "events": agent.events,
    }
