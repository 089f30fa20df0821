"""Metrics pushed as OTLP over HTTP by OpenTelemetry's SDK, of the extra `otel`.

They are those of `metric_declarations`, with a dot in their names and a unit, and with the names
and attributes of OpenTelemetry's conventions for messaging where there are some. All are
cumulative. Headers, certificates, compression and the interval are set by OpenTelemetry's
environment variables.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as Exported
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from kdissect.errors import Problem
from kdissect.live.counting.metric_declarations import COUNTER, GAUGE, HISTOGRAM, Metric
from kdissect.live.counting.sampled_metrics import BUILD, Current, SampledMetrics
from kdissect.live.counting.samples import Distribution
from kdissect.live.listener import Listener, LiveCapture, Status
from kdissect.live.otlp_endpoint import without_login

TIMEOUT_S: Final = 10.0
INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"  # ms
DEFAULT_INTERVAL_S: Final = 15.0
LEAST_INTERVAL_S: Final = 1.0
UNITS: Final = {"_seconds": "s", "_bytes": "By", "_ratio": "1"}
ATTRIBUTES: Final = {
    "client": "messaging.client.id",
    "group": "messaging.consumer.group.name",
    "topic": "messaging.destination.name",
    "error": "error.type",
}
# Metrics that the conventions have names for: by topic, direction decides the operation.
OPERATIONS: Final = {"produced": "send", "fetched": "receive"}
DURATION: Final = "messaging.client.operation.duration"
MESSAGES: Final = {
    "produced": "messaging.client.sent.messages",
    "fetched": "messaging.client.consumed.messages",
}
CONVENTIONAL: Final = {
    "kdissect_topic_latency_seconds": dict.fromkeys(OPERATIONS, DURATION),
    "kdissect_topic_records": MESSAGES,
}
DIRECTION: Final = "direction"
Attributes = dict[str, str]


class Name(NamedTuple):
    """Name and unit of a metric in OpenTelemetry."""

    name: str
    unit: str


class MetricsPush(Listener):
    """Pushes `metrics` in a thread, and at the end once more; a push that fails is a problem.

    `fail` is called with that where there is no watcher.
    """

    def __init__(
        self,
        metrics: SampledMetrics,
        endpoint: str,
        fail: Callable[[Problem], None] = lambda _: None,
        interval_s: float | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        # The exporter logs what it could not send; here that is a problem.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._metrics = metrics
        self._shown = without_login(endpoint)
        self._fail = fail
        self._interval_s = interval_of(os.environ) if interval_s is None else interval_s
        self._timeout_s = timeout_s
        self._exporter = OTLPMetricExporter(endpoint=endpoint, timeout=timeout_s)
        self._encoder = Encoder(time.time_ns())
        self._ends = threading.Event()
        self._failures = 0
        self._reason = ""  # of the last failure, where it is known
        self._reported = 0
        self._thread: threading.Thread | None = None

    def begin(self, watcher: LiveCapture | None = None) -> None:
        if watcher is not None:
            self._fail = lambda problem: watcher.dissector.add_problems([problem])
        self._thread = threading.Thread(target=self._work, name="otlp", daemon=True)
        self._thread.start()

    def tick(self, status: Status) -> None:
        """Report the pushes that failed, as one problem."""
        failures = self._failures
        if failures > self._reported:
            count = failures - self._reported
            text = f"metrics were not taken by {self._shown}: {count} times{self._reason}"
            self._reported = failures
            self._fail(Problem("live", "otlp-failed", text, status.now_ns))

    def finish(self, status: Status) -> None:
        """Push a last time."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join(2 * self._timeout_s)
        self.tick(status)

    def _work(self) -> None:
        while not self._ends.wait(self._interval_s):
            self._push()
        self._push()

    def _push(self) -> None:
        try:
            data = self._encoder.data_of(self._metrics, time.time_ns())
            result = self._exporter.export(data, self._timeout_s * 1000)
        except Exception as error:  # this thread goes on: the next push has all counts again
            self._reason = f": {type(error).__name__}: {error}"
            result = MetricExportResult.FAILURE
        self._failures += result is not MetricExportResult.SUCCESS


def interval_of(environment: Mapping[str, str]) -> float:
    """Seconds between two pushes.

    >>> interval_of({}), interval_of({INTERVAL: "5000"}), interval_of({INTERVAL: "often"})
    (15.0, 5.0, 15.0)
    """
    try:
        seconds = float(environment[INTERVAL]) / 1000
    except (KeyError, ValueError):
        return DEFAULT_INTERVAL_S
    return max(seconds, LEAST_INTERVAL_S)


