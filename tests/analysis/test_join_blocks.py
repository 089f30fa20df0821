"""Pairs of a join, some at a time: those of nested loops, in the order of the left rows."""

import random

import numpy as np
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
