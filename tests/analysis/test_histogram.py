import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kdissect.analysis.summary.histogram import Histogram

LARGEST = 2**63 - 1


def histogram(values: list[int]) -> Histogram:
    made = Histogram()
    made.add(np.array(values, np.int64))
    return made


@given(st.lists(st.integers(0, LARGEST), min_size=1), st.floats(0, 1))
def test_a_quantile_is_within_one_256th_of_the_exact_one(values: list[int], q: float) -> None:
    exact = sorted(values)[max(1, int(np.ceil(q * len(values)))) - 1]
    found = histogram(values).quantile(q)
    assert found is not None
    assert abs(found - exact) * 256 <= exact


@given(st.lists(st.lists(st.integers(-5, LARGEST))))
def test_adding_in_parts_and_merging_is_adding_at_once(parts: list[list[int]]) -> None:
    whole = histogram([value for part in parts for value in part])
    merged, added = Histogram(), Histogram()
    for part in parts:
        merged.merge(histogram(part))
        added.add(np.array(part, np.int64))
    for other in (merged, added):
        assert (other.count, other.minimum, other.maximum) == (
            whole.count,
            whole.minimum,
            whole.maximum,
        )
        assert [other.quantile(q / 10) for q in range(11)] == [
            whole.quantile(q / 10) for q in range(11)
        ]


def test_memory_does_not_grow_with_the_values() -> None:
    made = histogram([0, LARGEST])
    assert len(made._counts) == 7296


def test_without_values_there_are_no_quantiles() -> None:
    assert Histogram().quantile(0.5) is None


def test_negative_durations_count_as_nothing() -> None:
    made = histogram([-7, 100])
    assert (made.minimum, made.quantile(0.5), made.count) == (0, 0, 2)
