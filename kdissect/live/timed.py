"""Exchanges by API, client and topic: rates, errors, bytes and percentiles."""

from typing import Any, Final, NamedTuple

import numpy as np

from kdissect.live.columns import Flags
from kdissect.live.histograms import NO_LATENCY, Buckets, histograms, percentiles
from kdissect.live.joined import Joined
from kdissect.live.snapshot import Timed
from kdissect.tables.matrices import Ints

# So many by each measure are told of: the most exchanges, errors, bytes, the longest latencies.
LISTED: Final = 100
SHARES: Final = (0.5, 0.95, 0.99)
# Up to so many names, all are counted: of 4 MB of buckets at the most.
FEW: Final = 500
PRODUCES: Final = frozenset({"Produce", "MultiProduce"})

Numbers = np.ndarray[Any, Any]


class Measured(NamedTuple):
    """Rows to be measured: columns of the same length, of which `key` says what they are of."""

    key: Numbers
    latency: Ints
    bucket: Buckets
    has_error: Flags


def measure(
    rows: Measured, to_broker: Numbers, to_client: Numbers, names: list[str], seconds: float
) -> tuple[Timed, ...]:
    """What there is by key, which is a place in `names`; the most exchanges first.

    The bytes are of each name.
    """
    size = len(names)
    count = np.bincount(rows.key, minlength=size)
    errors = np.bincount(rows.key[rows.has_error], minlength=size)
    longest = np.full(size, -1, np.int64)
    np.maximum.at(longest, rows.key, rows.latency)
    chosen = choose(count, errors, to_broker + to_client, longest)
    times = timings(rows, chosen, size)
    times = np.column_stack([np.minimum(times, longest[chosen, None]), longest[chosen]])
    rates = np.stack([count, errors, to_broker, to_client])[:, chosen] / seconds
    return tuple(
        Timed._make([names[code], *rate, *found])
        for code, rate, found in zip(chosen.tolist(), rates.T.tolist(), times.tolist(), strict=True)
    )


def timings(rows: Measured, chosen: Ints, size: int) -> Ints:
    """The percentiles of some of `size` keys."""
    if size <= FEW:
        counts, first = histograms(rows.key, rows.bucket, size)
        return percentiles(counts[chosen], first, SHARES)
    place = np.full(size, len(chosen), np.int64)
    place[chosen] = np.arange(len(chosen))
    counts, first = histograms(place[rows.key], rows.bucket, len(chosen) + 1)
    return percentiles(counts[:-1], first, SHARES)


def choose(count: Ints, *others: Numbers) -> Ints:
    """The codes with the most of anything, those with the highest count first."""
    there = np.flatnonzero(count)
    best = [there[highest(measure[there])] for measure in (count, *others)]
    chosen = np.unique(np.concatenate(best))
    order: Ints = chosen[np.argsort(-count[chosen], kind="stable")]
    return order


def highest(values: Numbers) -> Ints:
    """The places of the LISTED highest values."""
    if len(values) <= LISTED:
        return np.arange(len(values))
    return np.argpartition(values, -LISTED)[-LISTED:]


class Exchanges:
    """The exchanges that are seen, to be measured by one thing after the other."""

    def __init__(self, joined: Joined, seconds: float) -> None:
        self.joined = joined
        self.seconds = seconds
        self.latency: Ints = joined.column("latency")
        self.bucket: Buckets = joined.column("bucket")
        self.has_error: Flags = joined.column("has_error")
        self.to_broker = joined.column("request_size").astype(float)
        self.to_client = joined.column("response_size").astype(float)

    def by(self, key: Numbers, names: list[str]) -> tuple[Timed, ...]:
        """What there is of each name of which `key` has codes."""
        to_broker = np.bincount(key, self.to_broker, len(names))
        to_client = np.bincount(key, self.to_client, len(names))
        rows = Measured(key, self.latency, self.bucket, self.has_error)
        return measure(rows, to_broker, to_client, names, self.seconds)

    def whole(self) -> Timed:
        """All of them as one."""
        longest = int(self.latency.max(initial=-1))
        counts = np.bincount(self.bucket, minlength=NO_LATENCY + 2)[None, NO_LATENCY + 1 :]
        times = np.minimum(percentiles(counts, NO_LATENCY + 1, SHARES), longest)[0].tolist()
        sums = [len(self.bucket), self.has_error.sum(), self.to_broker.sum(), self.to_client.sum()]
        return Timed._make(["", *(float(one) / self.seconds for one in sums), *times, longest])

    def by_topic(self) -> tuple[Timed, ...]:
        """Topics with the exchanges that name them."""
        joined, topics = self.joined, self.joined.topics
        names = joined.names.topics.texts
        apis = np.array([name in PRODUCES for name in joined.names.apis.texts])
        # By topic and whether it is produced to.
        both = topics.topic * np.int64(2)
        both += apis[joined.whole("api")[topics.row]]
        record_bytes = np.bincount(both, topics.bytes, 2 * len(names)).reshape(-1, 2)
        rows = Measured(
            topics.topic,
            joined.whole("latency")[topics.row],
            joined.whole("bucket")[topics.row],
            topics.has_error,
        )
        return measure(rows, record_bytes[:, 1], record_bytes[:, 0], names, self.seconds)
