"""Significance of a difference between two time ranges, when exchanges come in bursts.

Every measure here is a ratio of two sums over time windows: exchanges slower than a threshold to
all exchanges, errors to requests, bytes to seconds. Arrays are rows × windows, the windows of the
before side first. docs/decisions/compare.md gives the reasons and the measurements.
"""

from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

SEED: Final = 20_110_111  # the same captures give the same result
ROUND: Final = 1_000  # permutations per round
MOST_ROUNDS: Final = 50  # so p is at least 1 / 50 001
AT_ONCE: Final = 256  # rows: 256 * 1 000 * 5 sums are 10 MB
ENOUGH: Final = 50  # draws as extreme as the observation: p is precise enough
STRONGEST: Final = 0.9  # upper bound of the lag-1 autocorrelation
TIE: Final = 1 - 1e-9  # sums in another order differ in their last bits


class Windows(NamedTuple):
    """Rows of numerators `x` and denominators `n`, the first `before` windows of one side.

    `is_paired`: both sides have equally many, and the same index is the same time.
    """

    x: Array
    n: Array
    before: int
    is_paired: bool = False

    def chosen(self, rows: slice | Flags) -> "Windows":
        """A subset of the rows."""
        return self._replace(x=self.x[rows], n=self.n[rows])

    def side(self, number: int) -> tuple[Array, Array]:
        """Numerators and denominators of before (0) or after (1)."""
        part = slice(0, self.before) if number == 0 else slice(self.before, None)
        return self.x[:, part], self.n[:, part]


def p_values(windows: Windows) -> Array:
    """The probability that chance alone makes as large a difference, one number per row.

    Windows are permuted between the sides, paired ones with each other; the difference of the
    two ratios is divided by its standard error, estimated from their spread over the windows and
    widened by the autocorrelation. Drawing ends for a row when `ENOUGH` draws were as extreme as
    the observation.
    """
    starts = range(0, len(windows.x), AT_ONCE)
    parts = [drawn_p(windows.chosen(slice(start, start + AT_ONCE))) for start in starts]
    return np.concatenate([np.zeros(0), *parts])


def drawn_p(windows: Windows) -> Array:
    """The same for rows that fit into memory; all of them use the same draws."""
    generator = np.random.default_rng(SEED)
    count = windows.x.shape[1]
    is_after = (np.arange(count) >= windows.before).astype(np.float64)
    powers = power_sums(windows)
    seen = statistics(is_after[None, :], powers)[0] / np.sqrt(inflation(windows))
    extreme = np.zeros(len(seen))
    drawn = np.zeros(len(seen))
    left = np.arange(len(seen))
    for _ in range(MOST_ROUNDS):
        if not len(left):
            break
        found = statistics(draws(generator, is_after, windows.is_paired), powers[:, left])
        extreme[left] += (found >= seen[left] * TIE).sum(0)
        drawn[left] += ROUND
        left = left[extreme[left] < ENOUGH]
    found_p: Array = (extreme + 1) / (drawn + 1)
    return found_p


