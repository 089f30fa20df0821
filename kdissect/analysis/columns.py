"""Arrow columns as numpy arrays, and rows by group."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def integers(batch: pa.RecordBatch, name: str, null: int) -> npt.NDArray[np.int64]:
    """An integer column as int64 with `null` in place of nulls."""
    column = batch.column(name)
    if column.null_count:
        column = pc.fill_null(column, null)
    values: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def times(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    """A timestamp column as ns since 1970; nulls are left out, so it may be shorter."""
    column = batch.column(name).drop_null().cast(pa.int64())
    values: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False)
    return values


def texts(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.object_]:
    """A text column, dictionary or not, as str and None."""
    column = batch.column(name)
    if isinstance(column, pa.DictionaryArray):
        # One str per dictionary entry, not per row.
        words = np.array([*column.dictionary.to_pylist(), None], dtype=object)
        codes = pc.fill_null(column.indices, len(words) - 1)
        chosen: npt.NDArray[np.object_] = words[codes.to_numpy(zero_copy_only=False)]
        return chosen
    values: npt.NDArray[np.object_] = column.to_numpy(zero_copy_only=False)
    return values


def is_set(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.bool_]:
    """Where a column is not null."""
    valid: npt.NDArray[np.bool_] = batch.column(name).is_valid().to_numpy(zero_copy_only=False)
    return valid


def groups(values: npt.NDArray[Any]) -> Iterator[tuple[Any, npt.NDArray[np.intp]]]:
    """Every different value with the numbers of its rows, in order of first appearance."""
    if not len(values):
        return
    if values.dtype == object:
        codes: dict[Any, int] = {}
        numbers = np.fromiter((codes.setdefault(value, len(codes)) for value in values), np.int64)
        keys: list[Any] = list(codes)
    else:
        found, numbers = np.unique(values, return_inverse=True)
        keys = list(found)
    order = np.argsort(numbers, kind="stable")
    edges = np.flatnonzero(np.diff(numbers[order])) + 1
    yield from zip(keys, np.split(order, edges), strict=True)
