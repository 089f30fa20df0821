"""Rows by key: labels of groups, and their rows in order."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from kdissect.rules.plans.columns import Array, Column, combined


class Groups:
    """The groups of `count` rows: `labels` are numbered in the order of the keys' codes."""

    def __init__(self, keys: Sequence[Column], count: int) -> None:
        codes, size = combined([key.spread(count) for key in keys], count)
        self.rows = count
        there = np.zeros(size, bool)
        there[codes] = True
        self.count = int(np.count_nonzero(there))
        self.labels: Array = codes if self.count == size else (np.cumsum(there) - 1)[codes]
        if not keys:
            self.count = 1  # one group, also of no rows

    @cached_property
    def first(self) -> Array:
        """A row of each group, its first."""
        first = np.zeros(self.count, np.int64)
        first[self.labels[::-1]] = np.arange(self.rows - 1, -1, -1)
        return first

    @cached_property
    def sizes(self) -> Array:
        """The number of rows of each group."""
        return np.bincount(self.labels, minlength=self.count)


def sort_keys(column: Column, is_ascending: bool, nulls_first: bool) -> list[Array]:
    """Arrays for `np.lexsort`, the more important last."""
    values = column.sortable
    if not is_ascending:
        values = -values
    if column.valid is None:
        return [values]
    nulls = column.valid if nulls_first else ~column.valid
    return [np.where(column.valid, values, 0), nulls]


def sorted_rows(keys: Sequence[tuple[Column, bool, bool]], count: int) -> Array:
    """Rows in the order of columns, each with its direction and whether nulls are first."""
    arrays: list[Array] = []
    for column, is_ascending, nulls_first in reversed(keys):
        arrays += sort_keys(column.spread(count), is_ascending, nulls_first)
    return np.lexsort(arrays) if arrays else np.arange(count)
