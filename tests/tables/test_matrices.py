"""Matrices are turned around, and their memory is used again when they are released."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.tables import matrices
from kdissect.tables.batches import numbers
from kdissect.tables.matrices import KEPT, LARGE, Memory


@pytest.mark.parametrize("rows", [0, 1, 511, 512, 513, 1500, LARGE])
def test_rows_are_turned_into_columns(rows: int) -> None:
    by_row = np.arange(rows * 3, dtype=np.int64).reshape(rows, 3)
    memory = Memory()
    for _ in range(3):
        assert (memory.turned(by_row) == by_row.T).all()


def test_memory_is_used_again_when_the_last_column_is_gone() -> None:
    memory = Memory()
    by_column = memory.turned(np.ones((LARGE, 2), np.int64))
    column = numbers(by_column[1], pa.int64())
    where = by_column.ctypes.data
    del by_column
    assert memory.turned(np.zeros((LARGE, 2), np.int64)).ctypes.data != where
    assert column.to_pylist() == [1] * LARGE
    del column
    assert memory.turned(np.zeros((LARGE, 2), np.int64)).ctypes.data == where


def test_no_more_is_kept_than_the_limit() -> None:
    memory = Memory()
    held = [memory.take(LARGE) for _ in range(KEPT + 3)]
    assert len(memory.kept) == KEPT
    assert len({one.ctypes.data for one in held}) == KEPT + 3


@given(st.data())
def test_referenced_matrices_never_change(data: st.DataObject) -> None:
    """Buffers can be released in any order."""
    memory = Memory()
    held: list[tuple[int, Any]] = []
    with patch.object(matrices, "LARGE", 4):
        for number in range(data.draw(st.integers(1, 30))):
            size = data.draw(st.integers(1, 12))
            column = memory.turned(np.full((size, 2), number, np.int64))[number % 2]
            is_arrow = data.draw(st.booleans())
            held.append((number, numbers(column, pa.int64()) if is_arrow else column))
            del column
            while held and data.draw(st.booleans()):
                del held[data.draw(st.integers(0, len(held) - 1))]
            for known, one in held:
                assert set(one.tolist()) == {known}
