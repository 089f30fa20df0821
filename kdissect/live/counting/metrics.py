"""Counters and histograms for Prometheus; `metrics_server` serves them over HTTP."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

import pyarrow as pa
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from kdissect.live.counting.bucket_builder import Gathering
from kdissect.live.counting.counters import Counters
from kdissect.live.counting.first_pages import SCRAPER, FirstPages, Scraper
from kdissect.live.counting.metric_declarations import COUNTER, GAUGE, HISTOGRAM, METRICS, Metric
from kdissect.live.counting.samples import (
    Distribution,
    Growing,
    Values,
    empty,
    histograms_of,
    label_counts,
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


def build() -> dict[str, str]:
    """Build information."""
    try:
        number = version("kdissect")
    except PackageNotFoundError:
        number = ""
    spec = find_spec("kdissect.framing.frames")
    is_plain = spec is None or spec.origin is None or spec.origin.endswith(".py")
    return {"version": number, "build": "plain" if is_plain else "compiled"}


# Read on import: at a scrape this process may have no permission to read the files of kdissect.
BUILD: Final = build()


class MetricsListener(Listener, Collector):
    """Counts since the start; `labels` clients and topics have a name, see `LabelNames`.

    Counts grow at each tick. `collect` may be called from any thread.
    """

    tables = frozenset({"exchanges", "partitions", "errors", "members"}) | WireCounts.TABLES

    def __init__(self, labels: int = LABELS) -> None:
        self._counters = Counters(labels)
        # A topic's id as a label would be replaced by its name, and take room for good.
        self._gathering = Gathering(self._counters.names, shows_ids=False)
        self._waiting = Waiting({}, {})
        self._wire = WireCounts({})
        self._packets = 0
        self._packet_ns = -1
        self._growing = Growing()
        self._values: dict[str, Values] = {}
        self._names = Vocabulary(*(each.now() for each in self._counters.names))
        # Id and severity of each current finding, where they are computed.
        self.findings: Callable[[], Sequence[tuple[str, str]]] = tuple
        self._seen_findings: dict[tuple[str, str], None] = {}
        self._lock = threading.Lock()
        self._first_pages = FirstPages(time.monotonic())

    def begin(self, watcher: LiveCapture) -> None:
        states = watcher.dissector.exchanges.states
        self._waiting = Waiting(states, watcher.names)
        self._wire = WireCounts(states)

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        if table in WireCounts.TABLES:
            self._wire.take(table, batch)
        else:
            self._gathering.take(table, batch)

    def tick(self, status: Status) -> None:
        rows = self._gathering.take_bucket(0, status.now_ns, 0)
        self._waiting.grace.add(rows.exchanges, self._counters.names.apis)
        self._waiting.look(status.now_ns)
        values = self._status_values(status)
        names = self._counters.names
        values |= label_counts(names) | self._wire.values()
        values["kdissect_findings"] = self._finding_values()
        with self._lock:
            self._counters.add(rows)
            self._values = values
            self._names = Vocabulary(*(each.now() for each in names))

    def finish(self, status: Status) -> None:
        self.tick(status)

    def collect(self) -> Iterable[Family]:
        """All metrics, with their current values; series that a scraper has not had yet are 0."""
        with self._lock:
            totals, values = deepcopy(self._counters.totals), self._values
            names = self._names
        values = values | values_of(totals, names)
        distributions = histograms_of(totals, names)
        scraper = SCRAPER.get()
        if scraper is not None:
            values, distributions = self._begun_at_0(values, distributions, scraper)
        for metric in METRICS:
            yield family(metric, values.get(metric.name, []), distributions.get(metric.name, []))

    def _begun_at_0(
        self,
        values: dict[str, Values],
        distributions: dict[str, list[Distribution]],
        scraper: Scraper,
    ) -> tuple[dict[str, Values], dict[str, list[Distribution]]]:
        """The same with 0 in place of counts that are new to the scraper."""
        counters = [metric.name for metric in METRICS if metric.kind == COUNTER and metric.labels]
        keys = [(name, labels) for name in counters for labels, _ in values.get(name, ())]
        keys += [(name, one.labels) for name, some in distributions.items() for one in some]
        with self._lock:
            new = self._first_pages.new_on(keys, scraper, time.monotonic())
        begun = {
            name: [(labels, 0 if (name, labels) in new else value) for labels, value in some]
            for name, some in values.items()
        }
        return begun, {
            name: [empty(one) if (name, one.labels) in new else one for one in some]
            for name, some in distributions.items()
        }

    def _finding_values(self) -> Values:
        """The number of current findings; 0 of those that are over."""
        counts = Counter(self.findings())
        self._seen_findings |= dict.fromkeys(counts)
        return [(labels, counts[labels]) for labels in self._seen_findings]

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


def family(metric: Metric, values: Values, distributions: list[Distribution]) -> Family:
    """One metric with its samples, as a family of the library."""
    if metric.kind == HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        for one in distributions:
            histogram.add_metric(one.labels, one.buckets, one.total)
        return histogram
    if metric.kind not in (COUNTER, GAUGE):
        return InfoMetricFamily(metric.name, metric.meaning, value=BUILD)
    kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    made = kind(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in values:
        made.add_metric(labels, value)
    return made
