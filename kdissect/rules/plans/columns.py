"""Columns: numpy arrays with nulls. Texts and lists are codes of words that are held once."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]
Word = Any  # str, or a tuple of them
# Ranges of integers up to so many times their number are counted in place of sorted.
DENSE: Final = 4
SPARE: Final = 1_000
# From so many numbers on hashing is faster than sorting; it imports `pyarrow.compute`, 30 ms.
MANY: Final = 20_000
CODE: Final = np.int32  # of words, and of ids
WIDE: Final = 1 << 60
MOST_CODES: Final = 1 << 62


class Words:
    """Distinct texts or lists, by code."""

    def __init__(self, words: Sequence[Word]) -> None:
        self.words = list(words)

    @cached_property
    def codes(self) -> dict[Word, int]:
        """Word → code."""
        return {word: code for code, word in enumerate(self.words)}

    @cached_property
    def order(self) -> Array:
        """The codes in the order of the words."""
        return np.array(sorted(range(len(self.words)), key=self.words.__getitem__), CODE)

    @cached_property
    def ranks(self) -> Array:
        """Code → place in that order."""
        ranks = np.empty(len(self.words), np.int64)
        ranks[self.order] = np.arange(len(self.words))
        return ranks


class Column:
    """Values of rows: int64, float64, bool, or codes of `words`; `valid` is None without nulls.

    A column of one row is broadcast to any number of rows, like numpy's arrays.
    """

    __slots__ = ("valid", "values", "words")

    def __init__(
        self, values: Array, valid: Flags | None = None, words: Words | None = None
    ) -> None:
        self.values = values
        self.valid = valid
        self.words = words

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Array) -> "Column":
        """The rows at these places, or where these flags are set."""
        valid = None if self.valid is None else self.valid[rows]
        return Column(self.values[rows], valid, self.words)

    def take_or_null(self, rows: Array) -> "Column":
        """The rows at these places; null at -1."""
        if not len(self.values):
            zeros = np.zeros(len(rows), self.values.dtype)
            return Column(zeros, np.zeros(len(rows), bool), self.words)
        found = self.take(rows)
        there = rows >= 0
        return found if there.all() else found.where(there)

    def where(self, flags: Flags) -> "Column":
        """The same with nulls where the flags are not set."""
        valid = flags if self.valid is None else self.valid & flags
        return Column(self.values, valid, self.words)

    def spread(self, count: int) -> "Column":
        """The column with so many rows."""
        if len(self.values) == count:
            return self
        valid = None if self.valid is None else np.broadcast_to(self.valid, (count,))
        return Column(np.broadcast_to(self.values, (count,)), valid, self.words)

    @property
    def known(self) -> Flags:
        """The mask of valid values."""
        return np.ones(len(self.values), bool) if self.valid is None else self.valid

    @property
    def texts(self) -> list[Word]:
        """The words of a column of texts or lists."""
        if self.words is None:
            raise TypeError("numbers have no words")
        return self.words.words

    @property
    def sortable(self) -> Array:
        """Numbers in the order of the values; those of nulls mean nothing."""
        if self.words is not None:
            ranks = self.words.ranks
            return ranks[self.values] if len(ranks) else self.values
        return (
            self.values
            if self.values.dtype.kind == "f"
            else self.values.astype(np.int64, copy=False)
        )

    def python(self) -> list[Any]:
        """The values as Python's, None for null."""
        found: list[Any] = self.values.tolist()
        if self.words is not None:
            words = self.words.words
            found = [words[code] for code in found] if words else [None] * len(found)
        if self.valid is not None:
            found = [
                value if is_known else None
                for value, is_known in zip(found, self.valid.tolist(), strict=True)
            ]
        return found


def literal(value: Any) -> Column:
    """A column of one row."""
    if value is None:
        return Column(np.zeros(1, bool), np.zeros(1, bool))
    if isinstance(value, str | tuple):
        return Column(np.zeros(1, CODE), None, Words([value]))
    return Column(np.array([value]))


def of_words(values: Iterable[Word | None]) -> Column:
    """A column of texts or lists."""
    codes: dict[Word, int] = {}
    found = np.fromiter(
        (-1 if value is None else codes.setdefault(value, len(codes)) for value in values), CODE
    )
    return coded(found, list(codes))


def coded(codes: Array, words: Sequence[Word]) -> Column:
    """A column of codes, -1 for null."""
    codes = codes.astype(CODE, copy=False)
    known = codes >= 0
    if known.all():
        return Column(codes, None, Words(words))
    return Column(np.maximum(codes, 0), known, Words(list(words) or [""]))


def mapped(column: Column, function: Callable[[Word], Word | None]) -> Column:
    """A function of each word that occurs; None is null."""
    column = compact(column)
    made = of_words(function(word) for word in column.texts)
    return _through(column, made)


