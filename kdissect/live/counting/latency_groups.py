"""Exchanges by API, client and topic: rates, errors, bytes and percentiles.

A `Part` has the sums of some rows by name. Parts of successive time buckets are added, so that a
time bucket is not counted again for each snapshot.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kdissect.live.counting.columns import Codes, Flags
from kdissect.live.counting.histograms import NO_LATENCY, Buckets, histograms, percentiles
from kdissect.live.counting.merged_buckets import MergedBuckets
from kdissect.live.counting.snapshot import LISTED, Timed
from kdissect.tables.matrices import Ints

SHARES: Final = (0.5, 0.95, 0.99)
# Up to this many names, percentiles of all are computed: at most 4 MB of buckets.
FEW: Final = 500
PRODUCES: Final = frozenset({"Produce", "MultiProduce"})

Numbers = np.ndarray[Any, Any]


class Part(NamedTuple):
    """Sums by `code`; and the `key` and `bucket` of each row."""

    code: Ints
    exchanges: Ints
    errors: Ints
    to_broker: Numbers
    to_client: Numbers
    longest: Ints
    key: Codes
    bucket: Buckets


class Measured(NamedTuple):
    """Columns of rows, without their key."""

    latency: Ints
    bucket: Buckets
    has_error: Flags


def part_of(key: Codes, rows: Measured, to_broker: Numbers, to_client: Numbers, size: int) -> Part:
    """The part of rows with these keys below `size`; bytes are sums by key."""
    count = np.bincount(key, minlength=size)
    errors = np.bincount(key[rows.has_error], minlength=size)
    longest = np.full(size, -1, np.int64)
    np.maximum.at(longest, key, rows.latency)
    code = np.flatnonzero(count)
    return Part(
        code,
        count[code],
        errors[code],
        to_broker[code],
        to_client[code],
        longest[code],
        key,
        rows.bucket,
    )


def exchange_part(merged: MergedBuckets, column: str, size: int) -> Part:
    """Part of the selected exchanges, by a column of codes."""
    key = merged.column(column)
    to_broker = np.bincount(key, merged.column("request_size"), size)
    to_client = np.bincount(key, merged.column("response_size"), size)
    rows = Measured(merged.column("latency"), merged.column("bucket"), merged.column("has_error"))
    return part_of(key, rows, to_broker, to_client, size)


def topic_part(merged: MergedBuckets) -> Part:
    """Part of the selected exchanges by topic."""
    topics, size = merged.topics, len(merged.names.topics)
    produces = np.array([name in PRODUCES for name in merged.names.apis.texts])
    # By topic and whether it is a produce.
    both = topics.topic * np.int64(2)
    both += produces[merged.whole("api")[topics.row]]
    record_bytes = np.bincount(both, topics.bytes, 2 * size).reshape(-1, 2)
    rows = Measured(
        merged.whole("latency")[topics.row], merged.whole("bucket")[topics.row], topics.has_error
    )
    return part_of(topics.topic, rows, record_bytes[:, 1], record_bytes[:, 0], size)


def timed(parts: Sequence[Part], names: list[str], seconds: float) -> tuple[Timed, ...]:
    """Measures by name, an index in `names`; the most exchanges first."""
    if not parts:
        return ()
    size = len(names)
    code = np.concatenate([part.code for part in parts])
    count, errors, to_broker, to_client = (
        np.bincount(code, np.concatenate(column), size)
        for column in zip(*(part[1:5] for part in parts), strict=True)
    )
    longest = np.full(size, -1, np.int64)
    np.maximum.at(longest, code, np.concatenate([part.longest for part in parts]))
    chosen = choose(count, errors, to_broker + to_client, longest)
    times = timings(parts, chosen, size)
    times = np.column_stack([np.minimum(times, longest[chosen, None]), longest[chosen]])
    rates = np.stack([count, errors, to_broker, to_client])[:, chosen] / seconds
    return tuple(
        Timed._make([names[code], *rate, *found])
        for code, rate, found in zip(chosen.tolist(), rates.T.tolist(), times.tolist(), strict=True)
    )


def timings(parts: Sequence[Part], chosen: Ints, size: int) -> Ints:
    """Percentiles of the `chosen` ones of `size` keys."""
    key = np.concatenate([part.key for part in parts], dtype=np.int64)
    bucket = np.concatenate([part.bucket for part in parts])
    if size <= FEW:
        counts, first = histograms(key, bucket, size)
        return percentiles(counts[chosen], first, SHARES)
    place = np.full(size, len(chosen), np.int64)
    place[chosen] = np.arange(len(chosen))
    counts, first = histograms(place[key], bucket, len(chosen) + 1)
    return percentiles(counts[:-1], first, SHARES)


def whole_of(parts: Sequence[Part], seconds: float) -> Timed:
    """Totals of all exchanges, from parts that contain each once."""
    if not parts:
        return Timed("", 0.0, 0.0, 0.0, 0.0, -1, -1, -1, -1)
    longest = max(int(part.longest.max(initial=-1)) for part in parts)
    bucket = np.concatenate([part.bucket for part in parts])
    counts = np.bincount(bucket, minlength=NO_LATENCY + 2)[None, NO_LATENCY + 1 :]
    times = np.minimum(percentiles(counts, NO_LATENCY + 1, SHARES), longest)[0].tolist()
    sums = (sum(float(each.sum()) for each in column) for column in zip(*parts, strict=True))
    rates = [each / seconds for each in list(sums)[1:5]]
    return Timed._make(["", *rates, *times, longest])


def different(parts: Sequence[Part]) -> int:
    """Number of distinct names in parts, including those not listed."""
    return len(set().union(*(part.code.tolist() for part in parts)))


def choose(count: Numbers, *others: Numbers) -> Ints:
    """Codes with the highest value of any measure, by descending count."""
    there = np.flatnonzero(count)
    best = [there[highest(measure[there])] for measure in (count, *others)]
    chosen = np.unique(np.concatenate(best))
    order: Ints = chosen[np.argsort(-count[chosen], kind="stable")]
    return order


def highest(values: Numbers, listed: int = LISTED) -> Ints:
    """Indices of the `listed` highest values."""
    if len(values) <= listed:
        return np.arange(len(values))
    return np.argpartition(values, -listed)[-listed:]
