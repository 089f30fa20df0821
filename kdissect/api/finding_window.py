"""Rows of the last minutes, as a capture of its own: for findings while packets come.

Open connections have no row yet. They get one, as if they ended now, and counters of connections
are those within the window: what they were at its beginning is subtracted.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.live.listener import LiveCapture
from kdissect.streams.direction_counts import BYTE_COUNTERS, LONGEST, SEGMENT_COUNTERS
from kdissect.tables.batches import BatchBuilder, ints_of
from kdissect.tables.matrices import Ints
from kdissect.tables.schemas import TABLES

WAYS: Final = ("to_broker", "to_client")
OF_BYTES: Final = ("framed_bytes", "skipped_bytes", "tls_bytes", "encrypted_bytes")
NAMES: Final = (*(one.name for one in (*BYTE_COUNTERS, *SEGMENT_COUNTERS)), *OF_BYTES)
COUNTERS: Final = tuple(f"{name}_{way}" for name in NAMES for way in WAYS)
# A maximum stands while it does not grow.
IS_LONGEST: Final = np.array([name.startswith(LONGEST) for name in COUNTERS])
OPEN: Final = "capture-end"  # closed_by
# With more open connections than this, they have no rows: 60 counters of each, in each snapshot.
OPEN_LIMIT: Final = 5_000
Batches = list[tuple[str, pa.RecordBatch]]


class TimeBucket(NamedTuple):
    """Rows between two ticks."""

    begin_ns: int
    end_ns: int
    batches: Batches
    rows: int


class Snapshot(NamedTuple):
    """Counters of open connections at a time, in the order of COUNTERS."""

    time_ns: int
    counters: Mapping[int, np.ndarray]


class Captured(NamedTuple):
    """The rows of a window, and its byte balance."""

    batches: Batches
    balance: dict[str, Any]
    begin_ns: int
    end_ns: int


NOTHING: Final = Snapshot(0, {})


class FindingWindow:
    """Rows of the last `window_ns`, at most `kept_rows`: with more the window is shorter."""

    def __init__(self, window_ns: int, kept_rows: int) -> None:
        self._window_ns = window_ns
        self._kept_rows = kept_rows
        self._taken: Batches = []
        self._buckets: deque[TimeBucket] = deque()
        self._rows = 0
        self._snapshots: deque[Snapshot] = deque()
        self._last_ns = -1

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        """Take rows that came since the last tick."""
        if batch.num_rows:
            self._taken.append((table, batch))

    def tick(self, now_ns: int) -> None:
        """Close the slice of the rows taken, and drop those that are too old or too many."""
        rows = sum(batch.num_rows for _, batch in self._taken)
        begin_ns = self._last_ns if self._last_ns >= 0 else now_ns
        self._buckets.append(TimeBucket(begin_ns, now_ns, self._taken, rows))
        self._rows += rows
        self._taken, self._last_ns = [], now_ns
        oldest_ns = now_ns - self._window_ns
        while len(self._buckets) > 1 and (
            self._buckets[0].end_ns <= oldest_ns or self._rows > self._kept_rows
        ):
            self._rows -= self._buckets.popleft().rows

    @property
    def begin_ns(self) -> int:
        """Start of the oldest rows, 0 without any."""
        return self._buckets[0].begin_ns if self._buckets else 0

    def captured(self, watcher: LiveCapture, since_ns: int = 0) -> Captured:
        """The rows of the window now, with rows of connections that are open.

        Without those that are older than `since_ns`.
        """
        kept = [each for each in self._buckets if each.begin_ns >= since_ns] or [self._buckets[-1]]
        begin_ns = kept[0].begin_ns
        before = self._before(begin_ns)
        batches: Batches = []
        for each in kept:
            batches += each.batches
        still_open = open_rows(watcher)
        if still_open is not None:
            self._snapshots.append(Snapshot(self._last_ns, counters_of(still_open)))
            batches.append(("connections", still_open))
        whole = [
            (table, within(batch, before.counters) if table == "connections" else batch)
            for table, batch in batches
        ]
        return Captured(whole, balance_of(whole), begin_ns, self._last_ns)

    def _before(self, begin_ns: int) -> Snapshot:
        """The last snapshot before the window; without one its connections are new."""
        while len(self._snapshots) > 1 and self._snapshots[1].time_ns <= begin_ns:
            self._snapshots.popleft()
        if self._snapshots and self._snapshots[0].time_ns <= begin_ns:
            return self._snapshots[0]
        return NOTHING


def open_rows(watcher: LiveCapture) -> pa.RecordBatch | None:
    """Rows of open connections; None where there are too many."""
    if watcher.dissector.streams.connection_count > OPEN_LIMIT:
        return None
    builder = BatchBuilder(TABLES["connections"], watcher.packet_source.names, watcher.names)
    batch = builder.batch(watcher.dissector.open_connection_rows())
    index = batch.schema.get_field_index("closed_by")
    field = batch.schema.field(index)
    return batch.set_column(index, field, pa.array([OPEN] * batch.num_rows).cast(field.type))


def counters_of(batch: pa.RecordBatch) -> dict[int, np.ndarray]:
    """Connection id → its counters."""
    ids = batch["connection_id"].to_pylist()
    return dict(zip(ids, matrix_of(batch), strict=True))


def matrix_of(batch: pa.RecordBatch) -> np.ndarray:
    """Counters of each row."""
    return np.column_stack([ints_of(batch[name]) for name in COUNTERS])


def within(batch: pa.RecordBatch, before: Mapping[int, np.ndarray]) -> pa.RecordBatch:
    """Rows of connections with their counters since then; without those that were silent."""
    if not batch.num_rows:
        return batch
    values = matrix_of(batch)
    zeros = np.zeros(len(COUNTERS), np.int64)
    old = np.stack([before.get(one, zeros) for one in batch["connection_id"].to_pylist()])
    grown = np.maximum(values - old, 0)
    # A length is kept whole, if it is one of this window.
    grown = np.where(IS_LONGEST & (grown > 0), values, grown)
    for at, name in enumerate(COUNTERS):
        index = batch.schema.get_field_index(name)
        field = batch.schema.field(index)
        batch = batch.set_column(index, field, pa.array(grown[:, at], field.type))
    packets = grown[:, [COUNTERS.index(f"packets_{way}") for way in WAYS]].sum(axis=1)
    is_open = np.array([reason == OPEN for reason in batch["closed_by"].to_pylist()], bool)
    return batch.filter(pa.array((packets > 0) | ~is_open))


def balance_of(batches: Batches) -> dict[str, Any]:
    """Byte balance of the rows, by the names of `pipeline.Balance` that rules use."""
    found: dict[str, Any] = dict.fromkeys(
        ("packets", "payload_bytes", "missing_bytes", "encrypted_connections", *OF_BYTES), 0
    )
    found |= {"connections": 0, "exchanges": 0}
    for table, batch in batches:
        if table in ("connections", "exchanges"):
            found[table] += batch.num_rows
        if table != "connections" or not batch.num_rows:
            continue
        for name in ("packets", "payload_bytes", "missing_bytes", *OF_BYTES):
            found[name] += int(both_ways(batch, name).sum())
        is_encrypted = both_ways(batch, "encrypted_bytes") > 0
        is_framed = both_ways(batch, "framed_bytes") > 0
        found["encrypted_connections"] += int((is_encrypted & ~is_framed).sum())
    return found


def both_ways(batch: pa.RecordBatch, name: str) -> Ints:
    """Per row, a counter of both directions."""
    return ints_of(batch[f"{name}_{WAYS[0]}"]) + ints_of(batch[f"{name}_{WAYS[1]}"])
