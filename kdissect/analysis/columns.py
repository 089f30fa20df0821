"""Arrow columns as numpy arrays, and rows by group."""

from collections.abc import Callable, Iterator
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


def text_groups(
    batch: pa.RecordBatch, name: str
) -> Iterator[tuple[str | None, npt.NDArray[np.intp]]]:
    """The texts of a column, each with the numbers of its rows; None is one of them.

    A text that stands twice in a dictionary comes twice, with different rows.
    """
    column = batch.column(name)
    if not isinstance(column, pa.DictionaryArray):
        column = column.dictionary_encode()
    words = [*column.dictionary.to_pylist(), None]
    codes = pc.fill_null(column.indices, len(words) - 1).to_numpy(zero_copy_only=False)
    for code, rows in groups(codes):
        yield words[code], rows


def groups(values: npt.NDArray[Any]) -> Iterator[tuple[Any, npt.NDArray[np.intp]]]:
    """Every different value with the numbers of its rows."""
    if not len(values):
        return
    keys, codes = _encoded(values)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    edges = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    starts = [0, *edges.tolist()]
    for start, rows in zip(starts, np.split(order, edges), strict=True):
        yield keys(int(ordered[start])), rows


def _encoded(values: npt.NDArray[Any]) -> tuple[Callable[[int], Any], npt.NDArray[Any]]:
    """Numbers in place of the values, and what each number stands for.

    16 bits when they will do: numpy sorts those by radix, ten times as fast.
    """
    if values.dtype == object:
        known: dict[Any, int] = {}
        codes = np.fromiter((known.setdefault(value, len(known)) for value in values), np.int64)
        return list(known).__getitem__, codes
    lowest = int(values.min())
    if int(values.max()) - lowest <= np.iinfo(np.uint16).max:
        return lambda code: code + lowest, (values - lowest).astype(np.uint16)
    return lambda code: code, values
