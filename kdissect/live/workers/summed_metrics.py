"""Metrics of several workers as one page: counters added, the worst or the sum of gauges.

Workers give room to new names by forgetting idle ones: their counts vanish, and may come back from
0. So increases are added, not values, and a series is forgotten when no worker has it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from kdissect.live.counting.label_names import NO_LABEL, OTHER_LABEL, label_value
from kdissect.live.counting.lag import merge_positions
from kdissect.live.counting.metric_declarations import COUNTER, METRICS
from kdissect.live.counting.sampled_metrics import SampledMetrics
from kdissect.live.counting.samples import Distribution, Labels, Samples, Values, lag_values

Key = tuple[str, Labels]
# Gauges of which the highest is that of all; the others are added.
HIGHEST: Final = frozenset({
    "kdissect_group_generation", "kdissect_shedding_level", "kdissect_backlog_ratio",
    "kdissect_backlog_seconds", "kdissect_last_packet_timestamp_seconds",
    "kdissect_label_names", "kdissect_label_names_left_out",
})  # fmt: skip
GENERATION: Final = "kdissect_group_generation"
CHANGES: Final = "kdissect_group_generation_changes"
NAMES: Final = "kdissect_label_names"
LEFT_OUT: Final = "kdissect_label_names_left_out"
# Labels with a limited number of names.
LIMITED: Final = ("client", "topic", "group")
COUNTERS: Final = frozenset(metric.name for metric in METRICS if metric.kind == COUNTER)
PLACES: Final = {
    metric.name: tuple((at, label) for at, label in enumerate(metric.labels) if label in LIMITED)
    for metric in METRICS
}


class SummedMetrics(SampledMetrics):
    """Metrics of `workers` processes; of clients, topics and groups `labels` have a name.

    `own` are samples of this process, without labels, that are added.
    """

    def __init__(self, workers: int, labels: int) -> None:
        super().__init__()
        self._labels = labels
        self._last: list[dict[Key, float]] = [{} for _ in range(workers)]
        self._sums: dict[Key, float] = {}
        self._named: dict[str, dict[str, None]] = {label: {} for label in LIMITED}
        self._last_histograms: list[dict[Key, Distribution]] = [{} for _ in range(workers)]
        self._histograms: dict[Key, Distribution] = {}
        self._generations: dict[Labels, float] = {}
        self._left_out: dict[str, int] = {}
        self._samples = Samples({}, {})

    def samples(self) -> Samples:
        with self.lock:
            return self._samples

    def add(self, reports: Sequence[Samples | None], own: Mapping[str, float]) -> None:
        """Take the current samples of all workers, None for one that has none."""
        there = [Samples({}, {}) if one is None else one for one in reports]
        self._name(there)
        gauges = self._gauges(there)
        increases = [self._increases(number, samples) for number, samples in enumerate(there)]
        for of_worker in increases:
            for key, increase in of_worker.items():
                self._sums[key] = self._sums.get(key, 0) + increase * (key[0] != CHANGES)
        self._forget()
        self._count_generations(gauges, increases)
        values: dict[str, Values] = {}
        for (name, labels), value in [*self._sums.items(), *gauges.items()]:
            values.setdefault(name, []).append((labels, value + own.get(name, 0)))
        self._count_names(values)
        values["kdissect_findings"] = self.finding_values()
        positions = merge_positions(one.positions for one in there)
        values |= lag_values(positions, lambda group: group in self._named["group"])
        distributions = self._added_up(there)
        with self.lock:
            self._samples = Samples(values, distributions)

    def _increases(self, number: int, samples: Samples) -> dict[Key, float]:
        """By how much each counter of a worker grew since the last time."""
        before = self._last[number]
        self._last[number] = now = {
            (name, labels): value
            for name, some in samples.values.items()
            if name in COUNTERS
            for labels, value in some
        }
        increases: dict[Key, float] = {}
        for (name, labels), value in now.items():
            last = before.get((name, labels), 0)
            shown = name, self._shown(name, labels)
            increase = value - last if value >= last else value
            increases[shown] = increases.get(shown, 0) + increase
        return increases

    def _gauges(self, samples: Sequence[Samples]) -> dict[Key, float]:
        """The gauges of all workers."""
        found: dict[Key, list[float]] = {}
        for one in samples:
            for name, some in one.values.items():
                for labels, value in () if name in COUNTERS else some:
                    found.setdefault((name, self._shown(name, labels)), []).append(value)
        return {key: max(some) if key[0] in HIGHEST else sum(some) for key, some in found.items()}

    def _added_up(self, samples: Sequence[Samples]) -> dict[str, list[Distribution]]:
        """Histograms with the values of all workers; increases are added, as of counters."""
        for number, one in enumerate(samples):
            before, now = self._last_histograms[number], by_key(one)
            self._last_histograms[number] = now
            for key, each in now.items():
                shown = key[0], self._shown(*key)
                more = grown(each, before.get(key))._replace(labels=shown[1])
                known = self._histograms.get(shown)
                self._histograms[shown] = more if known is None else both_of(known, more)
        there = {(key[0], self._shown(*key)) for last in self._last_histograms for key in last}
        self._histograms = {
            key: one
            for key, one in self._histograms.items()
            if key in there or OTHER_LABEL in key[1]
        }
        distributions: dict[str, list[Distribution]] = {}
        for (name, _), each in self._histograms.items():
            distributions.setdefault(name, []).append(each)
        return distributions

    def _shown(self, name: str, labels: Labels) -> Labels:
        """The labels, with `other` for names that have no room."""
        found = list(labels)
        for at, label in PLACES.get(name, ()):
            if found[at] not in self._named[label] and found[at] != NO_LABEL:
                found[at] = OTHER_LABEL
        return tuple(found)

    def _name(self, samples: Sequence[Samples]) -> None:
        """Keep the names that are still there, and take new ones while there is room."""
        present: dict[str, dict[str, None]] = {label: {} for label in LIMITED}
        for one in samples:
            labelled = [(name, labels) for name, some in one.values.items() for labels, _ in some]
            for name, labels in (*labelled, *by_key(one)):
                for at, label in PLACES.get(name, ()):
                    present[label][labels[at]] = None
            # The ends of its partitions may be known to others only, so it has no lag there.
            groups = {group for group, _, _ in one.positions.committed}
            present["group"] |= dict.fromkeys(sorted(map(label_value, groups)))
        for label, names in present.items():
            kept = [one for one in self._named[label] if one in names]
            new = [one for one in names if one not in self._named[label]]
            all_names = [one for one in (*kept, *new) if one not in (OTHER_LABEL, NO_LABEL)]
            self._named[label] = dict.fromkeys(all_names[: self._labels])
            self._left_out[label] = max(0, len(all_names) - self._labels)

    def _forget(self) -> None:
        """Forget sums that no worker has any more, other than those of many names."""
        there = {(name, self._shown(name, labels)) for last in self._last for name, labels in last}
        self._sums = {
            key: value for key, value in self._sums.items() if key in there or OTHER_LABEL in key[1]
        }

    def _count_generations(
        self, gauges: Mapping[Key, float], increases: Sequence[Mapping[Key, float]]
    ) -> None:
        """Count rises of a group's generation once: several workers see each of them."""
        for (name, labels), value in gauges.items():
            if name != GENERATION:
                continue
            key = CHANGES, labels
            known = self._generations.get(labels)
            rises = max(one.get(key, 0) for one in increases)
            if known is not None:
                rises = max(rises, 1) if value > known else 0
            if rises:
                self._sums[key] = self._sums.get(key, 0) + rises
        self._sums = {key: value for key, value in self._sums.items() if key[0] != CHANGES or value}
        self._generations = {
            labels: value for (name, labels), value in gauges.items() if name == GENERATION
        }

    def _count_names(self, values: dict[str, Values]) -> None:
        """Count the names here, and those left out: here, and by the worker that did so most."""
        numbers = {label: len(names) for label, names in self._named.items()}
        values[NAMES] = [
            (labels, numbers.get(labels[0], value)) for labels, value in values.get(NAMES, [])
        ]
        values[LEFT_OUT] = [
            (labels, value + self._left_out.get(labels[0], 0))
            for labels, value in values.get(LEFT_OUT, [])
        ]


