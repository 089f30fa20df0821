"""The side-car: the truth about a capture from its clients and brokers, one JSON file beside it.

Every table is {"columns": [...], "rows": [[...], ...]}, a row a line of the file.
captures/README.md describes the columns.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tools.record.agents import Reply
from tools.record.client_log import ClientRequest
from tools.record.processes import Pause
from tools.record.request_log import (
    LoggedExchange,
    LoggedMembership,
    LoggedPartition,
    RequestLog,
)

FORMAT = 1

RECORD_COLUMNS = ("key_size", "value_size", "key_sha256", "value_sha256", "header_count")
PRODUCED_COLUMNS = ("codec", "acks", "transaction", "sent_ns", "acknowledged_ns")
PLACE_COLUMNS = ("topic", "partition", "offset")
COUNTER_COLUMNS = ("time_us", "requests_by_api", "tx", "tx_bytes", "rx", "rx_bytes")

# The tables that agents fill: an event's kind is the table, its other fields the columns.
EVENT_TABLES: dict[str, tuple[str, ...]] = {
    "produced": ("session", *PLACE_COLUMNS, "timestamp_ms", *RECORD_COLUMNS, *PRODUCED_COLUMNS),
    "consumed": ("session", "group", *PLACE_COLUMNS, "timestamp_ms", *RECORD_COLUMNS, "time_ns"),
    "processed": ("session", "group", *PLACE_COLUMNS),
    "errors": ("session", "operation", "code", "name", "topic", "partition", "time_ns"),
    "rebalances": (
        *("session", "group", "event", "generation", "member_id", "partitions", "time_ns"),
    ),
    "commits": ("session", "group", *PLACE_COLUMNS, "time_ns"),
    "statistics": ("session", *COUNTER_COLUMNS),
}
OPERATION_COLUMNS = ("session", "operation", "start_ns", "end_ns", "arguments", "result")
ROLES = {"open_producer": "producer", "open_consumer": "consumer"}
PEM = "-----BEGIN"
UNTOLD_ARGUMENTS = ("client", "records", "records_file")


class Journal:
    """Collects the replies of all agents as rows."""

    def __init__(self) -> None:
        self.sessions: dict[str, dict[str, Any]] = {}
        self.operations: list[list[Any]] = []
        self.events: dict[str, list[list[Any]]] = {name: [] for name in EVENT_TABLES}

    def add_kill(self, session: str, start_ns: int, end_ns: int) -> None:
        """The end of a client whose process was killed."""
        self.operations.append([session, "kill", start_ns, end_ns, {}, None])

    def add(self, library: str, reply: Reply) -> None:
        """Take in one reply; one that failed as a whole is an error of the library's own."""
        session = reply.arguments.get("client")
        if session is None:
            return
        role = ROLES.get(reply.operation, "admin")
        known = {"session": session, "library": library, "role": role}
        self.sessions.setdefault(session, known | {"group": reply.arguments.get("group")})
        arguments = {
            name: value for name, value in reply.arguments.items() if name not in UNTOLD_ARGUMENTS
        }
        if isinstance(arguments.get("settings"), dict):
            arguments["settings"] = {
                name: "PEM" if str(value).startswith(PEM) else value
                for name, value in arguments["settings"].items()
            }
        self.operations.append(
            [session, reply.operation, reply.start_ns, reply.end_ns, arguments, reply.result]
        )
        if reply.error is not None:
            failed = [reply.operation, None, reply.error.partition("\n")[0], None, None]
            self.events["errors"].append([session, *failed, reply.end_ns])
        for event in reply.events:
            columns = EVENT_TABLES[event["kind"]]
            self.events[event["kind"]].append([event.get(column) for column in columns])


class Facts(NamedTuple):
    """Facts not in the journal or the request log."""

    scenario: str
    software: dict[str, Any]
    cluster: dict[str, Any]
    capture: dict[str, Any]
    pauses: list[Pause]
    topics: list[list[Any]]
    views: list[dict[str, Any]]  # of other taps of the same session
    requests: list[ClientRequest] | None = None  # as logged by Java's clients; None: not asked


def capture_facts(capture: Path, packets: int) -> dict[str, Any]:
    """The side-car's description of the capture file."""
    data = capture.read_bytes()
    return {
        "file": capture.name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "packets": packets,
    }


def write_sidecar(path: Path, facts: Facts, journal: Journal, log: RequestLog) -> None:
    """Write the side-car."""
    counts = Counter((row.api_key, row.api_version) for row in log.exchanges)
    tables: dict[str, tuple[Sequence[str], Sequence[Any]]] = {
        "topics": (("topic", "topic_id", "partitions", "configs"), facts.topics),
        "operations": (OPERATION_COLUMNS, journal.operations),
        **{name: (EVENT_TABLES[name], rows) for name, rows in journal.events.items()},
        "pauses": (Pause._fields, facts.pauses),
        "exchange_counts": (
            ("api_key", "api_version", "count"),
            [[*key, count] for key, count in sorted(counts.items())],
        ),
        "exchanges": (LoggedExchange._fields, log.exchanges),
        "exchange_partitions": (LoggedPartition._fields, log.partitions),
        "memberships": (LoggedMembership._fields, log.memberships),
    }
    if facts.requests is not None:
        tables["client_requests"] = (ClientRequest._fields, facts.requests)
    head = {
        "format": FORMAT,
        "scenario": facts.scenario,
        "capture": facts.capture,
        **({"views": facts.views} if facts.views else {}),
        "software": facts.software,
        "cluster": facts.cluster,
        "sessions": list(journal.sessions.values()),
    }
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    lines += [_table(name, columns, rows) for name, (columns, rows) in tables.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _table(name: str, columns: Sequence[str], rows: Sequence[Any]) -> str:
    """A table as JSON, one row a line."""
    body = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    return f'{json.dumps(name)}: {{"columns": {json.dumps(columns)}, "rows": [\n{body}\n]}}'
