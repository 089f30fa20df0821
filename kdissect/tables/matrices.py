"""Transpose rows to columns in reused memory.

The kernel clears memory that is new to a process page by page, which takes longer than writing
the columns.
"""

import sys
from typing import Any, Final

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]

BLOCK_ROWS: Final = 512  # of 31 columns: 127 KB, which stays in the cache of a core
# malloc has smaller ones at hand.
LARGE: Final = 1 << 17  # integers
# As many as wait for a row group of a Parquet file, two for each batch, and those of one more.
KEPT: Final = 10


def references(matrices: list[Ints], index: int) -> int:
    """Reference count of a list: each object made of it, Arrow arrays too, holds one reference."""
    return sys.getrefcount(matrices[index])


# Count of an unused list; depends on the interpreter.
UNUSED: Final = references([np.empty(1, np.int64)], 0)


class Memory:
    """Allocates matrices; reuses those without referenced columns."""

    def __init__(self) -> None:
        self.kept: list[Ints] = []

    def turned(self, by_row: Ints) -> Ints:
        """Transpose the matrix so that columns are contiguous.

        Works block by block, as a column of the whole matrix touches every cache line of it.
        """
        by_column = self.take(by_row.size).reshape(by_row.shape[::-1])
        for start in range(0, len(by_row), BLOCK_ROWS):
            by_column[:, start : start + BLOCK_ROWS] = by_row[start : start + BLOCK_ROWS].T
        return by_column

    def take(self, size: int) -> Ints:
        """Return so many integers with arbitrary values."""
        if size < LARGE:
            return np.empty(size, np.int64)
        for index in range(len(self.kept)):
            if references(self.kept, index) == UNUSED and len(self.kept[index]) >= size:
                return self.kept[index][:size]
        # The next batch has slightly more or fewer rows.
        made = np.empty(size + size // 16, np.int64)
        self.kept.append(made)
        if len(self.kept) > KEPT:
            del self.kept[0]
        return made[:size]
