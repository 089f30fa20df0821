"""Pairs of rows of two relations with equal keys."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from kdissect.rules.plans.columns import Array, Column, Flags, combined, unified

# Pairs of which other predicates are computed at once: some 100 bytes each.
BLOCK: Final = 250_000
ALL: Final = 1 << 62


def pairs(
    left: Sequence[Column], right: Sequence[Column], nulls_match: Sequence[bool],
    left_count: int, right_count: int, most: int = ALL,
) -> Iterator[tuple[Array, Array]]:  # fmt: skip
    """Places of rows on both sides whose keys are equal, in the order of the left ones.

    About `most` at a time, at least once. Without keys, each with each. `nulls_match` says of each
    key whether nulls are equal.
    """
    codes, size, usable = _codes(left, right, nulls_match, left_count, right_count)
    left_rows = np.flatnonzero(usable[:left_count])
    right_rows = np.flatnonzero(usable[left_count:])
    left_codes, right_codes = codes[:left_count][left_rows], codes[left_count:][right_rows]
    sizes = np.bincount(right_codes, minlength=size)
    if sizes.max(initial=0) <= 1:
        yield _unique_pairs(left_rows, left_codes, right_rows, right_codes, size)
        return
    right_rows = right_rows[np.argsort(right_codes, kind="stable")]
    starts = (np.cumsum(sizes) - sizes)[left_codes]
    matches = sizes[left_codes]
    for block in _blocks(matches, most):
        count = matches[block]
        first = np.cumsum(count) - count
        right_places = np.repeat(starts[block] - first, count)
        right_places += np.arange(len(right_places))
        yield np.repeat(left_rows[block], count), right_rows[right_places]


def _blocks(sizes: Array, most: int) -> Iterator[slice]:
    """Consecutive rows whose sizes add up to `most`, or one that is larger; at least one slice."""
    ends = np.cumsum(sizes)
    first, done = 0, 0
    while True:
        last = max(first + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield slice(first, last)
        if last >= len(ends):
            return
        first, done = last, int(ends[last - 1])


def _unique_pairs(
    left_rows: Array, left_codes: Array, right_rows: Array, right_codes: Array, size: int
) -> tuple[Array, Array]:
    """The same where no key occurs twice on the right, as ids in the table that they are of."""
    places = np.full(size, -1, np.int64)
    places[right_codes] = right_rows
    found = places[left_codes]
    matched = found >= 0
    return (left_rows, found) if matched.all() else (left_rows[matched], found[matched])


def has_match(
    left: Sequence[Column], right: Sequence[Column], nulls_match: Sequence[bool],
    left_count: int, right_count: int,
) -> Flags:  # fmt: skip
    """The left rows whose keys occur on the right."""
    codes, size, usable = _codes(left, right, nulls_match, left_count, right_count)
    there = np.zeros(size, bool)
    there[codes[left_count:][usable[left_count:]]] = True
    found: Flags = there[codes[:left_count]] & usable[:left_count]
    return found


def with_unmatched(left: Array, right: Array, left_count: int) -> tuple[Array, Array]:
    """The pairs, and each row of the left without one paired with -1."""
    matched = np.zeros(left_count, bool)
    matched[left] = True
    if matched.all():
        return left, right
    rest = np.flatnonzero(~matched)
    left = np.concatenate((left, rest))
    right = np.concatenate((right, np.full(len(rest), -1)))
    order = np.argsort(left, kind="stable")
    return left[order], right[order]


def with_rest(left: Array, right: Array, right_count: int) -> tuple[Array, Array]:
    """The pairs, and behind them each row of the right without one, paired with -1."""
    matched = np.zeros(right_count, bool)
    matched[right[right >= 0]] = True
    rest = np.flatnonzero(~matched)
    return np.concatenate((left, np.full(len(rest), -1))), np.concatenate((right, rest))


def taken(places: Array, rows: Array) -> Array:
    """The places of these rows; -1 for the row -1."""
    if len(rows) == 0 or rows.min() >= 0:
        return places[rows]
    if len(places) == 0:
        return np.full(len(rows), -1)
    return np.where(rows < 0, -1, places[rows])


def _codes(
    left: Sequence[Column], right: Sequence[Column], nulls_match: Sequence[bool],
    left_count: int, right_count: int,
) -> tuple[Array, int, Flags]:  # fmt: skip
    """Codes of the keys of both sides, one behind the other, and the rows that may match."""
    usable = np.ones(left_count + right_count, bool)
    columns = []
    for one, other, is_equal in zip(left, right, nulls_match, strict=True):
        column = stacked(one.spread(left_count), other.spread(right_count))
        if not is_equal and column.valid is not None:
            usable &= column.valid
        columns.append(column)
    codes, size = combined(columns, left_count + right_count)
    return codes, size, usable


def stacked(one: Column, other: Column) -> Column:
    """The rows of both, one behind the other."""
    (one, other), words = unified((one, other))
    valid = None
    if one.valid is not None or other.valid is not None:
        valid = np.concatenate((one.known, other.known))
    return Column(np.concatenate((one.values, other.values)), valid, words)
