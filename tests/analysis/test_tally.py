"""Tallies beside what Python counts in the same rows."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kdissect.analysis.tally import BINS, DENSE, Tally, bins_of, chosen, merged, quantiles, tally

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
    return [column.tolist() for column in of]


def exact(times: Sequence[int], share: float) -> int:
    return sorted(times)[max(1, int(np.ceil(share * len(times)))) - 1]


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
def test_a_quantile_is_within_one_256th_of_the_exact_one(rows: list[tuple[int, int, int]]) -> None:
    found = tallied(rows)
    for key, values in zip(found.key.tolist(), quantiles(found, TENTHS).tolist(), strict=True):
        times = [time for own, time, _ in rows if own == key and time >= 0]
        for share, value in zip(TENTHS, values, strict=True):
            if times:
                assert abs(value - exact(times, share)) * 256 <= exact(times, share)
            else:
                assert value == -1


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
    times = np.tile(np.geomspace(1, 9e17, 200).astype(np.int64), 5)
    for keys, is_dense in ((np.zeros(1000, np.int64), True), (np.arange(1000) % 200, False)):
        found = tally(keys, times)
        assert (np.ptp(found.cells) <= DENSE * len(times)) == is_dense
        cells, counts = np.unique(keys * BINS + bins_of(times), return_counts=True)
        assert found.cells.tolist() == cells.tolist()
        assert found.counts.tolist() == counts.tolist()


def test_a_key_has_at_most_as_many_cells_as_there_are_bins() -> None:
    assert bins_of(np.array([0, 255, 256, MOST])).tolist() == [0, 255, 256, BINS - 1]
