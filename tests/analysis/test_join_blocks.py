"""Pairs of a join, some at a time: those of nested loops, in the order of the left rows."""

import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from kdissect.rules.plans import joins
from kdissect.rules.plans.columns import Column
from tests.seeds import SEED


def drawn_column(chance: random.Random, count: int) -> Column:
    values = np.array([chance.randrange(5) for _ in range(count)], np.int64)
    valid = np.array([chance.random() < 0.8 for _ in range(count)], bool)
    return Column(values, valid if chance.random() < 0.7 else None)


def is_pair(one: Column, other: Column, left: int, right: int, nulls_match: bool) -> bool:
    if one.known[left] and other.known[right]:
        return bool(one.values[left] == other.values[right])
    return nulls_match and not one.known[left] and not other.known[right]


@pytest.mark.parametrize("number", range(60))
def test_blocks_have_all_pairs(number: int) -> None:
    chance = random.Random(f"{SEED} {number}")
    left_count, right_count, keys = chance.randrange(30), chance.randrange(30), chance.randrange(3)
    left = [drawn_column(chance, left_count) for _ in range(keys)]
    right = [drawn_column(chance, right_count) for _ in range(keys)]
    nulls = [chance.random() < 0.3 for _ in range(keys)]
    most = chance.choice([1, 7, 40, joins.ALL])
    blocks = list(joins.pairs(left, right, nulls, left_count, right_count, most))
    found = [(int(a), int(b)) for one, other in blocks for a, b in zip(one, other, strict=True)]
    expected = [
        (a, b)
        for a in range(left_count)
        for b in range(right_count)
        if all(
            is_pair(one, other, a, b, is_null)
            for one, other, is_null in zip(left, right, nulls, strict=True)
        )
    ]
    assert [a for a, _ in found] == sorted(a for a, _ in found), SEED
    assert sorted(found) == sorted(expected), SEED
    # A block is no larger than asked for, but for the pairs of one row, or of unique keys.
    assert all(len(one) <= max(most, right_count, left_count) for one, _ in blocks), SEED


@pytest.mark.parametrize("number", range(40))
def test_outer_joins_have_each_row_of_both_sides(number: int) -> None:
    chance = random.Random(f"{SEED} outer {number}")
    left_count, right_count = chance.randrange(20), chance.randrange(20)
    one, other = drawn_column(chance, left_count), drawn_column(chance, right_count)
    ((left, right),) = joins.pairs([one], [other], [False], left_count, right_count)
    left, right = joins.with_unmatched(left, right, left_count)
    left, right = joins.with_rest(left, right, right_count)
    table = pa.table({"left": range(left_count), "key": [*known_values(one)]})
    beside = pa.table({"right": range(right_count), "key": [*known_values(other)]})
    with duckdb.connect() as connection:
        query = 'SELECT "left", "right" FROM "table" t FULL JOIN beside b ON t.key = b.key'
        connection.register("table", table)
        connection.register("beside", beside)
        rows = connection.sql(query).fetchall()
    expected = sorted((-1 if a is None else a, -1 if b is None else b) for a, b in rows)
    assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == expected, SEED
    # The next join takes rows of rows.
    before = np.array([chance.randrange(-1, 9) for _ in range(left_count)], np.int64)
    again = joins.taken(before, left)
    assert again.tolist() == [-1 if row < 0 else before[row] for row in left], SEED


def known_values(column: Column) -> list[int | None]:
    pairs = zip(column.values.tolist(), column.known.tolist(), strict=True)
    return [value if is_known else None for value, is_known in pairs]
