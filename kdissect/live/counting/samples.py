"""Counts of `MetricsListener` as samples: labels and values for each declared metric."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kdissect.exchanges.exchange import OUTCOMES
from kdissect.live.counting.columns import KnownNames
from kdissect.live.counting.counters import (
    DIRECTIONS,
    TOPIC_DIRECTIONS,
    UNKNOWN,
    Counts,
    Durations,
    Totals,
    topic_key,
)
from kdissect.live.counting.label_names import OTHER_LABEL, LabelNames, label_value
from kdissect.live.counting.lag import NO_POSITIONS, Positions, lags
from kdissect.live.counting.tcp_counts import SIDES
from kdissect.live.counting.time_buckets import UNANSWERED, Vocabulary
from kdissect.live.listener import Status

Labels = tuple[str, ...]
Values = list[tuple[Labels, float]]
LAG: Final = "kdissect_group_lag_records"
LAG_PARTITIONS: Final = "kdissect_group_lag_partitions"
HISTOGRAMS: Final = ("latency", "queue", "service", "work")
# Label names, and the vocabularies of their values.
LABELLED: Final = ("api", "client", "topic", "error", "group")


class Distribution(NamedTuple):
    """A histogram: (upper bound, cumulative count), and the sum in seconds.

    `native` are counts by place, as in `native_histograms`; None if it has none.
    """

    labels: Labels
    buckets: list[tuple[str, float]]
    total: float
    native: dict[int, int] | None = None


class Samples(NamedTuple):
    """Current values by metric: of counters and gauges, and of histograms.

    `positions` are what the lag of groups is computed of, also with those of other workers.
    """

    values: dict[str, Values]
    distributions: dict[str, list[Distribution]]
    positions: Positions = NO_POSITIONS


def empty(one: Distribution) -> Distribution:
    """The same histogram without any values."""
    buckets: list[tuple[str, float]] = [(bound, 0) for bound, _ in one.buckets]
    return one._replace(buckets=buckets, total=0.0, native=None if one.native is None else {})


def counted(counts: Counts, *names: Sequence[str]) -> Values:
    """Non-zero counts, with the names of their indices."""
    places = np.nonzero(counts)
    values = counts[places].tolist()
    codes = zip(*(place.tolist() for place in places), strict=True)
    return [
        (tuple(texts[code] for texts, code in zip(names, at, strict=True)), value)
        for at, value in zip(codes, values, strict=True)
    ]


def known(values: Counts, names: Sequence[str]) -> Values:
    """Values that are not UNKNOWN, with the names of their indices."""
    places = np.flatnonzero(values != UNKNOWN).tolist()
    return [((names[place],), int(values[place])) for place in places]


def total(counts: Counts) -> Values:
    """The sum of all counts, without labels."""
    return [((), int(counts.sum()))]


def distributions(durations: Durations, labels: Mapping[int, Labels]) -> Iterator[Distribution]:
    """Histograms by key, except empty ones."""
    bounds = (*(f"{ns / 1e9:g}" for ns in durations.bounds_ns.tolist()), "+Inf")
    sums = np.cumsum(durations.counts, axis=1)
    for key in np.flatnonzero(sums[:, -1]).tolist():
        buckets = list(zip(bounds, sums[key].tolist(), strict=True))
        native = None if durations.native is None else sparse(durations.native[key])
        yield Distribution(labels[key], buckets, float(durations.sums[key]), native)


def sparse(counts: Counts) -> dict[int, int]:
    """Counts other than 0, by place."""
    places = np.flatnonzero(counts)
    return dict(zip(places.tolist(), counts[places].tolist(), strict=True))


def histograms_of(totals: Totals, names: Vocabulary[KnownNames]) -> dict[str, list[Distribution]]:
    """Histograms, by metric name."""
    apis, clients = (
        {code: (text,) for code, text in enumerate(of.texts)} for of in (names.apis, names.clients)
    )
    topics = {
        topic_key(code, way): (text, direction)
        for code, text in enumerate(names.topics.texts)
        for way, direction in enumerate(TOPIC_DIRECTIONS)
    }
    found = {
        f"kdissect_{name}_seconds": list(distributions(getattr(totals, name), apis))
        for name in HISTOGRAMS
    }
    of_clients = list(distributions(totals.client_latency, clients))
    of_topics = list(distributions(totals.topic_latency, topics))
    return found | {
        "kdissect_client_latency_seconds": of_clients,
        "kdissect_topic_latency_seconds": of_topics,
    }


def values_of(totals: Totals, names: Vocabulary[KnownNames]) -> dict[str, Values]:
    """Counts of exchanges, by metric name."""
    apis, clients, topics, errors, groups = (of.texts for of in names[: len(LABELLED)])
    seconds = totals.throttle_ms / 1e3
    of_groups = totals.groups
    return {
        "kdissect_all_exchanges": total(totals.outcomes),
        "kdissect_all_unanswered": total(totals.outcomes[UNANSWERED]),
        "kdissect_all_errors": total(totals.errors),
        "kdissect_exchanges": counted(totals.exchanges, apis, clients, OUTCOMES),
        "kdissect_message_bytes": counted(totals.message_bytes, apis, clients, DIRECTIONS),
        "kdissect_errors": counted(totals.errors, apis, errors),
        "kdissect_client_errors": counted(totals.client_errors, clients, errors),
        "kdissect_topic_errors": counted(totals.topic_errors, topics, errors),
        "kdissect_topic_bytes": counted(totals.topic_bytes, topics, TOPIC_DIRECTIONS),
        "kdissect_topic_records": counted(totals.topic_records, topics, TOPIC_DIRECTIONS),
        "kdissect_throttle_seconds": counted(seconds, clients),
        "kdissect_throttled_exchanges": counted(totals.throttled, clients),
        "kdissect_client_retransmitted_segments": counted(totals.retransmitted, clients, SIDES),
        "kdissect_client_zero_windows": counted(totals.zero_windows, clients, SIDES),
        "kdissect_group_events": counted(of_groups.events, groups, names.events.texts),
        "kdissect_group_generation_changes": counted(of_groups.changes, groups),
        "kdissect_group_generation": known(of_groups.generation, groups),
    }


def lag_values(positions: Positions, has_label: Callable[[str], bool]) -> dict[str, Values]:
    """Lag of groups whose label values have a label, and of all others together."""
    records: dict[Labels, float] = {}
    partitions: dict[Labels, float] = {}
    for group, lag in lags(positions).items():
        name = label_value(group)
        labels = (name if has_label(name) else OTHER_LABEL,)
        records[labels] = records.get(labels, 0) + lag.records
        partitions[labels] = partitions.get(labels, 0) + lag.partitions
    return {LAG: list(records.items()), LAG_PARTITIONS: list(partitions.items())}


def label_counts(names: Vocabulary[LabelNames]) -> dict[str, Values]:
    """Names with a label, and names without, by kind."""
    return {
        "kdissect_label_names": labelled(names, lambda of: len(of) - 2),
        "kdissect_label_names_left_out": labelled(names, lambda of: of.left_out),
    }


def labelled(names: Vocabulary[LabelNames], count: Any) -> Values:
    """Result of `count` for the names of each label."""
    return [
        ((label,), count(of)) for label, of in zip(LABELLED, names[: len(LABELLED)], strict=True)
    ]


class Growing:
    """External counters that may be reset, made monotonic."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, Labels], float] = {}
        self._before: dict[tuple[str, Labels], float] = {}

    def grown(self, name: str, labels: Labels, value: float) -> float:
        """The value plus all values lost by resets."""
        key = name, labels
        last = self._last.get(key, 0)
        if value < last:
            self._before[key] = self._before.get(key, 0) + last
        self._last[key] = value
        return self._before.get(key, 0) + value


