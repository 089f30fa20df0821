"""False positives occur at the stated rate; real differences are found."""

import doctest

import numpy as np
import pytest

from kdissect.analysis.compare import significance
from kdissect.analysis.compare.significance import (
    ROUND,
    Windows,
    design_effect,
    difference_bounds,
    effective,
    false_discovery,
    inflation,
    p_values,
    wilson,
)
from tests.analysis.processes import Array, latencies, rank_test, slower_ones

SECONDS = 600  # half of it before; windows of 15 s
WINDOWS = 20
TRIALS = 200
SHARES = (0.5, 0.9, 0.99)


def tried(memory_s: float, factor: float, seed: int = 5) -> tuple[dict[float, Array], float]:
    """p of p50, p90 and p99 in each trial, and how often the rank test sees a difference."""
    random = np.random.default_rng(seed)
    rows: dict[float, list[Windows]] = {share: [] for share in SHARES}
    seen = 0
    for _ in range(TRIALS):
        sent, latency = latencies(random, SECONDS, memory_s)
        is_after = sent >= SECONDS / 2
        latency = np.where(is_after, latency * factor, latency)
        seen += abs(rank_test(latency[~is_after], latency[is_after])) > 1.96
        for share, found in rows.items():
            found.append(slower_ones(sent, latency, SECONDS, WINDOWS, share))
    return {share: p_values(stacked(found)) for share, found in rows.items()}, seen / TRIALS


def stacked(rows: list[Windows]) -> Windows:
    return Windows(np.vstack([row.x for row in rows]), np.vstack([row.n for row in rows]), WINDOWS)


@pytest.mark.slow
@pytest.mark.parametrize("memory_s", [0.5, 2, 5, 15])
def test_two_halves_of_the_same_process_differ_at_the_stated_rate(memory_s: float) -> None:
    found, naive = tried(memory_s, factor=1)
    rates = {share: float(np.mean(p <= 0.05)) for share, p in found.items()}
    # 5 % of 200 trials are 10; three standard errors more are 19.
    assert max(rates.values()) <= 0.095, rates
    assert sum(rates.values()) / 3 <= 0.07
    assert naive > 0.5  # treating exchanges as independent is wrong more often than right


@pytest.mark.slow
def test_a_third_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(significance, "MOST_ROUNDS", 1)
    found, _ = tried(0.5, factor=1.35)
    assert np.mean(found[0.5] <= 0.05) == 1
    assert np.mean(found[0.9] <= 0.05) > 0.95


@pytest.mark.slow
def test_twice_as_slow_is_found_in_spite_of_slow_spells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(significance, "MOST_ROUNDS", 1)
    found, _ = tried(5, factor=2)
    assert np.mean(found[0.5] <= 0.05) > 0.98
    assert np.mean(found[0.9] <= 0.05) > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("memory_s", [0.5, 15])
