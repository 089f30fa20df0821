"""Transpose rows to columns in memory that the next batch reuses.

The kernel clears memory that is new to a process page by page, which takes longer than writing
the columns.
"""

from typing import Any, Final

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]

BLOCK_ROWS: Final = 512  # of 31 columns: 127 KB, which stays in the cache of a core
# Integers of a matrix that is kept: one and a half times those of a batch of connections.
LARGEST: Final = 1 << 22


class Memory:
    """Memory for the matrices of one batch at a time; tables of a run share it."""

    def __init__(self) -> None:
        self.kept: dict[int, Ints] = {}

    def turned(self, by_row: Ints, place: int = 0) -> Ints:
        """Transpose the matrix so that columns are contiguous.

        They are overwritten by the next one at the same `place`. Works block by block, as a column
        of the whole matrix touches every cache line of it.
        """
        by_column = self._take(by_row.size, place).reshape(by_row.shape[::-1])
        for start in range(0, len(by_row), BLOCK_ROWS):
            by_column[:, start : start + BLOCK_ROWS] = by_row[start : start + BLOCK_ROWS].T
        return by_column

    def _take(self, size: int, place: int) -> Ints:
        """Return so many integers with arbitrary values."""
        if size > LARGEST:
            return np.empty(size, np.int64)
        kept = self.kept.get(place)
        if kept is None or len(kept) < size:
            # The next batch has slightly more or fewer rows.
            kept = self.kept[place] = np.empty(size + size // 16, np.int64)
        return kept[:size]