def mapped_numbers(column: Column, function: Callable[[Word], Any], kind: Any) -> Column:
    """A function of each word that occurs to a number; None is null."""
    column = compact(column)
    made = [function(word) for word in column.texts]
    known = np.array([value is not None for value in made], bool)
    numbers = np.array([0 if value is None else value for value in made], kind)
    return _through(column, Column(numbers, None if known.all() else known))


def _through(column: Column, made: Column) -> Column:
    if not len(made):  # without a word, all rows are null
        zeros = np.zeros(len(column), made.values.dtype)
        return Column(zeros, np.zeros(len(column), bool), made.words)
    found = made.take(column.values)
    return found if column.valid is None else found.where(column.valid)


def compact(column: Column) -> Column:
    """The same without words that do not occur, where there are many."""
    words = column.texts
    if len(words) <= len(column):
        return column
    used = np.flatnonzero(np.bincount(column.values, minlength=1))
    values = np.searchsorted(used, column.values).astype(CODE)
    return Column(values, column.valid, Words([words[code] for code in used.tolist()]))


def unified(columns: Sequence[Column]) -> tuple[list[Column], Words | None]:
    """The columns with the same words; None where they are numbers.

    A null literal has no words, even if the others have.
    """
    worded = [one.words for one in columns if one.words is not None]
    if not worded:
        return list(columns), None
    first = worded[0]
    if all(one is first for one in worded):
        return list(columns), first
    codes = dict(first.codes)
    made: list[Column] = []
    for one in columns:
        if one.words is None or one.words is first:
            made.append(one)
            continue
        place = np.array(
            [codes.setdefault(word, len(codes)) for word in one.words.words] or [0], CODE
        )
        made.append(Column(place[one.values], one.valid))
    words = Words(list(codes))
    return [Column(one.values, one.valid, words) for one in made], words


def both(left: Flags | None, right: Flags | None) -> Flags | None:
    """The mask of rows in which both are valid."""
    if left is None:
        return right
    return left if right is None else left & right


def codes_of(column: Column) -> tuple[Array, int]:
    """Codes of equal values, the last one for null, and how many codes there may be."""
    values = column.values
    if column.words is not None:
        codes, size = values, len(column.words.words)
    elif values.dtype == bool:
        codes, size = values.astype(np.int64), 2
    else:
        codes, size = ranged(values if column.valid is None else np.where(column.valid, values, 0))
    if column.valid is not None:
        codes = np.where(column.valid, codes, size)
        size += 1
    return codes, size


def ranged(values: Array) -> tuple[Array, int]:
    """Numbers from 0 on, where their range allows, and its size."""
    if not len(values):
        return values.astype(np.int64), 1
    if values.dtype.kind != "f":
        lowest, highest = int(values.min()), int(values.max())
        if highest - lowest < WIDE:
            return values - lowest, highest - lowest + 1
    numbers, codes = distinct_codes(values)
    return codes, len(numbers)


def distinct(values: Array) -> Array:
    """Distinct numbers in order; numpy's `unique` hashes them first, which takes longer."""
    ordered = np.sort(values)
    is_new = np.ones(len(ordered), bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    found: Array = ordered[is_new]
    return found


def distinct_codes(values: Array) -> tuple[Array, Array]:
    """Distinct numbers, and the code of each number; many are hashed in place of sorted."""
    if values.dtype == CODE:
        values = values.astype(np.int64)
    if len(values) < MANY or values.dtype != np.int64:
        numbers, codes = np.unique(values, return_inverse=True)
        return numbers, codes
    packed = pa.py_buffer(np.ascontiguousarray(values))
    encoded = pa.Array.from_buffers(pa.int64(), len(values), [None, packed]).dictionary_encode()
    codes = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(values))
    words = encoded.dictionary
    numbers = np.frombuffer(words.buffers()[1], np.int64, len(words) + words.offset)
    return numbers[words.offset :], codes.astype(np.int64)


def combined(columns: Sequence[Column], count: int) -> tuple[Array, int]:
    """Codes of equal rows of several columns, and how many codes there may be: few for a row."""
    codes, size = np.zeros(count, np.int64), 1
    for column in columns:
        more, one_size = codes_of(column)
        if size * one_size >= MOST_CODES:
            codes, size = _few(codes)
        if size * one_size >= MOST_CODES:
            more, one_size = _few(more)
        codes = codes * one_size + more if size > 1 else more.astype(np.int64, copy=False)
        size *= one_size
    return (codes, size) if size <= DENSE * count + SPARE else _few(codes)


def _few(codes: Array) -> tuple[Array, int]:
    numbers, found = distinct_codes(codes)
    return found, len(numbers)
