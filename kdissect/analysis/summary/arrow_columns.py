"""Arrow columns as numpy arrays, and rows by group.

Reads the buffers, not `to_numpy` or `pyarrow.compute`: the first imports pandas, the second
takes 30 ms of a start-up of 150.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kdissect.protocol.readers import NULL
from kdissect.tables.batches import ints_of


def integers(batch: pa.RecordBatch, name: str, null: int) -> npt.NDArray[np.int64]:
    """An integer column as int64 with `null` in place of nulls."""
    values = ints_of(batch.column(name))
    values[values == NULL] = null
    return values


def times(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    """A timestamp column as ns since 1970; nulls are left out, so it may be shorter."""
    values = ints_of(batch.column(name))
    known: npt.NDArray[np.int64] = values[values != NULL]
    return known


def texts(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.object_]:
    """A text column, dictionary or not, as str and None."""
    column = batch.column(name)
    if isinstance(column, pa.DictionaryArray):
        # One str per dictionary entry, not per row.
        words, codes = _words_and_codes(column)
        return np.array(words, dtype=object)[codes]
    return np.array(column.to_pylist(), dtype=object)


def has_text(batch: pa.RecordBatch, name: str, part: str) -> npt.NDArray[np.bool_]:
    """Mask of the rows whose text column contains a text; nulls do not."""
    column = batch.column(name)
    if isinstance(column, pa.DictionaryArray):
        words, codes = _words_and_codes(column)
    else:
        words = column.to_pylist()
        codes = np.arange(len(words))
    found: npt.NDArray[np.bool_] = np.array([part in (word or "") for word in words], dtype=bool)
    return found[codes]


def has_word(
    batch: pa.RecordBatch, name: str, wanted: Collection[str | None]
) -> npt.NDArray[np.bool_]:
    """The mask of rows whose text is one of some, or null if None is among them."""
    column = batch.column(name)
    if isinstance(column, pa.DictionaryArray):
        words, codes = _words_and_codes(column)
    else:
        words = column.to_pylist()
        codes = np.arange(len(words))
    found: npt.NDArray[np.bool_] = np.array([word in wanted for word in words], dtype=bool)
    return found[codes]


def is_set(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.bool_]:
    """Mask of the rows whose integer, time or text column is not null."""
    column = batch.column(name)
    if isinstance(column, pa.DictionaryArray):
        column = column.indices
    flags: npt.NDArray[np.bool_] = ints_of(column) != NULL
    return flags


def text_groups(
    batch: pa.RecordBatch, name: str
) -> Iterator[tuple[str | None, npt.NDArray[np.intp]]]:
    """The texts of a column, each with the indexes of its rows; None is one of them.

    A text that occurs twice in a dictionary is returned twice, with different rows.
    """
    column = batch.column(name)
    if not isinstance(column, pa.DictionaryArray):
        yield from groups(texts(batch, name))
        return
    words, codes = _words_and_codes(column)
    for code, rows in groups(codes):
        yield words[code], rows


def names_and_places(batch: pa.RecordBatch, name: str) -> tuple[list[str], npt.NDArray[np.intp]]:
    """The texts of a column that occur, "" for null, and each row's place in them."""
    column = batch.column(name)
    encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    words, codes = _words_and_codes(encoded)
    used = np.flatnonzero(np.bincount(codes, minlength=len(words)))
    return [words[code] or "" for code in used.tolist()], np.searchsorted(used, codes)


def groups(values: npt.NDArray[Any]) -> Iterator[tuple[Any, npt.NDArray[np.intp]]]:
    """Each distinct value with the indexes of its rows."""
    if not len(values):
        return
    keys, codes = _encoded(values)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    edges = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    starts = [0, *edges.tolist()]
    # Slices: np.split takes several times as long.
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        yield keys(int(ordered[start])), order[start:stop]


def reduced(
    how: np.ufunc, values: npt.NDArray[np.int64], *keys: npt.NDArray[Any]
) -> tuple[list[tuple[int, ...]], list[int]]:
    """Distinct tuples of integers of the rows, in order, and the values of each reduced to one.

    All at once: a call of numpy for each group takes longer than the group.
    """
    order, starts = grouped(*keys)
    if not len(starts):
        return [], []
    found = zip(*(key[order[starts]].tolist() for key in keys), strict=True)
    return list(found), how.reduceat(values[order], starts).tolist()


def grouped(*keys: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Indexes of the rows, those with the same integers in all columns together and in order.

    The groups are in the order of their integers; also returns where in the indexes each begins.
    """
    order = np.lexsort(keys[::-1])
    is_first = np.zeros(len(order), bool)
    is_first[:1] = True
    for key in keys:
        ordered = key[order]
        is_first[1:] |= ordered[1:] != ordered[:-1]
    return order, is_first.nonzero()[0]


def _words_and_codes(column: pa.DictionaryArray) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """The texts of a dictionary followed by None, and each row's index among those."""
    words = [*column.dictionary.to_pylist(), None]
    codes = ints_of(column.indices)
    codes[codes == NULL] = len(words) - 1
    return words, codes


def _encoded(values: npt.NDArray[Any]) -> tuple[Callable[[int], Any], npt.NDArray[Any]]:
    """Codes in place of the values, and the value of each code.

    16 bits when sufficient: numpy sorts those by radix, ten times as fast.
    """
    if values.dtype == object:
        known: dict[Any, int] = {}
        codes = np.fromiter((known.setdefault(value, len(known)) for value in values), np.int64)
        return list(known).__getitem__, codes
    lowest = int(values.min())
    if int(values.max()) - lowest <= np.iinfo(np.uint16).max:
        return lambda code: code + lowest, (values - lowest).astype(np.uint16)
    return lambda code: code, values
