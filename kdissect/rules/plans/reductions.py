"""Values of groups: sums, extremes, quantiles. Nulls do not count; without a value it is null."""

from collections.abc import Callable
from typing import Final

import numpy as np

from kdissect.rules.plans.columns import Array, Column, Flags, of_words
from kdissect.rules.plans.grouping import Groups

MOST: Final = np.iinfo(np.int64).max
LEAST: Final = np.iinfo(np.int64).min
SPLITTER: Final = 2.0**27 + 1


def used_rows(groups: Groups, column: Column | None, where: Column | None) -> Flags | None:
    """The rows that count; None for all."""
    used: Flags | None = None
    if column is not None and column.valid is not None:
        used = column.spread(groups.rows).valid
    if where is not None:
        flags = (where.values & where.known) if where.valid is not None else where.values
        flags = np.broadcast_to(flags, (groups.rows,))
        used = flags if used is None else used & flags
    return used


def _used(groups: Groups, column: Column, where: Column | None) -> tuple[Array, Column]:
    """Labels and values of the rows that count."""
    column = column.spread(groups.rows)
    used = used_rows(groups, column, where)
    if used is None:
        return groups.labels, column
    return groups.labels[used], Column(column.values[used], None, column.words)


def count_rows(groups: Groups, where: Column | None) -> Column:
    used = used_rows(groups, None, where)
    labels = groups.labels if used is None else groups.labels[used]
    return Column(np.bincount(labels, minlength=groups.count))


def count(groups: Groups, column: Column, where: Column | None) -> Column:
    labels, _ = _used(groups, column, where)
    return Column(np.bincount(labels, minlength=groups.count))


def _there(groups: Groups, labels: Array) -> Flags | None:
    there = np.zeros(groups.count, bool)
    there[labels] = True
    return None if there.all() else there


def total(groups: Groups, column: Column, where: Column | None) -> Column:
    labels, used = _used(groups, column, where)
    kind = np.float64 if used.values.dtype.kind == "f" else np.int64
    found = np.zeros(groups.count, kind)
    np.add.at(found, labels, used.values.astype(kind, copy=False))
    return Column(found, _there(groups, labels))


def mean(groups: Groups, column: Column, where: Column | None) -> Column:
    labels, used = _used(groups, column, where)
    found = np.zeros(groups.count, np.float64)
    np.add.at(found, labels, used.values.astype(np.float64))
    sizes = np.bincount(labels, minlength=groups.count)
    return Column(found / np.maximum(sizes, 1), _there(groups, labels))


def _extreme(is_largest: bool) -> Callable[[Groups, Column, Column | None], Column]:
    def extreme(groups: Groups, column: Column, where: Column | None) -> Column:
        labels, used = _used(groups, column, where)
        keys = used.sortable
        if keys.dtype.kind == "f":
            found = np.full(groups.count, -np.inf if is_largest else np.inf)
        else:
            found = np.full(groups.count, LEAST if is_largest else MOST)
        (np.maximum if is_largest else np.minimum).at(found, labels, keys)
        there = _there(groups, labels)
        if there is not None:
            found = np.where(there, found, 0)
        if column.words is not None:
            order = column.words.order
            return Column(order[found] if len(order) else found, there, column.words)
        return Column(found.astype(bool) if column.values.dtype == bool else found, there)

    return extreme


smallest, largest = _extreme(False), _extreme(True)


def any_of(groups: Groups, column: Column, where: Column | None) -> Column:
    labels, used = _used(groups, column, where)
    found = np.zeros(groups.count, bool)
    found[labels[used.values]] = True
    return Column(found, _there(groups, labels))


def all_of(groups: Groups, column: Column, where: Column | None) -> Column:
    labels, used = _used(groups, column, where)
    found = np.ones(groups.count, bool)
    found[labels[~used.values]] = False
    return Column(found, _there(groups, labels))


