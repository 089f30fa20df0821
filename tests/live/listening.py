"""Listeners and packet sources for tests."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from kdissect.capture.packet import Packet
from kdissect.live.listener import Listener, Status
from kdissect.sources.packet_source import Counts, PacketSource
from kdissect.tables.schemas import TABLES

Row = dict[str, Any]


class Kept(Listener):
    """Records all events."""

    def __init__(self, tables: Iterable[str] = TABLES) -> None:
        self.tables = frozenset(tables)
        self.rows: dict[str, list[Row]] = {name: [] for name in TABLES if name in self.tables}
        self.said: list[str] = []
        self.ticks: list[Status] = []

    def begin(self, watcher: object) -> None:
        self.said.append("begin")

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        self.rows[table] += batch.to_pylist()

    def tick(self, status: Status) -> None:
        self.ticks.append(status)

    def reopen(self) -> None:
        self.said.append("reopen")

    def finish(self, status: Status) -> None:
        self.said.append("finish")
        self.ticks.append(status)


class Given(PacketSource):
    """Yields the given items, and counts as instructed."""

    def __init__(self, *batches: Sequence[Packet]) -> None:
        self.names = ["given"]
        self.batches = [list(batch) for batch in batches]
        self.counted = Counts()
        self.is_closed = False

    def read(self, wait_s: float) -> list[Packet] | None:
        return self.batches.pop(0) if self.batches else None

    def close(self) -> None:
        self.is_closed = True

    def counts(self) -> Counts:
        return self.counted


def packet_at(time_ns: int, number: int = 1) -> Packet:
    """An empty packet."""
    return Packet(number, time_ns, 1, b"", 0, 0, 0, number, 0)