def test_pairs_of_the_same_time_keep_the_rate_and_find_more(
    memory_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(significance, "MOST_ROUNDS", 1)
    for factor, share_found in ((1.0, None), (1.2, 0.97)):
        random = np.random.default_rng(4)
        found = []
        for _ in range(TRIALS):
            sent, latency = latencies(random, SECONDS // 2, memory_s)
            is_other = random.random(len(sent)) < 0.4
            latency = np.where(is_other, latency * factor, latency)
            # The other client's exchanges as if they came later: the same windows once more.
            moved = np.where(is_other, sent + SECONDS / 2, sent)
            found.append(slower_ones(moved, latency, SECONDS, WINDOWS, 0.5))
        paired = p_values(stacked(found)._replace(is_paired=True))
        apart = p_values(stacked(found))
        if share_found is None:
            assert np.mean(paired <= 0.05) <= 0.09
            assert np.mean(apart <= 0.05) <= 0.01  # what both share is taken for noise
        else:
            assert np.mean(paired <= 0.05) >= share_found
            assert np.mean(paired <= 0.05) >= np.mean(apart <= 0.05)


def test_pairs_that_differ_alike_in_every_window_are_no_chance() -> None:
    spells = [[1.0, 9, 2, 8, 3, 7, 2, 9, 1, 8]]
    slower = [[value + 1 for value in spells[0]]]
    (apart,) = p_values(rows(spells, slower, n=100))
    (paired,) = p_values(rows(spells, slower, n=100)._replace(is_paired=True))
    assert apart > 0.3
    assert paired == pytest.approx(2 / 2**10, rel=0.4)


def rows(before: list[list[float]], after: list[list[float]], n: float = 10) -> Windows:
    x = np.hstack([np.array(before, float), np.array(after, float)])
    return Windows(x, np.full(x.shape, n), len(before[0]))


def test_one_slow_second_counts_as_one() -> None:
    one_window = [10.0] + [0.0] * 9
    (p,) = p_values(rows([[0.0] * 10], [one_window]))
    assert p > 0.9


def test_a_value_in_every_window_of_one_side_is_significant() -> None:
    (p,) = p_values(rows([[0.0] * 10], [[1.0, 2.0] * 5]))
    assert p <= 1e-4
    (p,) = p_values(rows([[10.0] * 10], [[0.0] * 10]))  # no spread at all
    assert p <= 1e-4


def test_the_same_is_never_a_difference() -> None:
    assert p_values(rows([[3.0] * 6], [[3.0] * 6])).tolist() == [1.0]


def test_few_windows_cannot_prove_much() -> None:
    # Ten windows are divided in 252 ways; two of them are as extreme as this.
    (p,) = p_values(rows([[0.0] * 5], [[10.0] * 5]))
    assert p == pytest.approx(2 / 252, rel=0.4)


def test_p_is_the_same_alone_and_among_others_and_every_time() -> None:
    random = np.random.default_rng(1)
    x = random.poisson(3, (600, 24)).astype(float)
    many = Windows(x, np.full(x.shape, 20.0), 12)
    alone = [p_values(Windows(x[row : row + 1], many.n[row : row + 1], 12))[0] for row in (0, 599)]
    found = p_values(many)
    assert [found[0], found[599]] == alone
    assert (found == p_values(many)).all()
    assert found.min() > 1 / (ROUND * significance.MOST_ROUNDS + 2)


def test_neighbours_that_are_alike_widen_the_spread() -> None:
    wave = [0.0] * 5 + [9.0] * 5
    zigzag = [0.0, 9.0] * 5
    found = inflation(rows([wave, zigzag, [3.0] * 10], [wave, zigzag, [3.0] * 10]))
    # r of the wave: 7 of 10 products are like their squares, and 1 / 10 for the bias.
    assert found.tolist() == pytest.approx([(1 + 0.8) / (1 - 0.8), 1, 1])


def test_false_discovery_is_that_of_benjamini_and_hochberg() -> None:
    # The example of their paper (1995), table 1; four of them are found at 0.05.
    p = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
        0.5719, 0.6528, 0.7590, 1.0000,
    ]  # fmt: skip
    q = false_discovery(np.array(p))
    assert (q <= 0.05).sum() == 4
    assert q[:4].tolist() == pytest.approx([0.0015, 0.003, 0.0095, 0.035625])
    assert false_discovery(np.array([0.9, 0.01])).tolist() == [0.9, 0.02]


def test_windows_with_nothing_do_not_count_as_windows() -> None:
    n = np.array([[5.0, 5, 5, 0, 0], [25, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    assert effective(n).tolist() == [3, 1, 0]


def test_a_spread_of_independent_exchanges_has_no_design_effect() -> None:
    random = np.random.default_rng(2)
    n = np.full((1, 400), 50.0)
    fair = random.binomial(50, 0.2, (1, 400)).astype(float)
    together = 50.0 * (random.random((1, 400)) < 0.2)
    assert design_effect(fair, n, np.array([0.2]))[0] == pytest.approx(1, abs=0.15)
    assert design_effect(together, n, np.array([0.2]))[0] == pytest.approx(50, rel=0.15)


def test_bounds_are_those_of_wilson_and_newcombe() -> None:
    # Newcombe (1998): 56 of 70 and 48 of 80, Wilson 0.6918 to 0.8766 and so on; the difference
    # by his method 10 is 0.0524 to 0.3339.
    shares, counts = np.array([56 / 70, 48 / 80]), np.array([70.0, 80.0])
    low, high = wilson(shares, counts, 1.959964)
    found = difference_bounds((shares[1:], low[1:], high[1:]), (shares[:1], low[:1], high[:1]))
    assert [value[0] for value in found] == pytest.approx([0.0524, 0.3339], abs=1e-4)


def test_the_examples_hold() -> None:
    assert doctest.testmod(significance).failed == 0
