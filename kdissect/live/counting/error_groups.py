"""Errors of the window by code and API."""

from typing import Any, Final, NamedTuple

import numpy as np

from kdissect.live.counting.columns import KnownNames
from kdissect.live.counting.merged_buckets import MergedBuckets
from kdissect.live.counting.snapshot import LISTED, Failing
from kdissect.live.counting.time_buckets import picked
from kdissect.tables.matrices import Ints

# Maximum key range for counting in a dense array: 8 MB.
DENSE: Final = 1_000_000


class Groups(NamedTuple):
    """Rows with equal keys: the count and last row of each group."""

    counts: Ints
    last: Ints


def grouped(key: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> Groups:
    """Group rows by two non-negative keys."""
    if not len(key):
        return Groups(np.empty(0, np.int64), np.empty(0, np.int64))
    width = int(other.max()) + 1
    both = key.astype(np.int64) * width + other
    size = int(both.max()) + 1
    if size > DENSE:
        both = np.unique(both, return_inverse=True)[1]
        size = int(both.max()) + 1
    count = np.bincount(both, minlength=size)
    last = np.zeros(size, np.int64)
    np.maximum.at(last, both, np.arange(len(both)))
    there = np.flatnonzero(count)
    return Groups(count[there], last[there])


def failing(merged: MergedBuckets, seconds: float) -> tuple[Failing, ...]:
    """Errors of the selected exchanges, the most frequent first."""
    errors = merged.errors()
    if not len(errors.row):
        return ()
    if merged.topic != -1:
        of_it = (errors.topic == merged.topic) | (errors.topic == 0)
        errors = picked(errors, of_it)
    groups = grouped(errors.error, merged.whole("api")[errors.row])
    order = np.argsort(-groups.counts, kind="stable")[:LISTED]
    last = groups.last[order]
    rows = errors.row[last]
    latencies = [max(latency, 0) for latency in merged.at("latency", rows)]
    times = merged.at("time", rows)
    return tuple(
        Failing(
            merged.names.errors.texts[error],
            merged.names.apis.texts[api],
            count,
            count / seconds,
            is_retriable,
            time + latency,
            merged.names.clients.texts[client],
            topic,
        )
        for error, api, count, is_retriable, time, latency, client, topic in zip(
            errors.error[last].tolist(),
            merged.at("api", rows),
            groups.counts[order].tolist(),
            errors.is_retriable[last].tolist(),
            times,
            latencies,
            merged.at("client", rows),
            texts(merged.names.topics, errors.topic[last]),
            strict=True,
        )
    )


def texts(names: KnownNames, codes: np.ndarray[Any, Any]) -> list[str]:
    """Texts of codes."""
    return [names.texts[code] for code in codes.tolist()]
