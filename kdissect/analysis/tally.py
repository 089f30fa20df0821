"""Mergeable counts by key: rows, sums of measures, and a histogram of times.

Bins are log-linear, like those of HdrHistogram: with a precision of `bits`, values below
2^(bits + 1) ns have one each, and every further power of two is cut into 2^bits of equal width. Of
32 bits, times up to 8.6 s are exact, and longer ones within 2^-33. Only bins that count something
are kept, 16 bytes each: of more than `MOST_CELLS`, coarser ones, of 12 bits (0.012 %), then of 7
(a time is off by at most 1/256, 0.4 %).
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kdissect.tables.matrices import Ints

PRECISIONS: Final = (32, 12, 7)
COARSEST: Final = PRECISIONS[-1]
MOST_CELLS: Final = 1 << 18  # 4 MB; more, where those of `COARSEST` are more
LARGEST: Final = np.iinfo(np.int64).max
# Up to this many cells for each count, an array of all of them is faster than sorting.
DENSE: Final = 8

Numbers = np.ndarray[Any, Any]


class Tally(NamedTuple):
    """Counts by ascending `key`: rows, sums of the measures, shortest and longest time.

    The longest is -1 without times. `cells` are ``key * bin_count(bits) + bin``, ascending, with
    `counts`.
    """

    key: Ints
    rows: Ints
    sums: Numbers  # measures × keys
    shortest: Ints
    longest: Ints
    cells: Ints
    counts: Ints
    bits: int


def tally(key: Numbers, times: Ints, *measures: Numbers, bits: int | None = None) -> Tally:
    """Count rows with these keys, small non-negative numbers; a negative time is a missing one.

    `bits` is the precision, by default one that leaves room for all rows.
    """
    known = times >= 0
    bits = bits or precision_for(len(times))
    cells = key * np.int64(bin_count(bits))
    cells += bins_of(times, bits)
    shortest = np.where(known, times, LARGEST)
    return added(key, None, measures, shortest, times, cells[known], None, bits)


def merged(tallies: Sequence[Tally]) -> Tally:
    """Merge one or more tallies. A tally may have a key several times."""
    bits = min(one.bits for one in tallies)
    alike = [coarser(one, bits) for one in tallies]
    key, rows, sums, shortest, longest, cells, counts, _ = zip(*alike, strict=True)
    ends = np.concatenate(shortest), np.concatenate(longest)
    of = added(
        np.concatenate(key), np.concatenate(rows), np.concatenate(sums, axis=1), *ends,
        np.concatenate(cells), np.concatenate(counts), bits,
    )  # fmt: skip
    for fewer in PRECISIONS:
        if len(of.cells) > MOST_CELLS and fewer < of.bits:
            of = coarser(of, fewer)
    return of


def added(
    key: Numbers,
    rows: Ints | None,
    sums: Sequence[Numbers] | Numbers,
    shortest: Ints,
    longest: Ints,
    cells: Ints,
    counts: Ints | None,
    bits: int,
) -> Tally:
    """The tally of values by key and by cell; None counts 1 each."""
    total = np.bincount(key, rows)
    size = len(total)
    found = np.flatnonzero(total)
    low, high = np.full(size, LARGEST), np.full(size, -1)
    np.minimum.at(low, key, shortest)
    np.maximum.at(high, key, longest)
    columns = [np.bincount(key, column, size)[found] for column in sums]
    return Tally(
        found, total[found].astype(np.int64), np.array(columns).reshape(len(columns), len(found)),
        low[found], high[found], *counted(cells, counts), bits,
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


def coarser(of: Tally, bits: int) -> Tally:
    """The same counts in bins of no more bits."""
    if bits == of.bits:
        return of
    keys, bins = np.divmod(of.cells, bin_count(of.bits))
    cells = keys * np.int64(bin_count(bits)) + bins_of(middles(bins, of.bits), bits)
    counts = counted(cells, of.counts)
    return of._replace(cells=counts[0], counts=counts[1], bits=bits)


def chosen(of: Tally, places: Ints) -> Tally:
    """The tally of some keys, given by their ascending places, which are the new keys' order."""
    old, bins = np.divmod(of.cells, bin_count(of.bits))
    new = np.searchsorted(of.key[places], old)
    kept = np.append(of.key[places], -1)[new] == old
    return of._replace(
        key=np.arange(len(places)), rows=of.rows[places], sums=of.sums[:, places],
        shortest=of.shortest[places], longest=of.longest[places],
        cells=(new * bin_count(of.bits) + bins)[kept], counts=of.counts[kept],
    )  # fmt: skip


def quantiles(of: Tally, shares: Sequence[float]) -> Ints:
    """Quantiles of the times, keys × shares, in whole ns; -1 for keys without times.

    Between two times they are interpolated, as by numpy, pandas and DuckDB's `quantile_cont`.
    """
    ends = np.append(0, np.cumsum(of.counts))
    bins = bin_count(of.bits)
    begin, end = (ends[np.searchsorted(of.cells, keys * bins)] for keys in (of.key, of.key + 1))
    places = np.outer(np.maximum(end - begin - 1, 0), shares)
    low = _times_at(of, ends, begin[:, None] + np.floor(places))
    high = _times_at(of, ends, begin[:, None] + np.ceil(places))
    between = np.floor((high - low) * (places % 1) + 0.5).astype(np.int64)
    return np.where((end > begin)[:, None], np.minimum(low + between, high), -1)


def _times_at(of: Tally, ends: Ints, ranks: Numbers) -> Ints:
    """The times of these ranks among those of all keys, counted from 0; keys × shares."""
    places = np.searchsorted(ends[1:], ranks, side="right")
    bins = np.append(of.cells, 0)[np.minimum(places, len(of.cells))] % bin_count(of.bits)
    found: Ints = np.clip(middles(bins, of.bits), of.shortest[:, None], of.longest[:, None])
    return found


def bin_count(bits: int) -> int:
    """Number of bins of 64-bit values."""
    return (64 - bits) << bits


def precision_for(rows: int) -> int:
    """Bits for separate cells of so many rows."""
    most = MOST_CELLS
    for bits in PRECISIONS:
        if rows <= most:
            return bits
        most *= 16  # coarser bins are shared
    return COARSEST


def bins_of(values: Ints, bits: int) -> Ints:
    """Bins of values; any number for a negative one."""
    # A float above 2^53 may be rounded up to a power of two: then the shift is 1 larger, what is
    # left of the value is 2^bits - 1 instead of 2^(bits + 1) - 1, and the bin is the same.
    shifts = values.astype(np.float64).view(np.int64)
    shifts >>= 52
    shifts -= 1023 + bits
    np.maximum(shifts, 0, out=shifts)
    bins: Ints = values >> shifts
    shifts <<= bits
    bins += shifts
    return bins


def middles(bins: Ints, bits: int) -> Ints:
    """Middle value of each bin."""
    shifts = np.maximum(0, (bins >> bits) - 1)
    lows = (bins - (shifts << bits)) << shifts
    found: Ints = lows + ((1 << shifts) - 1) // 2
    return found
