"""Buckets of Prometheus' native histograms: eight for each power of two, sparse.

    bucket k of schema 3 has values in (2^((k-1)/8), 2^(k/8)] seconds: 9 % apart

Values up to `ZERO_NS` are in the zero bucket, and those above the last bucket in the last one, so a
histogram has at most `COUNT` buckets.
https://prometheus.io/docs/specs/native_histograms/
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

SCHEMA: Final = 3
PER_OCTAVE: Final = 1 << SCHEMA
ZERO_NS: Final = 1_000
FIRST: Final = -159  # the first one that has values above a microsecond
LAST: Final = 80  # to 1024 s
COUNT: Final = LAST - FIRST + 2  # with the zero bucket, at place 0

Counts = np.ndarray[Any, Any]


def places_of(durations_ns: Counts) -> Counts:
    """Places of durations in an array of `COUNT` buckets.

    >>> places_of(np.array([0, 1000, 1001, 10**9, 10**12, 10**18])).tolist()
    [0, 0, 1, 160, 240, 240]
    """
    seconds = np.maximum(durations_ns, ZERO_NS) / 1e9
    bucket = np.ceil(np.log2(seconds) * PER_OCTAVE).astype(np.int64)
    place = np.clip(bucket, FIRST, LAST) - FIRST + 1
    return np.where(durations_ns <= ZERO_NS, 0, place)


def spans(counts: Mapping[int, int]) -> Iterator[tuple[int, list[int]]]:
    """Runs of neighbouring buckets: the gap before each, and its counts; without the zero bucket.

    The first gap is the number of the first bucket.

    >>> list(spans({0: 7, 160: 1, 161: 2, 170: 5}))
    [(0, [1, 2]), (8, [5])]
    """
    last = None
    run: list[int] = []
    gap = 0
    for place in sorted(counts.keys() - {0}):
        if last is None or place > last + 1:
            if run:
                yield gap, run
            gap = place - 1 + FIRST if last is None else place - last - 1
            run = []
        run.append(counts[place])
        last = place
    if run:
        yield gap, run
