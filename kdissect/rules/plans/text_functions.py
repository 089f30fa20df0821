"""Functions of texts and lists of texts in a row; most are null for a null."""

import re
from typing import Any, Final

import numpy as np

from kdissect.rules.plans.columns import (
    Array,
    Column,
    Words,
    both,
    distinct_codes,
    mapped,
    mapped_numbers,
    of_words,
)

DIGITS: Final = re.compile(r"\s*([+-]?[0-9]+)\s*", re.ASCII)


def to_text(column: Column) -> Column:
    """Numbers in decimal."""
    if column.words is not None:
        return column
    values = column.values if column.valid is None else column.values[column.valid]
    distinct, codes = distinct_codes(values)
    words = Words([str(value) for value in distinct.tolist()])
    if column.valid is None:
        return Column(codes, None, words)
    spread = np.zeros(len(column), np.int64)
    spread[column.valid] = codes
    return Column(spread, column.valid, words)


def to_number(column: Column) -> Column:
    """The number that a text is; null for any other."""
    if column.words is None:
        with np.errstate(invalid="ignore"):  # of rows that a condition excludes
            return Column(column.values.astype(np.int64), column.valid)

    def number(text: str) -> int | None:
        found = DIGITS.fullmatch(text)
        return int(found[1]) if found else None

    return mapped_numbers(column, number, np.int64)


def concatenated(*columns: Column, separator: str = "") -> Column:
    """The texts of a row behind each other; null where one is."""
    found = columns[0]
    for column in columns[1:]:
        found = _with_suffix(found, column, separator)
    return found


def _with_suffix(left: Column, right: Column, separator: str) -> Column:
    count = max(len(left), len(right)) if len(left) and len(right) else 0
    left, right = left.spread(count), right.spread(count)
    first, second = left.texts, right.texts
    valid = both(left.valid, right.valid)
    size = len(second)
    if not size or not first:  # all rows are null
        return Column(np.zeros(count, np.int64), np.zeros(count, bool), Words([""]))
    pairs = left.values.astype(np.int64) * size + right.values
    distinct, codes = distinct_codes(pairs)
    texts = [first[one // size] + separator + second[one % size] for one in distinct.tolist()]
    # Different pairs may be the same text.
    return _through_codes(codes, of_words(texts), valid)


def _through_codes(codes: Array, made: Column, valid: Array | None) -> Column:
    values = made.values[codes] if len(made) else codes
    return Column(values, valid, made.words)


def joined(lists: Column, separator: str) -> Column:
    return mapped(lists, lambda words: separator.join(map(str, words)))


def sorted_lists(lists: Column) -> Column:
    return mapped(lists, lambda words: tuple(sorted(words)))


def element(lists: Column, index: int) -> Column:
    return mapped(lists, lambda words: words[index] if index < len(words) else None)


def unnested(lists: Column) -> tuple[Array, Column]:
    """The row of each element, and the elements; rows without any are left out."""
    sizes = np.array([len(one) for one in lists.texts] or [0], np.int64)
    counts = np.where(lists.known, sizes[lists.values], 0)
    starts = np.cumsum(sizes) - sizes
    rows = np.repeat(np.arange(len(lists)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    every = of_words(word for one in lists.texts for word in one)
    return rows, every.take(starts[lists.values[rows]] + within)


def looked_up(found: dict[Any, Any], keys: Column) -> Column:
    """The values of keys in a map; null for others."""
    get = found.get
    if all(isinstance(value, str) for value in found.values()):
        return mapped(keys, get)
    return mapped_numbers(keys, get, np.int64)


def like(column: Column, pattern: str) -> Column:
    """``%`` is any text, ``_`` any character."""
    parts = (re.escape(one) if one not in "%_" else one for one in pattern)
    regex = "".join(parts).replace("%", ".*").replace("_", ".")
    compiled = re.compile(regex, re.DOTALL)
    return mapped_numbers(column, lambda text: compiled.fullmatch(text) is not None, bool)


def regex_search(column: Column, pattern: str) -> Column:
    compiled = re.compile(pattern, re.ASCII)
    return mapped_numbers(column, lambda text: compiled.search(text) is not None, bool)


def regex_extract(column: Column, pattern: str, index: int) -> Column:
    """A group of the first match, "" without one."""
    compiled = re.compile(pattern, re.ASCII)

    def group(text: str) -> str:
        found = compiled.search(text)
        return (found[index] or "") if found else ""

    return mapped(column, group)


def regex_replace(column: Column, pattern: str, replacement: str) -> Column:
    compiled = re.compile(pattern, re.ASCII)
    return mapped(column, lambda text: compiled.sub(replacement, text))


def contains(column: Column, part: str) -> Column:
    return mapped_numbers(column, lambda text: part in text, bool)


def starts_with(column: Column, start: str) -> Column:
    return mapped_numbers(column, lambda text: text.startswith(start), bool)


def length(lists: Column) -> Column:
    return mapped_numbers(lists, len, np.int64)


def split(column: Column, separator: str) -> Column:
    return mapped(column, lambda text: tuple(text.split(separator)))
