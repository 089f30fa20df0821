"""Metrics that are samples: pages for Prometheus with series that begin at 0."""

import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from kdissect.live.counting.first_pages import SCRAPER, FirstPages, Scraper
from kdissect.live.counting.metric_declarations import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    INFO,
    METRICS,
    UNSCALED,
    Metric,
)
from kdissect.live.counting.protobuf_page import page
from kdissect.live.counting.samples import Distribution, Samples, Values, empty


def build() -> dict[str, str]:
    """Build information."""
    try:
        number = version("kdissect")
    except PackageNotFoundError:
        number = ""
    spec = find_spec("kdissect.framing.frames")
    is_plain = spec is None or spec.origin is None or spec.origin.endswith(".py")
    return {"version": number, "build": "plain" if is_plain else "compiled"}


SAMPLE_FACTOR: Final = "kdissect_sample_factor"
# Read on import: at a scrape this process may have no permission to read the files of kdissect.
BUILD: Final = build()


class Current(NamedTuple):
    """A metric with its values, or with its histograms."""

    metric: Metric
    values: Values
    distributions: list[Distribution]


class SampledMetrics(Collector):
    """All declared metrics, with the values of `samples`; `lock` guards what those are made of."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # One in so many connections is captured: counts on pages are scaled by that.
        self.share = 1
        self._first_pages = FirstPages(time.monotonic())
        # Id and severity of each current finding, where they are computed.
        self.findings: Callable[[], Sequence[tuple[str, str]]] = tuple
        self._seen_findings: dict[tuple[str, str], None] = {}

    @abstractmethod
    def samples(self) -> Samples:
        """Current values of all metrics."""

    def finding_values(self) -> Values:
        """The number of current findings; 0 of those that are over."""
        counts = Counter(self.findings())
        self._seen_findings |= dict.fromkeys(counts)
        return [(labels, counts[labels]) for labels in self._seen_findings]

    def collect(self) -> Iterable[Family]:
        """All metrics, with their current values; series that a scraper has not had yet are 0."""
        for one in self._for_scraper():
            yield family(*one)

    def protobuf_page(self) -> bytes:
        """The same in Prometheus' protobuf format, with native histograms."""
        return page(
            one if one.metric.kind != INFO else build_gauge(one.metric)
            for one in self._for_scraper()
        )

    def _for_scraper(self) -> Iterator[Current]:
        samples = self.samples()
        scraper = SCRAPER.get()
        if scraper is not None:
            samples = self._begun_at_0(samples, scraper)
        return self._current(samples)

    def current(self) -> list[Current]:
        """All metrics but the build's, with their current values."""
        return [one for one in self._current(self.samples()) if one.metric.kind != INFO]

    def _current(self, samples: Samples) -> Iterator[Current]:
        values, distributions, _ = samples
        for metric in METRICS:
            share = 1 if metric.name in UNSCALED else self.share
            some = [(labels, value * share) for labels, value in values.get(metric.name, [])]
            if metric.name == SAMPLE_FACTOR:
                some = [((), self.share)]
            ranges = [scaled(one, share) for one in distributions.get(metric.name, [])]
            yield Current(metric, some, ranges)

    def _begun_at_0(self, samples: Samples, scraper: Scraper) -> Samples:
        """The same with 0 in place of counts that are new to the scraper."""
        values, distributions, _ = samples
        counters = [metric.name for metric in METRICS if metric.kind == COUNTER and metric.labels]
        keys = [(name, labels) for name in counters for labels, _ in values.get(name, ())]
        keys += [(name, one.labels) for name, some in distributions.items() for one in some]
        with self.lock:
            new = self._first_pages.new_on(keys, scraper, time.monotonic())
        begun = {
            name: [(labels, 0 if (name, labels) in new else value) for labels, value in some]
            for name, some in values.items()
        }
        return Samples(
            begun,
            {
                name: [empty(one) if (name, one.labels) in new else one for one in some]
                for name, some in distributions.items()
            },
        )


def build_gauge(metric: Metric) -> Current:
    """Build information as a gauge, in a format without that kind."""
    labels = tuple(BUILD[label] for label in metric.labels)
    return Current(metric, [(labels, 1)], [])


def scaled(one: Distribution, share: int) -> Distribution:
    """A histogram with so many times the values."""
    counts = [(bound, count * share) for bound, count in one.buckets]
    native = one.native and {place: count * share for place, count in one.native.items()}
    return one._replace(buckets=counts, total=one.total * share, native=native)


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
