import doctest

import pytest

from kdissect.text import escape, human


@pytest.mark.parametrize("module", [human, escape])
def test_the_examples_of_the_docstrings_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "-"),
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1 µs"),
        (1_234_567, "1.23 ms"),
        (59_400_000_000, "59.4 s"),
        (59_600_000_000, "1 m 00 s"),
        (3_600_000_000_000, "1 h 00 m"),
        (200_000_000_000_000, "2 d 07 h"),
    ],
)
def test_durations_are_read_at_a_glance(ns: int | None, text: str) -> None:
    assert human.duration(ns) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1 kB"), (999_600, "1 MB"), (10**21, "1e+03 EB")],
)
def test_sizes_are_in_powers_of_a_thousand(number: int, text: str) -> None:
    assert human.size(number) == text