def draws(generator: np.random.Generator, is_after: Array, is_paired: bool) -> Array:
    """The windows assigned to the after side, for one round of draws."""
    if not is_paired:
        return generator.permuted(np.tile(is_after, (ROUND, 1)), axis=1)
    are_swapped = generator.integers(0, 2, (ROUND, len(is_after) // 2)).astype(np.float64)
    return np.hstack([are_swapped, 1 - are_swapped])


def power_sums(windows: Windows) -> Array:
    """Per-window terms of the statistic: five values, so sides are sums of them.

    With pairs three more: products with the other window of the pair.
    """
    x, n = windows.x, windows.n
    own = [x, n, x * x, x * n, n * n]
    if windows.is_paired:
        other_x, other_n = (np.roll(values, windows.before, axis=1) for values in (x, n))
        own += [x * other_x, x * other_n, n * other_n]
    return np.stack(own)


def statistics(is_after: Array, powers: Array) -> Array:
    """|difference of the ratios| / standard error: (draws × windows) → (draws × rows)."""
    after = is_after @ powers.transpose(0, 2, 1)
    before = powers.sum(2)[:, None, :] - after
    counts = is_after.sum(1)[0]
    ratio_after, variance_after = ratio_and_variance(after[:5], counts)
    ratio_before, variance_before = ratio_and_variance(before[:5], is_after.shape[1] - counts)
    difference = np.abs(ratio_after - ratio_before)
    variance = variance_after + variance_before
    if len(powers) > 5:
        both, after_x, both_n = after[5:]
        shared = both - ratio_before * after_x - ratio_after * before[6]
        shared += ratio_after * ratio_before * both_n
        scale = counts / max(1.0, counts - 1)
        product = np.maximum(after[1] * before[1], 1e-300)
        left = variance - 2 * shared * scale / product
        variance = np.where(left > 1e-9 * variance, left, 0.0)
    # Both sides without any spread: zero error, so either equal or infinitely far apart.
    found: Array = np.divide(
        difference,
        np.sqrt(variance),
        out=np.where(difference > 1e-12, np.inf, 0.0),
        where=variance > 0,
    )
    return found


def ratio_and_variance(sums: Array, count: float) -> tuple[Array, Array]:
    """Σx / Σn and its variance between windows (the linearised ratio estimator)."""
    x, n, xx, xn, nn = sums
    ratio = np.divide(x, n, out=np.zeros_like(x), where=n > 0)
    spread = xx - 2 * ratio * xn + ratio * ratio * nn
    spread = np.where(spread > 1e-12 * xx, spread, 0.0)  # rounding residue counts as 0
    scale = count / max(1.0, count - 1)
    variance = np.divide(spread * scale, n * n, out=np.zeros_like(x), where=n > 0)
    return ratio, variance


def residuals(x: Array, n: Array) -> Array:
    """Deviation of each window from the ratio of its side."""
    ratio = ratio_of(x, n)
    found: Array = x - ratio[:, None] * n
    return found


def ratio_of(x: Array, n: Array) -> Array:
    """Σx / Σn of each row; 0 where n is 0."""
    total = n.sum(1)
    found: Array = np.divide(x.sum(1), total, out=np.zeros(len(x)), where=total > 0)
    return found


def inflation(windows: Windows) -> Array:
    """Variance inflation by autocorrelation of windows: (1 + r) / (1 - r).

    r is the correlation of adjacent windows, corrected for its bias of 1 / count in short series;
    negative correlation is ignored, so the factor is at least 1.
    """
    rests = [residuals(*windows.side(side)) for side in (0, 1)]
    if windows.is_paired:
        totals = [np.maximum(windows.side(side)[1].sum(1), 1e-300)[:, None] for side in (0, 1)]
        rests = [rests[1] / totals[1] - rests[0] / totals[0]]
    products, squares = np.zeros(len(windows.x)), np.zeros(len(windows.x))
    for rest in rests:
        own = (rest * rest).sum(1)
        products += (rest[:, 1:] * rest[:, :-1]).sum(1) + own / max(1, rest.shape[1])
        squares += own
    likeness = np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)
    likeness = np.clip(likeness, 0, STRONGEST)
    found: Array = (1 + likeness) / (1 - likeness)
    return found


def false_discovery(p: Array) -> Array:
    """Benjamini-Hochberg correction: of the rows with q ≤ 0.05, 5 % are expected to be chance."""
    order = np.argsort(p, kind="stable")
    ranked = p[order] * len(p) / np.arange(1, len(p) + 1)
    found = np.empty(len(p))
    found[order] = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1)
    return found


def effective(n: Array) -> Array:
    """Effective number of windows of equal weight: (Σn)² / Σn²."""
    squares = (n * n).sum(1)
    found: Array = np.divide(n.sum(1) ** 2, squares, out=np.zeros(len(n)), where=squares > 0)
    return found


def design_effect(x: Array, n: Array, share: Array) -> Array:
    """Ratio of the variance over windows to that of independent exchanges."""
    rest = x - share[:, None] * n
    count = x.shape[1]
    expected = share * (1 - share) * n.sum(1)
    spread = (rest * rest).sum(1) * count / max(1, count - 1)
    found = np.divide(spread, expected, out=np.ones(len(x)), where=expected > 0)
    widened: Array = np.maximum(found, 1)
    return widened


def wilson(share: Array, count: Array, times: float) -> tuple[Array, Array]:
    """Wilson interval of a share of `count` independent items, `times` standard errors wide."""
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = times * times / count
        centre = (share + weight / 2) / (1 + weight)
        half = times / (1 + weight) * np.sqrt(share * (1 - share) / count + weight / (4 * count))
    low = np.where(count > 0, np.clip(centre - half, 0, 1), 0.0)
    high = np.where(count > 0, np.clip(centre + half, 0, 1), 1.0)
    return low, high


def t_quantile(share: float, freedom: int) -> float:
    """Quantile of Student's t, by the first terms of its expansion around the normal quantile.

    >>> round(t_quantile(0.975, 38), 3), round(t_quantile(0.975, 8), 2)
    (2.024, 2.31)
    """
    z, v = NormalDist().inv_cdf(share), max(freedom, 1)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / v + second / v**2 + third / v**3


def difference_bounds(
    before: tuple[Array, Array, Array], after: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
    """Bounds of after - before from the value and bounds of each (Zou and Donner's MOVER)."""
    value_b, low_b, high_b = before
    value_a, low_a, high_a = after
    difference = value_a - value_b
    down = np.hypot(value_a - low_a, high_b - value_b)
    up = np.hypot(high_a - value_a, value_b - low_b)
    return difference - down, difference + up
