import doctest

from hypothesis import given
from hypothesis import strategies as st

from kdissect.streams import sequence
from kdissect.streams.sequence import HALF, MODULUS, advance, distance

NUMBERS = st.integers(0, MODULUS - 1)


def test_the_examples_hold() -> None:
    assert distance(1, 0xFFFFFFFF) == 2
    assert distance(0xFFFFFFFF, 1) == -2
    assert advance(0xFFFFFFFF, 2) == 1
    assert doctest.testmod(sequence).failed == 0


def test_half_the_space_away_is_before() -> None:
    assert distance(HALF, 0) == -HALF
    assert distance(HALF - 1, 0) == HALF - 1


@given(NUMBERS, st.integers(-HALF, HALF - 1))
def test_distance_undoes_advance(origin: int, count: int) -> None:
    assert distance(advance(origin, count), origin) == count
