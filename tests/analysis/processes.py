"""Latencies as they come: bursts, slow seconds, heavy tails; everything by a seed."""

import numpy as np
import numpy.typing as npt

from kdissect.analysis.compare.significance import Windows

Array = npt.NDArray[np.float64]


def levels(random: np.random.Generator, seconds: int, memory_s: float) -> Array:
    """A level per second that decays to 37 % within `memory_s`; standard deviation 1."""
    kept = np.exp(-1 / memory_s)
    steps = random.normal(size=seconds) * np.sqrt(1 - kept * kept)
    level, found = random.normal(), np.empty(seconds)
    for second, step in enumerate(steps):
        level = kept * level + step
        found[second] = level
    return found


def latencies(
    random: np.random.Generator, seconds: int, memory_s: float, a_second: float = 20
) -> tuple[Array, Array]:
    """Second and latency of each exchange: log-normal around a wandering level, with slow spells.

    One second in 200 begins a spell in which everything takes twelve times as long.
    """
    level = 0.3 * levels(random, seconds, memory_s)
    for start in np.flatnonzero(random.random(seconds) < 0.005):
        level[start : start + random.geometric(1 / max(memory_s, 1.5))] += 2.5
    counts = random.poisson(a_second * np.exp(0.3 * random.normal(size=seconds)))
    sent = np.repeat(np.arange(seconds, dtype=np.float64), counts)
    return sent, np.exp(np.repeat(level, counts) + 0.5 * random.normal(size=len(sent)))


def slower_ones(sent: Array, latency: Array, seconds: int, windows: int, share: float) -> Windows:
    """Exchanges slower than that share of all, by window; half of `seconds` is before."""
    at = (sent * 2 * windows // seconds).astype(np.int64)
    is_slow = latency > np.quantile(latency, share)
    return Windows(
        np.bincount(at, is_slow, minlength=2 * windows)[None, :].astype(np.float64),
        np.bincount(at, minlength=2 * windows)[None, :].astype(np.float64),
        windows,
    )


def rank_test(one: Array, other: Array) -> float:
    """z of the Mann-Whitney test, which takes all for independent."""
    together = np.concatenate([one, other])
    ranks = np.empty(len(together))
    ranks[np.argsort(together)] = np.arange(1, len(together) + 1)
    n, m = len(one), len(other)
    middle, spread = n * (n + m + 1) / 2, np.sqrt(n * m * (n + m + 1) / 12)
    return float((ranks[:n].sum() - middle) / spread)
