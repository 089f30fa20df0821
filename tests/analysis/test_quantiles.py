"""Quantiles of histograms over windows, and how far their bounds can be trusted."""

import numpy as np
import pytest

from kdissect.analysis.compare.quantiles import Bins, ends_of, side_bounds, slower
from kdissect.analysis.compare.significance import Windows, difference_bounds
from tests.analysis.processes import Array, latencies

SECONDS = 600
WINDOWS = 20
TRIALS = 150
ONE = np.array([True])


def bins_like(sent: Array, latency: Array) -> Bins:
    """The histogram of one group, in bins of three digits."""
    values = (latency * 1e7).astype(np.int64)
    bins = values - values % 10 ** np.maximum(np.floor(np.log10(values)).astype(np.int64) - 2, 0)
    order = np.argsort(bins, kind="stable")
    at = (sent * 2 * WINDOWS // SECONDS).astype(np.int64)
    return Bins(np.zeros(len(at), np.int64), at[order], np.ones(len(at)), bins[order])


def bounds_of(sent: Array, latency: Array, share: float) -> tuple[float, float]:
    """Bounds of the difference between the quantiles of both halves."""
    bins = bins_like(sent, latency)
    n = bins.grid(1, 2 * WINDOWS)
    x = slower(bins, bins.bin[bins.places(np.array([share]))], n.shape)
    counts = Windows(x, n, WINDOWS)
    sides = []
    for side in (0, 1):
        own = latency[(sent >= SECONDS / 2) == bool(side)] * 1e7
        bounds = side_bounds(bins, side, share, n, counts, ONE)
        sides.append((np.array([np.quantile(own, share)]), *bounds))
    low, high = difference_bounds(sides[0], sides[1])
    return float(low[0]), float(high[0])


@pytest.mark.slow
@pytest.mark.parametrize("memory_s", [0.5, 5, 15])
def test_bounds_hold_the_truth_as_often_as_they_say(memory_s: float) -> None:
    random = np.random.default_rng(9)
    held: dict[float, list[bool]] = {0.5: [], 0.9: []}
    for _ in range(TRIALS):
        sent, latency = latencies(random, SECONDS, memory_s)
        for share, found in held.items():
            low, high = bounds_of(sent, latency, share)
            if not np.isnan(low):
                found.append(low <= 0 <= high)  # both halves are of one process
    assert len(held[0.5]) == TRIALS
    assert np.mean(held[0.5]) >= 0.91
    assert np.mean(held[0.9]) >= 0.88


def test_bounds_that_rest_on_a_few_slow_windows_are_not_told() -> None:
    random = np.random.default_rng(3)
    sent = np.sort(random.random(12_000) * SECONDS)
    latency = random.lognormal(0, 0.3, 12_000)
    in_one_window = (sent > 70) & (sent < 73)
    latency = np.where(in_one_window, latency * 100, latency)
    low, high = bounds_of(sent, latency, 0.5)
    assert -2e6 < low < high < 2e6
    assert np.isnan(bounds_of(sent, latency, 0.99)).all()


def test_places_are_those_of_the_rank_in_each_group() -> None:
    bins = Bins(
        np.array([0, 0, 0, 1, 1]), np.zeros(5, np.int64), np.array([1.0, 2, 1, 9, 1]),
        np.array([10, 20, 30, 5, 50]),
    )  # fmt: skip
    found = {
        share: bins.bin[bins.places(np.full(2, share))].tolist() for share in (0, 0.5, 0.75, 1)
    }
    assert found == {0: [10, 5], 0.5: [20, 5], 0.75: [20, 5], 1: [30, 50]}


def test_half_of_a_bin_is_above_it() -> None:
    bins = Bins(
        np.zeros(3, np.int64), np.array([0, 1, 1]), np.array([4.0, 3, 2]), np.array([7, 7, 8])
    )
    assert slower(bins, np.array([7]), (1, 2)).tolist() == [[2, 3.5]]


def test_bins_end_where_the_next_begins() -> None:
    bins = np.array([0, 9, 999, 1000, 1010, 12_300, 9_220_000_000_000])
    assert ends_of(bins).tolist() == [0, 9, 999, 1009, 1019, 12_399, 9_229_999_999_999]
