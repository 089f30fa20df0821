"""Times as people write them."""

import doctest
from datetime import UTC, datetime

import pytest

from kdissect.analysis import time_expressions
from kdissect.analysis.time_expressions import is_moment, is_range, moment_of, range_of
from kdissect.errors import KdissectError

SECOND = 1_000_000_000


def ns(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


FIRST, LAST = ns("2026-11-20T23:50:00") + 7, ns("2026-11-21T00:20:00")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("23:55", "2026-11-20T23:55:00"),
        ("00:10:30", "2026-11-21T00:10:30"),  # the capture continues past midnight
        ("00:10Z", "2026-11-21T00:10:00"),
        ("12:00", "2026-11-20T12:00:00"),  # not captured at all
        ("2026-11-21", "2026-11-21T00:00:00"),
        ("2026-11-21T00:05", "2026-11-21T00:05:00"),
        ("2026-11-21 01:05:00+01:00", "2026-11-21T00:05:00"),
    ],
)
def test_moments_are_in_utc_while_the_capture_ran(text: str, meant: str) -> None:
    assert is_moment(text)
    assert moment_of(text, FIRST, LAST) == ns(meant)


def test_fractions_and_offsets_are_exact() -> None:
    assert moment_of("23:55:00.000000001", FIRST, LAST) == ns("2026-11-20T23:55:00") + 1
    assert moment_of("2026-11-21T00:00:00.250", FIRST, LAST) == ns("2026-11-21") + SECOND // 4
    assert moment_of("+90s", FIRST, LAST) == FIRST + 90 * SECOND


def test_ranges_leave_their_end_out_and_may_be_open() -> None:
    assert range_of("+1s..+2s", FIRST, LAST) == (FIRST + SECOND, FIRST + 2 * SECOND)
    assert range_of("..+2s", FIRST, LAST) == (FIRST, FIRST + 2 * SECOND)
    assert range_of("00:10 ..", FIRST, LAST) == (ns("2026-11-21T00:10:00"), LAST + 1)


@pytest.mark.parametrize("text", ["14:75", "2026-02-31", "25:00", "2026-01-01T9", "noon", "+9"])
def test_invalid_time_expressions_are_an_error(text: str) -> None:
    with pytest.raises(KdissectError, match="is no moment: write moments like 14:05"):
        moment_of(text, FIRST, LAST)


def test_a_range_that_ends_before_it_begins_is_an_error() -> None:
    with pytest.raises(KdissectError, match="ends before it begins"):
        range_of("00:10..23:55", FIRST, LAST)


@pytest.mark.parametrize("text", ["..", "a..b", "x = '..'", "14:05", "1..2", "+1s..+2s..+3s"])
def test_sql_is_no_range(text: str) -> None:
    assert not is_range(text)


def test_the_examples_hold() -> None:
    assert doctest.testmod(time_expressions).failed == 0
