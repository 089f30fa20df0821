"""Quantiles of two sides, by the share of exchanges slower than the pooled quantile.

Beyond a quantile q of both sides together lie 1 - q of all exchanges; a side with more of them
has the larger quantile. So quantiles are compared as shares are, without sorting the rows again.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kdissect.analysis.compare import window_counts
from kdissect.analysis.compare.paired_counts import (
    FEWEST_BEYOND,
    Bounds,
    Key,
    Numbers,
    Part,
    Sides,
    are_enough,
    known,
    times_wide,
)
from kdissect.analysis.compare.significance import (
    Array,
    Windows,
    design_effect,
    effective,
    inflation,
    ratio_of,
    wilson,
)

if TYPE_CHECKING:
    import pyarrow as pa


class Bins(NamedTuple):
    """A histogram's bins as rows: group, window and count."""

    group: Numbers
    at: Numbers
    x: Array
    bin: Numbers

    def chosen(self, flags: npt.NDArray[np.bool_]) -> "Bins":
        """A subset of the rows."""
        return Bins(self.group[flags], self.at[flags], self.x[flags], self.bin[flags])

    def grid(self, rows: int, windows: int) -> Array:
        """Exchange counts: groups × windows."""
        places = self.group * windows + self.at
        sums = np.bincount(places, self.x, minlength=rows * windows).astype(np.float64)
        return sums.reshape(rows, windows)

    def places(self, share: Array) -> Numbers:
        """For each group, the row in which that share of its exchanges is reached.

        Rows are ordered by group and bin.
        """
        ends = np.cumsum(self.x)
        totals = np.bincount(self.group, self.x, minlength=len(share))
        starts = np.cumsum(totals) - totals
        ranks = np.clip(np.ceil(share * totals - 1e-9), 1, np.maximum(totals, 1))
        found: Numbers = np.searchsorted(ends, starts + ranks - 0.5)
        return np.minimum(found, len(ends) - 1)


def times(sides: Sides, of: Sequence[str]) -> Iterator[Part]:
    """p50, p90 and p99 of the measures, for groups present on both sides."""
    exact = sides.ask(lambda _, rows: window_counts.quantiles(rows, sides.by, of))
    for measure in of:
        yield from times_of(sides, measure, exact)


def times_of(sides: Sides, measure: str, exact: "list[pa.Table]") -> Iterator[Part]:
    """The quantiles of one measure; `exact` has its percentiles."""
    groups: dict[Key, int] = {}
    bins = bins_of(
        sides, sides.ask(lambda _, rows: window_counts.bins(rows, sides.by, measure)), groups
    )
    if not len(bins.x):
        return
    # Groups of other measures have percentiles too, but none of this one: they are numbered first,
    # so that all arrays by group have one length.
    numbers = sides.numbered(exact, groups)
    split = sides.spans[0].windows
    n = bins.grid(len(groups), sides.windows)
    totals = np.stack([n[:, :split].sum(1), n[:, split:].sum(1)])
    are_both: npt.NDArray[np.bool_] = np.all(totals > 0, axis=0)
    if not are_both.any():
        return
    names = [group for group, is_both in zip(groups, are_both, strict=True) if is_both]
    for what, share in window_counts.QUANTILES.items():
        x = slower(bins, bins.bin[bins.places(np.full(len(groups), share))], n.shape)
        counts = sides.counts(x[are_both], n[are_both])
        values = [
            values_of(table, f"{measure}_{what}", own, len(groups))[are_both]
            for table, own in zip(exact, numbers, strict=True)
        ]
        bounds = []
        for side in (0, 1):
            low, high = side_bounds(bins, side, share, n, counts, are_both)
            # Bins may be wider than the distance between two exchanges.
            bounds.append((np.minimum(low, values[side]), np.maximum(high, values[side])))
        beyond = (totals * min(share, 1 - share))[:, are_both].min(0)
        yield Part(
            measure, "ns", names, [what] * len(names), counts, (values[0], values[1]),
            (bounds[0], bounds[1]), are_enough(counts) & (beyond >= FEWEST_BEYOND),
        )  # fmt: skip


def bins_of(sides: Sides, tables: "list[pa.Table]", groups: dict[Key, int]) -> Bins:
    """Both sides' bins ordered by group and bin."""
    numbers = np.concatenate(sides.numbered(tables, groups))
    ats = [sides.places(table, side) for side, table in enumerate(tables)]
    columns = {
        name: np.concatenate([table[name].to_numpy() for table in tables]) for name in ("x", "bin")
    }
    order = np.lexsort((columns["bin"], numbers))
    return Bins(
        numbers[order], np.concatenate(ats)[order], columns["x"][order].astype(np.float64),
        columns["bin"][order],
    )  # fmt: skip


def values_of(table: "pa.Table", column: str, numbers: Numbers, rows: int) -> Array:
    """A column by group; NaN for missing groups."""
    found = np.full(rows, np.nan)
    found[numbers] = table[column].to_numpy()
    return found


def slower(bins: Bins, limits: Numbers, shape: tuple[int, ...]) -> Array:
    """Exchanges in bins above each group's limit, plus half of those in its bin: groups × windows.

    Half, because a whole side may fall into the bin of the limit: a broker's 500 ms of a poll.
    """
    own = limits[bins.group]
    above = bins.chosen(bins.bin > own).grid(shape[0], shape[1])
    found: Array = above + bins.chosen(bins.bin == own).grid(shape[0], shape[1]) / 2
    return found


def side_bounds(
    bins: Bins,
    side: int,
    share: float,
    n: Array,
    counts: Windows,
    are_both: npt.NDArray[np.bool_],
) -> Bounds:
    """Bounds of a side's quantile: quantiles at the bounds of its share (Woodruff's method)."""
    is_own = bins.at >= counts.before if side else bins.at < counts.before
    own = bins.chosen(is_own)
    rows = len(n)
    x = slower(own, own.bin[own.places(np.full(rows, share))], n.shape)
    mine = Windows(x[are_both], n[are_both], counts.before).side(side)
    effect = design_effect(*mine, ratio_of(*mine)) * inflation(counts)
    worth = np.zeros(rows)
    worth[are_both] = mine[1].sum(1) / effect
    low, high = wilson(np.full(rows, share), worth, times_wide(counts))
    # Above the last exchange the bound is unknown.
    is_open = (1 - high) * n[:, side * counts.before :][:, : mine[0].shape[1]].sum(1) < 1
    lowest = own.bin[own.places(low)].astype(np.float64)
    highest = np.where(is_open, np.nan, ends_of(own.bin[own.places(high)]))
    return known((lowest[are_both], highest[are_both]), effective(mine[0]))


def ends_of(bins: Numbers) -> Array:
    """The largest integers that `windowed.rounded` maps to these bins."""
    digits = np.floor(np.log10(np.maximum(bins, 1)) + 1e-12)
    steps = 10 ** np.maximum(digits + 1 - window_counts.KEPT_DIGITS, 0)
    found: Array = bins + steps - 1
    return found