def _row_of_extreme(
    groups: Groups, column: Column, key: Column, where: Column | None, is_largest: bool
) -> Column:
    """The value, or null, where the key is the smallest or largest: of equal ones the first.

    A null key is behind all others.
    """
    column, key = column.spread(groups.rows), key.spread(groups.rows)
    used = used_rows(groups, None, where)
    rows = np.arange(groups.rows) if used is None else np.flatnonzero(used)
    labels, keys = groups.labels[rows], key.sortable[rows]
    worst: float = LEAST if is_largest else MOST
    if keys.dtype.kind == "f":
        worst = -np.inf if is_largest else np.inf
    if key.valid is not None:
        keys = np.where(key.valid[rows], keys, worst)
    best = np.full(groups.count, worst)
    (np.maximum if is_largest else np.minimum).at(best, labels, keys)
    is_best = keys == best[labels]
    chosen = np.full(groups.count, -1)
    chosen[labels[is_best][::-1]] = rows[is_best][::-1]
    return column.take_or_null(chosen)


def at_smallest(groups: Groups, column: Column, key: Column, where: Column | None) -> Column:
    return _row_of_extreme(groups, column, key, where, False)


def at_largest(groups: Groups, column: Column, key: Column, where: Column | None) -> Column:
    return _row_of_extreme(groups, column, key, where, True)


def _distinct(groups: Groups, column: Column, where: Column | None) -> tuple[Array, Array, Column]:
    """Labels and a row for each distinct value of each group, of the rows that count."""
    labels, used = _used(groups, column, where)
    label = Column(labels)
    rows = Groups((label, used), len(labels)).first if len(labels) else labels
    return labels[rows], rows, used


def count_distinct(groups: Groups, column: Column, where: Column | None) -> Column:
    labels, _, _ = _distinct(groups, column, where)
    return Column(np.bincount(labels, minlength=groups.count))


def collect_distinct(groups: Groups, column: Column, where: Column | None) -> Column:
    """The distinct values of each group as a list."""
    labels, rows, used = _distinct(groups, column, where)
    lists: list[list[object] | None] = [None] * groups.count
    for label, value in zip(labels.tolist(), used.take(rows).python(), strict=True):
        found = lists[label]
        if found is None:
            lists[label] = [value]
        else:
            found.append(value)
    return of_words(None if one is None else tuple(one) for one in lists)


def quantile(groups: Groups, column: Column, where: Column | None, share: float) -> Column:
    """Interpolated between the two nearest values."""
    labels, used = _used(groups, column, where)
    values = _sorted_in_groups(labels, used.values, groups.count).astype(np.float64)
    sizes = np.bincount(labels, minlength=groups.count)
    starts = np.cumsum(sizes) - sizes
    place = np.maximum(sizes - 1, 0) * share
    below, above = np.floor(place), np.ceil(place)
    if not len(values):
        return Column(np.zeros(groups.count), np.zeros(groups.count, bool))
    low = values[np.minimum(starts + below.astype(np.int64), len(values) - 1)]
    high = values[np.minimum(starts + above.astype(np.int64), len(values) - 1)]
    part = place - below
    found = multiplied_and_added(low, 1 - part, high * part)
    return Column(found, None if (sizes > 0).all() else sizes > 0)


def _sorted_in_groups(labels: Array, values: Array, count: int) -> Array:
    """The values in the order of groups, and of values in each."""
    if len(values) and values.dtype == np.int64:
        lowest = int(values.min())
        size = int(values.max()) - lowest + 1
        if size * count < MOST:
            keys = np.sort(labels * size + (values - lowest))
            found: Array = keys % size + lowest
            return found
    ordered: Array = values[np.lexsort((values, labels))]
    return ordered


def multiplied_and_added(one: Array, other: Array, more: Array) -> Array:
    """One times other and more, rounded once, as DuckDB interpolates (Dekker's product)."""
    product = one * other
    high, low = _halves(one)
    other_high, other_low = _halves(other)
    error = ((high * other_high - product) + high * other_low + low * other_high) + low * other_low
    total = product + more
    taken = total - product
    found: Array = total + ((product - (total - taken)) + (more - taken) + error)
    return found


def _halves(values: Array) -> tuple[Array, Array]:
    """Floats as sums of two with half as many bits."""
    scaled = values * SPLITTER
    high = scaled - (scaled - values)
    return high, values - high