def by_key(samples: Samples) -> dict[Key, Distribution]:
    """Histograms by metric and labels."""
    return {(name, one.labels): one for name, some in samples.distributions.items() for one in some}


def grown(now: Distribution, before: Distribution | None) -> Distribution:
    """What came since then: all of it if the histogram was forgotten meanwhile."""
    if before is None or now.buckets[-1][1] < before.buckets[-1][1]:
        return now
    counts = [
        (bound, count - less)
        for (bound, count), (_, less) in zip(now.buckets, before.buckets, strict=True)
    ]
    native = now.native and less_of(now.native, before.native or {})
    return now._replace(buckets=counts, total=now.total - before.total, native=native)


def less_of(now: Mapping[int, int], before: Mapping[int, int]) -> dict[int, int]:
    """Increases of counts, except 0."""
    found = {place: count - before.get(place, 0) for place, count in now.items()}
    return {place: count for place, count in found.items() if count > 0}


def both_of(one: Distribution, other: Distribution) -> Distribution:
    """The values of two histograms with the same buckets."""
    counts = [
        (bound, count + more)
        for (bound, count), (_, more) in zip(one.buckets, other.buckets, strict=True)
    ]
    native = None
    if one.native is not None and other.native is not None:
        native = dict(Counter(one.native) + Counter(other.native))
    return one._replace(buckets=counts, total=one.total + other.total, native=native)
