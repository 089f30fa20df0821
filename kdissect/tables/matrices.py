"""Rows turned into columns, in memory that is used again.

Memory that is new to a process is cleared by the kernel page by page, which takes longer than what
is written there.
"""

import sys
from typing import Any, Final

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]

BLOCK_ROWS: Final = 512  # of 31 columns: 127 KB, which stays in the cache of a core
# Smaller ones malloc has at hand.
LARGE: Final = 1 << 17  # integers
# As many as wait for a row group of a Parquet file, two for each batch, and those of one more.
KEPT: Final = 10


def references(matrices: list[Ints], index: int) -> int:
    """How many there are to one of a list: whatever is made of it, Arrow's arrays too, has one."""
    return sys.getrefcount(matrices[index])


# To one that nobody uses; that depends on the interpreter.
UNUSED: Final = references([np.empty(1, np.int64)], 0)


class Memory:
    """Gives matrices; those of which no column is left it gives again."""

    def __init__(self) -> None:
        self.kept: list[Ints] = []

    def turned(self, by_row: Ints) -> Ints:
        """The matrix turned around, so that columns lie in one piece.

        Block by block, as a column of the whole matrix touches every cache line of it.
        """
        by_column = self.take(by_row.size).reshape(by_row.shape[::-1])
        for start in range(0, len(by_row), BLOCK_ROWS):
            by_column[:, start : start + BLOCK_ROWS] = by_row[start : start + BLOCK_ROWS].T
        return by_column

    def take(self, size: int) -> Ints:
        """So many integers, of whatever value."""
        if size < LARGE:
            return np.empty(size, np.int64)
        for index in range(len(self.kept)):
            if references(self.kept, index) == UNUSED and len(self.kept[index]) >= size:
                return self.kept[index][:size]
        # The next batch has a few more rows, or less.
        made = np.empty(size + size // 16, np.int64)
        self.kept.append(made)
        if len(self.kept) > KEPT:
            del self.kept[0]
        return made[:size]
