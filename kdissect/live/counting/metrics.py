"""Counters and histograms for Prometheus; `metrics_server` serves them over HTTP."""

from copy import deepcopy
from typing import Final

import pyarrow as pa

from kdissect.live.counting.bucket_builder import Gathering
from kdissect.live.counting.columns import OTHER
from kdissect.live.counting.counters import Counters
from kdissect.live.counting.lag import NO_POSITIONS, OffsetCounts
from kdissect.live.counting.sampled_metrics import SampledMetrics
from kdissect.live.counting.samples import (
    Growing,
    Samples,
    Values,
    histograms_of,
    label_counts,
    lag_values,
    status_counts,
    status_gauges,
    values_of,
)
from kdissect.live.counting.time_buckets import Vocabulary
from kdissect.live.counting.waiting import AGES, Waiting
from kdissect.live.counting.wire_counts import WireCounts
from kdissect.live.listener import Listener, LiveCapture, Status
from kdissect.tls.agreement import REASONS

LABELS: Final = 100


class MetricsListener(Listener, SampledMetrics):
    """Counts since the start; `labels` clients and topics have a name, see `LabelNames`.

    Counts grow at each tick. `collect` may be called from any thread.
    """

    tables = frozenset({"exchanges", "partitions", "errors", "members"}) | WireCounts.TABLES

    def __init__(self, labels: int = LABELS) -> None:
        super().__init__()
        self._counters = Counters(labels)
        # A topic's id as a label would be replaced by its name, and take room for good.
        self._gathering = Gathering(self._counters.names, shows_ids=False)
        self._waiting = Waiting({}, {})
        self._wire = WireCounts({})
        self._offsets = OffsetCounts()
        self._positions = NO_POSITIONS
        self._packets = 0
        self._packet_ns = -1
        self._growing = Growing()
        self._values: dict[str, Values] = {}
        self._names = Vocabulary(*(each.now() for each in self._counters.names))

    def begin(self, watcher: LiveCapture) -> None:
        states = watcher.dissector.exchanges.states
        self._waiting = Waiting(states, watcher.names)
        self._wire = WireCounts(states)

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        self._offsets.take(table, batch)
        if table in WireCounts.TABLES:
            self._wire.take(table, batch)
        # The counters do not need the ends of connections.
        if table != "connections":
            self._gathering.take(table, batch)

    def tick(self, status: Status) -> None:
        rows = self._gathering.take_bucket(0, status.now_ns, 0)
        self._waiting.grace.add(rows.exchanges, self._counters.names.apis)
        self._waiting.look(status.now_ns)
        values = self._status_values(status)
        names = self._counters.names
        values |= self._wire.values()
        values["kdissect_findings"] = self.finding_values()
        segments = self._wire.take_segments()
        positions = self._offsets.tick(status.now_ns)
        for group in self._offsets.take_groups():
            names.groups.code(group)
        values |= label_counts(names)
        values |= lag_values(positions, lambda group: names.groups.find(group) > OTHER)
        with self.lock:
            self._counters.add(rows, segments)
            self._values = values
            self._positions = positions
            self._names = Vocabulary(*(each.now() for each in names))

    def finish(self, status: Status) -> None:
        self.tick(status)

    def samples(self) -> Samples:
        """All values up to the last tick; may be called from any thread."""
        with self.lock:
            totals, values = deepcopy(self._counters.totals), self._values
            names, positions = self._names, self._positions
        found = values | values_of(totals, names)
        return Samples(found, histograms_of(totals, names), positions)

    def _status_values(self, status: Status) -> dict[str, Values]:
        if status.balance.packets > self._packets:
            self._packets, self._packet_ns = status.balance.packets, status.now_ns
        gauges = status_gauges(status, self._packet_ns)
        gauges["kdissect_waiting_requests"] = self._waiting.count
        late = [one for one in self._waiting.late.values() if one.waits.due_ns < status.now_ns]
        gauges["kdissect_late_connections"] = len(late)
        values: dict[str, Values] = {name: [((), value)] for name, value in gauges.items()}
        values["kdissect_waiting_requests_by_age"] = [
            ((age,), count) for (age, _), count in zip(AGES, self._waiting.ages, strict=True)
        ]
        values["kdissect_undecrypted_connections"] = [
            ((reason,), status.undecrypted.reasons.get(reason, 0)) for reason in REASONS
        ]
        for name, counts in status_counts(status).items():
            values[name] = [
                (labels, self._growing.grown(name, labels, count))
                for labels, count in counts.items()
            ]
        return values