def status_gauges(status: Status, packet_ns: int) -> dict[str, float]:
    """Current gauges, without labels."""
    found = {
        "kdissect_open_connections": status.open_connections,
        "kdissect_shedding_level": status.level,
        "kdissect_backlog_ratio": status.backlog,
        "kdissect_backlog_bytes": status.behind.bytes,
        "kdissect_backlog_seconds": status.behind.seconds,
        "process_resident_memory_bytes": status.memory,
    }
    if packet_ns >= 0:
        found["kdissect_last_packet_timestamp_seconds"] = packet_ns / 1e9
    return found


def status_counts(status: Status) -> dict[str, Mapping[Labels, float]]:
    """External counters since the start."""
    balance = status.balance
    return {
        "kdissect_ended_connections": {(): balance.connections},
        "kdissect_packets_received": {(): status.packet_source.received},
        "kdissect_packets_dropped": {(): status.packet_source.dropped},
        "kdissect_packets": {(): balance.packets},
        "kdissect_captured_bytes": {(): balance.captured_bytes},
        "kdissect_undecrypted_bytes": {(): status.undecrypted.bytes},
        "kdissect_mid_streams": {(): status.mid_streams},
        "kdissect_all_problems": {(): sum(status.problems.values())},
        "kdissect_problems": {(kind,): count for kind, count in status.problems.items()},
        "kdissect_all_shed": {(): sum(status.shed.values())},
        "kdissect_shed": {(what,): count for what, count in status.shed.items()},
        "process_cpu_seconds": {(): status.cpu_seconds},
    }
