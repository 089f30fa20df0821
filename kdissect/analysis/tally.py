"""Mergeable counts by key: rows, sums of measures, and a histogram of times.

Bins are log-linear, like those of HdrHistogram: values below 256 ns have one each; every further
power of two is cut into 128 of equal width. So a quantile is off by at most 1/256 (0.4 %) of the
value. Only bins that count something are kept: 16 bytes each.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kdissect.tables.matrices import Ints

SUB_BITS: Final = 7
BINS: Final = 7_296  # of 64-bit values
LARGEST: Final = np.iinfo(np.int64).max
# Up to this many cells for each count, an array of all of them is faster than sorting.
DENSE: Final = 8

Numbers = np.ndarray[Any, Any]


class Tally(NamedTuple):
    """Counts by ascending `key`: rows, sums of the measures, shortest and longest time.

    The longest is -1 without times. `cells` are ``key * BINS + bin``, ascending, with `counts`.
    """

    key: Ints
    rows: Ints
    sums: Numbers  # measures × keys
    shortest: Ints
    longest: Ints
    cells: Ints
    counts: Ints


def tally(key: Numbers, times: Ints, *measures: Numbers) -> Tally:
    """Count rows with these keys, small non-negative numbers; a negative time is a missing one."""
    known = times >= 0
    cells = key * np.int64(BINS)
    cells += bins_of(times)
    return added(key, None, measures, np.where(known, times, LARGEST), times, cells[known], None)


def merged(tallies: Sequence[Tally]) -> Tally:
    """Merge one or more tallies. A tally may have a key several times."""
    key, rows, sums, shortest, longest, cells, counts = zip(*tallies, strict=True)
    ends = np.concatenate(shortest), np.concatenate(longest)
    return added(
        np.concatenate(key), np.concatenate(rows), np.concatenate(sums, axis=1), *ends,
        np.concatenate(cells), np.concatenate(counts),
    )  # fmt: skip


def added(
    key: Numbers,
    rows: Ints | None,
    sums: Sequence[Numbers] | Numbers,
    shortest: Ints,
    longest: Ints,
    cells: Ints,
    counts: Ints | None,
) -> Tally:
    """The tally of what is counted by key and by cell; None counts 1 each."""
    total = np.bincount(key, rows)
    size = len(total)
    found = np.flatnonzero(total)
    low, high = np.full(size, LARGEST), np.full(size, -1)
    np.minimum.at(low, key, shortest)
    np.maximum.at(high, key, longest)
    columns = [np.bincount(key, column, size)[found] for column in sums]
    return Tally(
        found, total[found].astype(np.int64), np.array(columns).reshape(len(columns), len(found)),
        low[found], high[found], *counted(cells, counts),
    )  # fmt: skip


def counted(cells: Ints, counts: Ints | None) -> tuple[Ints, Ints]:
    """Distinct cells in order, and the sum of the counts of each."""
    if not len(cells):
        return cells, cells
    first = int(cells.min())
    if int(cells.max()) - first <= DENSE * len(cells):
        sums = np.bincount(cells - first, counts)
        found = np.flatnonzero(sums)
        return found + first, sums[found].astype(np.int64)
    # Not by np.unique, which imports numpy.ma.
    if counts is None:
        ordered = np.sort(cells)
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        return ordered[starts], np.diff(starts, append=len(cells))
    order = np.argsort(cells)
    ordered = cells[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    return ordered[starts], np.add.reduceat(counts[order], starts)


def chosen(of: Tally, places: Ints) -> Tally:
    """The tally of some keys, given by their ascending places, which are the new keys' order."""
    old = of.cells // BINS
    new = np.searchsorted(of.key[places], old)
    kept = np.append(of.key[places], -1)[new] == old
    return Tally(
        np.arange(len(places)), of.rows[places], of.sums[:, places], of.shortest[places],
        of.longest[places], (new * BINS + of.cells % BINS)[kept], of.counts[kept],
    )  # fmt: skip


def quantiles(of: Tally, shares: Sequence[float]) -> Ints:
    """The time at rank ceil(share * times), keys × shares; -1 for keys without times."""
    ends = np.append(0, np.cumsum(of.counts))
    begin, end = (ends[np.searchsorted(of.cells, keys * BINS)] for keys in (of.key, of.key + 1))
    ranks = np.maximum(1, np.ceil(np.outer(end - begin, shares)))
    places = np.searchsorted(ends[1:], begin[:, None] + ranks)
    bins = np.append(of.cells, 0)[np.minimum(places, len(of.cells))] % BINS
    times = np.clip(middles(bins), of.shortest[:, None], of.longest[:, None])
    return np.where((end > begin)[:, None], times, -1)


def bins_of(values: Ints) -> Ints:
    """Bins of values; any number for a negative one."""
    # A float above 2^53 may be rounded up to a power of two: then the shift is 1 larger, what is
    # left of the value is 127 instead of 255, and the bin is the same.
    shifts = values.astype(np.float64).view(np.int64)
    shifts >>= 52
    shifts -= 1023 + SUB_BITS
    np.maximum(shifts, 0, out=shifts)
    bins: Ints = values >> shifts
    shifts <<= SUB_BITS
    bins += shifts
    return bins


def middles(bins: Ints) -> Ints:
    """Middle value of each bin."""
    shifts = np.maximum(0, (bins >> SUB_BITS) - 1)
    lows = (bins - (shifts << SUB_BITS)) << shifts
    found: Ints = lows + ((1 << shifts) - 1) // 2
    return found
