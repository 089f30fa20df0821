"""Values of a row among others of its group: neighbours, row numbers, and running aggregates.

Frames are whole groups, or begin or end at a row near the current one: never both.
"""

from typing import NamedTuple

import numpy as np

from kdissect.rules.plans.columns import Array, Column
from kdissect.rules.plans.grouping import Groups, sort_keys


class Frame(NamedTuple):
    """Offsets of the first and the last row from the current one; None for the group's."""

    start: int | None
    end: int | None


class Ordered:
    """The rows of groups in the order of keys."""

    def __init__(self, groups: Groups, keys: list[tuple[Column, bool, bool]]) -> None:
        arrays: list[Array] = []
        for column, is_ascending, nulls_first in reversed(keys):
            arrays += sort_keys(column.spread(groups.rows), is_ascending, nulls_first)
        self.order = np.lexsort([*arrays, groups.labels])
        labels = groups.labels[self.order]
        self.labels = labels
        self.count = len(labels)
        self.at = np.arange(self.count)
        is_first = np.ones(self.count, bool)
        is_first[1:] = labels[1:] != labels[:-1]
        self.starts = np.maximum.accumulate(np.where(is_first, self.at, 0))
        is_last = np.ones(self.count, bool)
        is_last[:-1] = is_first[1:]
        self.ends = np.minimum.accumulate(np.where(is_last, self.at, self.count)[::-1])[::-1]

    def back(self, column: Column) -> Column:
        """A column of ordered rows as one of the rows as they were."""
        places = np.empty(self.count, np.int64)
        places[self.order] = self.at
        return column.take(places)

    def shifted(self, column: Column, by: int) -> Column:
        """An ordered column's values `by` rows away in the group, null outside of it."""
        rows = self.at + by
        inside = (rows >= self.starts) & (rows <= self.ends)
        return column.take_or_null(np.where(inside, rows, -1))


def neighbour(ordered: Ordered, column: Column, by: int) -> Column:
    return ordered.back(ordered.shifted(column.spread(ordered.count).take(ordered.order), by))


def row_number(ordered: Ordered) -> Column:
    """From 0."""
    return ordered.back(Column(ordered.at - ordered.starts))


def running(ordered: Ordered, name: str, column: Column, frame: Frame) -> Column:
    """A reduction of all rows of the group up to one, or from one on."""
    column = column.spread(ordered.count).take(ordered.order)
    if frame.start is None:
        end = 0 if frame.end is None else frame.end
        found = _running(name, column, ordered.starts, ordered.labels)
        by = end
    else:
        # The same, backwards.
        turned = column.take(slice_back(ordered.count))
        starts = ordered.count - 1 - ordered.ends[::-1]
        labels = int(ordered.labels[-1]) - ordered.labels[::-1] if ordered.count else ordered.labels
        found = _running(name, turned, starts, labels).take(slice_back(ordered.count))
        by = frame.start
    return ordered.back(_counted(name, ordered.shifted(found, by) if by else found))


def _counted(name: str, column: Column) -> Column:
    """A frame without rows has a count, of 0, and no other value."""
    if name == "Count" and column.valid is not None:
        return Column(np.where(column.valid, column.values, 0))
    return column


def slice_back(count: int) -> Array:
    return np.arange(count - 1, -1, -1)


def _running(name: str, column: Column, starts: Array, labels: Array) -> Column:
    """A reduction of the rows of a group up to each of them."""
    if name == "Sum":
        return _running_sum(column, starts)
    if name == "Count":
        return _running_count(column, starts)
    if name not in ("Max", "Min"):
        raise ValueError(f"no plan has a running {name}")
    return _running_extreme(column, labels, name == "Max")


def _running_sum(column: Column, starts: Array) -> Column:
    values = np.where(column.known, column.values, 0)
    if values.dtype == bool:
        values = values.astype(np.int64)
    sums = np.cumsum(values)
    before = np.where(starts > 0, sums[starts - 1], 0) if len(sums) else sums
    seen = _running_count(column, starts).values > 0
    return Column(sums - before, None if seen.all() else seen)


def _running_count(column: Column, starts: Array) -> Column:
    counts = np.cumsum(column.known.astype(np.int64))
    before = np.where(starts > 0, counts[starts - 1], 0) if len(counts) else counts
    return Column(counts - before)


def _running_extreme(column: Column, labels: Array, is_largest: bool) -> Column:
    distinct, ranks = np.unique(column.sortable, return_inverse=True)
    size = len(distinct) + 1
    if not is_largest:
        ranks = len(distinct) - 1 - ranks
    ranks = np.where(column.known, ranks, -1) + 1
    found = np.maximum.accumulate(ranks + labels * size) - labels * size - 1
    seen = found >= 0
    places = np.where(seen, found, 0)
    if not is_largest:
        places = len(distinct) - 1 - places
    values = distinct[places] if len(distinct) else column.values
    if column.words is not None and len(column.words.words):
        values = column.words.order[values]
    if column.values.dtype == bool:
        values = values.astype(bool)
    return Column(values, None if seen.all() else seen, column.words)
