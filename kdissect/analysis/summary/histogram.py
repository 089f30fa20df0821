"""A histogram of durations whose quantiles are off by at most 1/256 (0.4 %) of the value.

Log-linear, like HdrHistogram: values below 256 ns have a counter each; every further power of two
is cut into 128 counters of equal width. 64-bit values need at most 7 296 counters, so memory does
not grow with the number of values.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

SUB_BITS: Final = 7


class Histogram:
    """Counts int64 values; negative ones count as 0."""

    def __init__(self) -> None:
        self._counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.count = 0
        self.total = 0.0
        self.minimum = 0
        self.maximum = 0

    def add(self, values: npt.NDArray[np.int64]) -> None:
        """Count `values`."""
        if not len(values):
            return
        values = np.maximum(values, 0)
        low, high = int(values.min()), int(values.max())
        self.minimum = low if not self.count else min(self.minimum, low)
        self.maximum = max(self.maximum, high)
        self.count += len(values)
        self.total += float(values.sum(dtype=np.float64))  # int64 could wrap
        self._grow(np.bincount(_indices(values)))

    def merge(self, other: "Histogram") -> None:
        """Count everything that `other` counted."""
        if not other.count:
            return
        self.minimum = other.minimum if not self.count else min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)
        self.count += other.count
        self.total += other.total
        self._grow(other._counts)

    def quantile(self, q: float) -> int | None:
        """The value at rank ceil(`q` * count), within 1/256 of it; None without values."""
        if not self.count:
            return None
        rank = max(1, int(np.ceil(q * self.count)))
        index = int(np.searchsorted(np.cumsum(self._counts), rank))
        return min(max(_middle(index), self.minimum), self.maximum)

    def _grow(self, counts: npt.NDArray[np.int64]) -> None:
        if len(counts) > len(self._counts):
            self._counts, counts = counts.astype(np.int64), self._counts
        self._counts[: len(counts)] += counts


def _indices(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    # frexp rounds above 2^53 and may say one power too much for a value just below it; the index
    # is the same then: (shift << 7) + 127 == ((shift - 1) << 7) + 255.
    exponents = np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1
    shifts = np.maximum(exponents - SUB_BITS, 0)
    return (shifts << SUB_BITS) + (values >> shifts)


def _middle(index: int) -> int:
    shift = max(0, (index >> SUB_BITS) - 1)
    low = (index - (shift << SUB_BITS)) << shift
    return low + ((1 << shift) - 1) // 2
