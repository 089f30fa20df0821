import tracemalloc
from random import Random

import numpy as np
import pytest

from kdissect.analysis.summary.largest import Largest
from tests.seeds import SEED


def add(largest: Largest, names: str) -> None:
    for name in names:
        largest.add([name], np.array([0]), np.array([-1]))


def counted(names: str, limit: int) -> Largest:
    largest = Largest(limit)
    add(largest, names)
    return largest


def rows(largest: Largest) -> list[tuple[str, int]]:
    return [(row.name, row.rows) for row in largest.rows()]


def test_the_heaviest_come_first() -> None:
    assert rows(counted("abbccc", 2)) == [("c", 3), ("b", 2), ("a", 1)]


def test_of_equal_ones_the_first_comes_first() -> None:
    assert rows(counted("cab", 2)) == [("c", 1), ("a", 1), ("b", 1)]


def test_the_lighter_half_is_dropped_when_there_are_twice_as_many() -> None:
    largest = counted("aaabbcde", 2)
    assert rows(largest) == [("a", 3), ("b", 2), ("e", 1)]
    assert largest.left_out == 2


def test_a_dropped_name_starts_again_from_nothing() -> None:
    largest = counted("aaabbbcd", 2)
    add(largest, "cccc")
    assert rows(largest) == [("c", 4), ("a", 3), ("b", 3)]


def test_there_are_never_twice_the_limit() -> None:
    largest = Largest(10)
    for number in range(1000):
        largest.add([str(number)], np.array([0]), np.array([number]))
        assert len(largest.rows()) < 20


def test_weights_may_be_measures() -> None:
    largest = Largest(1, lambda of: (of.sums[0], of.rows))
    largest.add(
        ["a", "b", "c"], np.array([0, 0, 1, 2, 2]), np.full(5, -1), np.array([1, 1, 5, 1, 1])
    )
    assert [row.name for row in largest.rows()] == ["b"]
    assert largest.left_out == 2


def test_names_without_rows_are_not_listed() -> None:
    largest = Largest(5)
    largest.add(["a", "b"], np.array([1]), np.array([7]))
    assert rows(largest) == [("b", 1)]


def test_counts_are_the_same_however_rows_are_parted() -> None:
    generator = np.random.default_rng(SEED)
    names = [f"client-{number}" for number in range(50)]
    places = generator.integers(0, 50, 30_000)
    times = generator.lognormal(14, 3, 30_000).astype(np.int64)
    whole, parts = Largest(100), Largest(100)
    whole.add(names, places, times, places * 3)
    for part in range(0, 30_000, 500):
        some = slice(part, part + 500)
        parts.add(names, places[some], times[some], places[some] * 3)
    assert sorted(parts.rows()) == sorted(whole.rows(), key=lambda row: row.name)


@pytest.mark.parametrize("has_times", [False, True])
def test_memory_does_not_grow_with_the_number_of_batches(has_times: bool) -> None:
    source = Random(f"{SEED} {has_times}")
    names = [f"topic-{number}" for number in range(source.randrange(1, 500))]
    largest = Largest(512)
    sizes = []
    tracemalloc.start()
    try:
        for _ in range(4):
            for _ in range(500):
                rows = source.randrange(1, 40)
                places = np.array(source.choices(range(len(names)), k=rows))
                times = np.array(source.choices(range(1, 100) if has_times else [-1], k=rows))
                largest.add(names, places, times, places, places)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sum(row.rows for row in largest.rows()) > 2_000
    assert max(sizes) < 6_000_000, sizes  # the first, and those that wait
