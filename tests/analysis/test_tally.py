"""Tallies against counts of the same rows in plain Python."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.analysis.tally import (
    DENSE,
    MOST_CELLS,
    PRECISIONS,
    Tally,
    bin_count,
    bins_of,
    chosen,
    coarser,
    merged,
    quantiles,
    tally,
)

MOST = 2**63 - 1
TIMES = st.one_of(
    st.integers(0, MOST),
    st.sampled_from([2**power + near for power in range(1, 63) for near in (-1, 0, 1)]),
)
# Key, time and measure.
ROWS = st.lists(st.tuples(st.integers(0, 40), st.one_of(st.just(-1), TIMES), st.integers(0, 9)))
TENTHS = [tenth / 10 for tenth in range(11)]


def tallied(rows: Sequence[tuple[int, int, int]]) -> Tally:
    columns = np.array([*zip(*rows, strict=True)] or [[], [], []], np.int64)
    return tally(*columns, columns[2] > 4)


def lists(of: Tally) -> list[object]:
    return [column.tolist() for column in of[:-1]] + [of.bits]


def exact(times: Sequence[int], share: float) -> float:
    """By numpy, of two halves, whose difference fits an int64."""
    return float(np.quantile(np.array(sorted(times), np.float64), share))


@given(ROWS)
def test_rows_measures_and_ends_are_exact(rows: list[tuple[int, int, int]]) -> None:
    found = tallied(rows)
    keys = sorted({key for key, _, _ in rows})
    by_key = [[row for row in rows if row[0] == key] for key in keys]
    assert found.key.tolist() == keys
    assert found.rows.tolist() == [len(some) for some in by_key]
    assert found.sums.T.tolist() == [
        [sum(measure for _, _, measure in some), sum(measure > 4 for _, _, measure in some)]
        for some in by_key
    ]
    assert found.longest.tolist() == [max(time for _, time, _ in some) for some in by_key]


@given(ROWS)
def test_a_quantile_is_that_of_numpy(rows: list[tuple[int, int, int]]) -> None:
    found = tallied(rows)
    for key, values in zip(found.key.tolist(), quantiles(found, TENTHS).tolist(), strict=True):
        times = [time for own, time, _ in rows if own == key and time >= 0]
        for share, value in zip(TENTHS, values, strict=True):
            if times:
                expected = exact(times, share)
                # Half a nanosecond, and times of more than 8.6 s have 33 bits, floats 53.
                assert abs(value - expected) <= 0.5 + max(times) / 2**33 + max(times) / 2**50
            else:
                assert value == -1


@given(ROWS, st.sampled_from(PRECISIONS))
def test_a_quantile_in_coarser_bins_is_within_half_a_bin(
    rows: list[tuple[int, int, int]], bits: int
) -> None:
    found = coarser(tallied(rows), bits)
    for key, values in zip(found.key.tolist(), quantiles(found, TENTHS).tolist(), strict=True):
        times = sorted(time for own, time, _ in rows if own == key and time >= 0)
        for share, value in zip(TENTHS, values, strict=True):
            if not times:
                assert value == -1
                continue
            high = times[int(np.ceil(share * (len(times) - 1)))]
            assert abs(value - exact(times, share)) <= 0.5 + high / 2 ** (bits + 1) + high / 2**50


def test_more_cells_than_there_is_room_for_become_coarser_ones() -> None:
    times = np.arange(1, MOST_CELLS, dtype=np.int64) * 1000
    halves = [tally(np.zeros(len(some), np.int64), some) for some in (times, times + 500)]
    assert [half.bits for half in halves] == [PRECISIONS[0]] * 2
    whole = merged(halves)
    assert whole.bits == PRECISIONS[1]
    assert len(whole.cells) <= MOST_CELLS
    expected = np.quantile(np.concatenate([times, times + 500]), TENTHS)
    assert np.allclose(quantiles(whole, TENTHS)[0], expected, rtol=2**-13, atol=1)
    longer = np.repeat(times, 20)
    assert tally(np.zeros(len(longer), np.int64), longer).bits == PRECISIONS[2]


@given(st.lists(ROWS, min_size=1))
def test_merging_parts_is_counting_at_once(parts: list[list[tuple[int, int, int]]]) -> None:
    whole = tallied([row for part in parts for row in part])
    assert lists(merged([tallied(part) for part in parts])) == lists(whole)
    assert lists(merged([whole])) == lists(whole)


@given(ROWS, st.sets(st.integers(0, 40)))
def test_the_tally_of_some_keys_is_that_of_their_rows(
    rows: list[tuple[int, int, int]], wanted: set[int]
) -> None:
    of = tallied(rows)
    keys = sorted(wanted & set(of.key.tolist()))
    some = [(keys.index(key), time, measure) for key, time, measure in rows if key in wanted]
    assert lists(chosen(of, np.searchsorted(of.key, keys))) == lists(tallied(some))


def test_few_and_many_cells_are_counted_alike() -> None:
    bits = PRECISIONS[-1]
    times = np.tile(np.geomspace(1, 9e17, 200).astype(np.int64), 5)
    for keys, is_dense in ((np.zeros(1000, np.int64), True), (np.arange(1000) % 200, False)):
        found = tally(keys, times)
        found = coarser(found, bits)
        assert (np.ptp(found.cells) <= DENSE * len(times)) == is_dense
        own = keys * bin_count(bits) + bins_of(times, bits)
        cells, counts = np.unique(own, return_counts=True)
        assert found.cells.tolist() == cells.tolist()
        assert found.counts.tolist() == counts.tolist()


@pytest.mark.parametrize("bits", PRECISIONS)
def test_a_key_has_at_most_as_many_cells_as_there_are_bins(bits: int) -> None:
    exact = 1 << (bits + 1)
    found = bins_of(np.array([0, exact - 1, exact, MOST]), bits).tolist()
    assert found == [0, exact - 1, exact, bin_count(bits) - 1]
