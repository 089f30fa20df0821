"""Rows of the last minutes of several workers as one window, for findings while packets come.

Rules judge all connections together, and each worker has some of them. So each keeps its share of
the rows, and sends them when the first process asks; that one numbers connections and exchanges
anew. A worker with more rows than it keeps has a shorter window, and so have the others then.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from kdissect.api.finding_window import Batches, Captured, FindingWindow, balance_of
from kdissect.api.live_findings import KEPT_ROWS, Judge
from kdissect.api.summary_pass import TABLES_OF_RULES
from kdissect.capture.packet import SECOND_NS
from kdissect.live.listener import Listener, LiveCapture, Status
from kdissect.live.workers.messages import WindowPart
from kdissect.tables.arrow_streams import stream_bytes

# Columns with numbers that a worker has given.
NUMBERED: Final = ("connection_id", "exchange_id")


class SharedWindow(Listener):
    """A worker's part; another thread asks for it and takes it, see `workers.messages.Window`."""

    tables = frozenset(TABLES_OF_RULES)

    def __init__(self, window_s: float, workers: int) -> None:
        self._window = FindingWindow(round(window_s * SECOND_NS), KEPT_ROWS // workers)
        self._since_ns = 0
        self._is_wanted = False
        self._made: tuple[Captured, bool] | None = None

    @property
    def begin_ns(self) -> int:
        """Start of the oldest rows."""
        return self._window.begin_ns

    def ask(self, since_ns: int, is_wanted: bool) -> None:
        """Leave out older rows; if wanted, have the window ready after the next tick."""
        self._since_ns = since_ns
        self._is_wanted |= is_wanted

    def take_encoded(self) -> WindowPart | None:
        """The window that was asked for, or that of the end, once."""
        made, self._made = self._made, None
        return None if made is None else encoded(*made)

    def begin(self, watcher: LiveCapture) -> None:
        self._watcher = watcher

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        self._window.take(table, batch)

    def tick(self, status: Status) -> None:
        self._window.tick(status.now_ns)
        if self._is_wanted:
            self._is_wanted = False
            self._made = self._captured(), False

    def finish(self, status: Status) -> None:
        self._window.tick(status.now_ns)
        self._made = self._captured(), True

    def _captured(self) -> Captured:
        return self._window.captured(self._watcher, self._since_ns)


class SharedFindings(Judge):
    """Findings of all workers together, in the first process."""

    def __init__(self, window_s: float, workers: int, **more: Any) -> None:
        super().__init__(window_s, **more)
        self._workers = workers
        self._parts: dict[int, WindowPart] = {}

    def is_due(self, status: Status) -> bool:
        """Return whether to ask the workers for their windows."""
        self.receive()
        if not self.is_due_at(status):
            return False
        self._parts.clear()
        return True

    def take(self, number: int, part: WindowPart) -> None:
        """Take the window of a worker; that of the last one is judged with those of the others."""
        self._parts[number] = part
        if len(self._parts) == self._workers and not part.is_last and not self.is_busy:
            self.judge(merged([decoded(one) for one in self._parts.values()]))
            self._parts.clear()

    def finish(self, status: Status) -> None:
        """Judge the last windows here, of the workers that have one."""
        parts = [decoded(one) for one in self._parts.values() if one.is_last]
        self.end(merged(parts) if parts and not status.level else None)


def encoded(captured: Captured, is_last: bool) -> WindowPart:
    """The window with its tables in Arrow's format."""
    tables: dict[str, list[pa.RecordBatch]] = {}
    for table, batch in captured.batches:
        tables.setdefault(table, []).append(batch)
    contents = {name: stream_bytes(found[0].schema, found) for name, found in tables.items()}
    return WindowPart(contents, captured.begin_ns, captured.end_ns, is_last)


def decoded(part: WindowPart) -> Captured:
    """The window of `encoded`, without its balance."""
    batches = [
        (table, batch)
        for table, content in part.contents.items()
        for batch in pa.ipc.open_stream(content)
    ]
    return Captured(batches, {}, part.begin_ns, part.end_ns)


def merged(parts: Sequence[Captured]) -> Captured:
    """One window of several, whose connections and exchanges are all different ones."""
    batches: Batches = []
    for number, part in enumerate(parts):
        batches += [(table, numbered(one, number, len(parts))) for table, one in part.batches]
    begin_ns = max(part.begin_ns for part in parts)
    return Captured(batches, balance_of(batches), begin_ns, max(part.end_ns for part in parts))


def numbered(batch: pa.RecordBatch, number: int, count: int) -> pa.RecordBatch:
    """The batch with ids that no other of `count` workers has; their order is kept."""
    from pyarrow import compute

    for name in NUMBERED:
        index = batch.schema.get_field_index(name)
        if index >= 0:
            ids = compute.add(compute.multiply(batch.column(index), count), number)
            batch = batch.set_column(index, batch.schema.field(index), ids)
    return batch
