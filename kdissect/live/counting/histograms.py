"""Latency buckets, 16 per octave: the error of a percentile is at most 2.2 %."""

from typing import Any, Final

import numpy as np

from kdissect.protocol.readers import NULL
from kdissect.tables.matrices import Ints

Buckets = np.ndarray[Any, np.dtype[np.int16]]

PER_OCTAVE: Final = 16
# 0 means no latency, 1 is up to 1 ns, 2 begins there; 1010 ends beyond 2^63 ns.
NO_LATENCY: Final = 0


def buckets_of(latencies: Ints) -> Buckets:
    """Bucket of each latency in ns; NO_LATENCY for NULL."""
    octaves = np.log2(np.maximum(latencies, 1))
    buckets = 2 + (octaves * PER_OCTAVE).astype(np.int16)
    buckets[latencies <= 1] = 1
    buckets[latencies == NULL] = NO_LATENCY
    return buckets


def middle_ns(buckets: Ints) -> Ints:
    """Geometric middle of each bucket, in ns."""
    octaves = (buckets - 2 + 0.5) / PER_OCTAVE
    return np.where(buckets <= 1, 1, np.rint(2.0**octaves)).astype(np.int64)


def histograms(keys: Ints, buckets: Buckets, count: int) -> tuple[Ints, int]:
    """Counts by key and bucket: one row for each of `count` keys.

    Columns begin at the returned bucket number, as only few are used; NO_LATENCY is not counted.
    """
    has_latency = buckets != NO_LATENCY
    if not has_latency.all():
        keys, buckets = keys[has_latency], buckets[has_latency]
    if not len(buckets):
        return np.zeros((count, 1), np.int64), 1
    first = int(buckets.min())
    width = int(buckets.max()) - first + 1
    cells = keys * width
    cells += buckets
    cells -= first
    return np.bincount(cells, minlength=count * width).reshape(count, width), first


def percentiles(counts: Ints, first: int, shares: tuple[float, ...]) -> Ints:
    """Percentiles of each row of `counts`, in ns, by nearest rank; -1 for an empty row."""
    sums = np.cumsum(counts, axis=1)
    total = sums[:, -1]
    found = np.empty((len(counts), len(shares)), np.int64)
    for column, share in enumerate(shares):
        rank = np.ceil(total * share)
        bucket = (sums < rank[:, None]).sum(axis=1) + first
        found[:, column] = np.where(total > 0, middle_ns(bucket), -1)
    return found