class Encoder:
    """Makes data of the SDK; `begin_ns` is when the counts were 0."""

    def __init__(self, begin_ns: int) -> None:
        self._begin_ns = begin_ns
        self._last_ns = begin_ns
        # Start and last count of each series: a name that had made room counts from 0 again.
        self._series: dict[tuple[str, tuple[str, ...]], tuple[int, float]] = {}
        self._resource = Resource({
            "service.name": "kdissect",
            "service.version": BUILD["version"],
            "service.instance.id": str(uuid.uuid4()),
            "host.name": socket.gethostname(),
        })  # fmt: skip
        self._scope = InstrumentationScope("kdissect", BUILD["version"])

    def data_of(self, metrics: SampledMetrics, now_ns: int) -> MetricsData:
        """Current values."""
        exported = [one for each in metrics.current() for one in self._exported(each, now_ns)]
        self._last_ns = now_ns
        scope = ScopeMetrics(self._scope, exported, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _exported(self, current: Current, now_ns: int) -> Iterator[Exported]:
        """A metric, or those of the conventions that it is."""
        metric = current.metric
        by_name: dict[Name, list[Any]] = {}
        for labels, value in current.values:
            begin_ns = self._start(metric, labels, value)
            point = NumberDataPoint(attributes_of(metric, labels), begin_ns, now_ns, value)
            by_name.setdefault(name_of(metric, labels), []).append(point)
        for one in current.distributions:
            begin_ns = self._start(metric, one.labels, one.buckets[-1][1])
            by_name.setdefault(name_of(metric, one.labels), []).append(
                histogram_point(attributes_of(metric, one.labels), one, begin_ns, now_ns)
            )
        for name, points in by_name.items():
            yield Exported(name.name, metric.meaning, name.unit, data_of_kind(metric.kind, points))

    def _start(self, metric: Metric, labels: tuple[str, ...], count: float) -> int:
        if metric.kind == GAUGE:
            return self._begin_ns
        key = metric.name, labels
        begin_ns, last = self._series.get(key, (self._begin_ns, 0))
        if count < last:
            begin_ns = self._last_ns
        self._series[key] = begin_ns, count
        return begin_ns


def histogram_point(
    attributes: Attributes, one: Distribution, begin_ns: int, now_ns: int
) -> HistogramDataPoint:
    sums = [int(count) for _, count in one.buckets]
    counts = [after - before for before, after in zip([0, *sums], sums, strict=False)]
    bounds = [float(bound) for bound, _ in one.buckets[:-1]]
    # Neither the shortest nor the longest is known.
    unknown: Any = None
    return HistogramDataPoint(
        attributes, begin_ns, now_ns, sums[-1], one.total, counts, bounds, unknown, unknown
    )


def data_of_kind(kind: str, points: list[Any]) -> Any:
    if kind == HISTOGRAM:
        return Histogram(points, AggregationTemporality.CUMULATIVE)
    if kind == COUNTER:
        return Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return Gauge(points)


def name_of(metric: Metric, labels: tuple[str, ...]) -> Name:
    """Name and unit; Prometheus makes its own names of them again.

    >>> from kdissect.live.counting.metric_declarations import METRICS
    >>> [name_of(one, ()).name for one in METRICS if one.name == "kdissect_queue_seconds"]
    ['kdissect.queue_seconds']
    """
    unit = next((unit for suffix, unit in UNITS.items() if metric.name.endswith(suffix)), "")
    conventional = CONVENTIONAL.get(metric.name)
    if conventional is not None:
        name = conventional[labels[metric.labels.index(DIRECTION)]]
        return Name(name, unit or "{message}")
    return Name(metric.name.replace("_", ".", 1), unit)


def attributes_of(metric: Metric, labels: tuple[str, ...]) -> Attributes:
    """Labels under the names of the conventions."""
    pairs = dict(zip(metric.labels, labels, strict=True))
    found = {}
    if metric.name in CONVENTIONAL:
        direction = pairs.pop(DIRECTION)
        found = {
            "messaging.system": "kafka",
            "messaging.operation.name": OPERATIONS[direction],
            "messaging.operation.type": OPERATIONS[direction],
        }
    return found | {ATTRIBUTES.get(name, f"kdissect.{name}"): text for name, text in pairs.items()}
