"""Staged incidents: their tables, made once, and the logs of clients and operator."""

from pathlib import Path
from typing import Any

import kdissect
from kdissect.api.writing import write
from tests.analysis.from_sidecars import tables_of_sidecar

MS = 1_000_000
SECOND = 1_000 * MS
# Clients' times hold their own work and the way through the loopback beside the broker's time. The
# machines that record are busy: a thread that is woken waits for its turn.
CLIENT_NS = 100 * MS
Row = dict[str, Any]


class Incident:
    """A capture of captures/incident-*, and its side-car."""

    def __init__(self, name: str, directory: Path) -> None:
        self.told = tables_of_sidecar(f"incident-{name}-4.3.1")
        self.tables = directory / "tables"
        write(Path(f"captures/incident-{name}-4.3.1.pcapng"), self.tables)

    def asked(self, question: str, where: str | None = None, **options: Any) -> list[Row]:
        answer = kdissect.analyse(question, self.tables, where=where, **options)
        found: list[Row] = answer.to_arrow().to_pylist()
        return found

    def acts(self, operation: str) -> list[Row]:
        """Operator's actions on servers."""
        return [
            row
            for row in self.told["operations"]
            if (row["session"], row["operation"]) == ("operator", operation)
        ]

    def produced(self, session: str, partition: int = 0) -> list[Row]:
        """A producer's records, in the order of sending."""
        rows = [
            row
            for row in self.told["produced"]
            if (row["session"], row["partition"]) == (session, partition)
        ]
        return sorted(rows, key=lambda row: row["sent_ns"])

    def requests(self, session: str, api: str) -> list[Row]:
        """Requests in the log of a Java client."""
        return [
            row
            for row in self.told["client_requests"]
            if (row["session"], row["api"]) == (session, api)
        ]


def broker(number: int) -> str:
    """A broker of three by its id."""
    return f"127.0.0.{number}:39092"


def took_ns(row: Row) -> int:
    """Time a producer waited for a record, by its own clock."""
    taken: int = row["acknowledged_ns"] - row["sent_ns"]
    return taken


def percentile(values: list[int], share: float) -> float:
    """Between two values as analyses interpolate it."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
