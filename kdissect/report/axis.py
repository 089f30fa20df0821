"""Bins of a page: time bins of a round width, and logarithmic bins of durations."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from kdissect.analysis.summary.summary import Summary
from kdissect.tables.matrices import Ints

MOST_BINS: Final = 600
MS: Final = 1_000_000
# Round widths in ms: each up to a day, then multiples of days.
WIDTHS_MS: Final = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000,
    120_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000, 43_200_000,
    86_400_000,
)  # fmt: skip
# Bins of a heat map: 8 a decade, so that a bin ends 33 % above its start; 1 µs to 1 000 s.
PER_DECADE: Final = 8
LOWEST_NS: Final = 1_000
DECADES: Final = 9
LATENCY_BINS: Final = PER_DECADE * DECADES


@dataclass(frozen=True, slots=True)
class Axis:
    """Time bins: `count` of `width_ns` from `start_ns`, a multiple of the width since 1970."""

    start_ns: int
    width_ns: int
    count: int

    def places(self, times: Ints) -> Ints:
        """The bin of each time; times outside count at the ends."""
        found: Ints = np.clip((times - self.start_ns) // self.width_ns, 0, self.count - 1)
        return found

    def place(self, time_ns: int) -> int:
        """The bin of one time."""
        return min(max((time_ns - self.start_ns) // self.width_ns, 0), self.count - 1)

    @property
    def end_ns(self) -> int:
        """The end of the last bin."""
        return self.start_ns + self.count * self.width_ns


def axis_of(first_ns: int, last_ns: int, most: int = MOST_BINS) -> Axis:
    """The narrowest round bins of which `most` cover these times.

    >>> axis_of(1_000_000_000, 19_000_000_000)
    Axis(start_ns=1000000000, width_ns=50000000, count=361)
    """
    for width in _widths(last_ns - first_ns, most):
        start = first_ns // width * width
        count = (last_ns - start) // width + 1
        if count <= most:
            break
    return Axis(start, width, count)


def latency_bins(durations: Ints) -> Ints:
    """The bin of each positive duration; shorter and longer ones are in the first and last."""
    exponents = np.log10(np.maximum(durations, 1) / LOWEST_NS) * PER_DECADE
    bins: Ints = np.clip(np.floor(exponents), 0, LATENCY_BINS - 1).astype(np.int64)
    return bins


def _widths(span_ns: int, most: int) -> list[int]:
    days = WIDTHS_MS[-1] * MS
    return [width * MS for width in WIDTHS_MS] + [days * (span_ns // (days * most) + 2)]


def span(summary: Summary) -> tuple[int, int]:
    """The first and last time of a page, in ns since 1970."""
    return summary.totals.first_time_ns or 0, summary.totals.last_time_ns or 0
