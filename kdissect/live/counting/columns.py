"""Columns of record batches as arrays: numbers with NULL, and texts as codes into `Names`."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kdissect.protocol.readers import NULL
from kdissect.tables.batches import ints_of
from kdissect.tables.matrices import Ints

Codes = np.ndarray[Any, np.dtype[np.int32]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

# A topic has 249 characters at most; longer names are cut, which bounds memory.
NAME_SIZE: Final = 255
# Maximum number of names of one kind: 50 000 of 255 characters are 13 MB, or 50 MB of the widest.
NAMES_LIMIT: Final = 50_000
OTHER_NAMES: Final = "(other names)"
# Maximum number of distinct names counted beyond that limit: 1 MB.
LEFT_OUT_LIMIT: Final = 10_000

NONE: Final = 0  # the code of "", for no name
OTHER: Final = 1


class KnownNames:
    """Texts by their codes, which are indices in `texts`."""

    def __init__(self, texts: list[str], codes: dict[str, int]) -> None:
        self.texts = texts
        self._codes = codes

    def __len__(self) -> int:
        return len(self.texts)

    def find(self, text: str) -> int:
        """The code of a known text, -1 for others."""
        cut = text if len(text) <= NAME_SIZE else text[: NAME_SIZE - 1] + "…"
        return self._codes.get(cut, -1)


class Names(KnownNames):
    """Names with codes assigned in order of appearance, up to `limit`.

    All others share `OTHER`; `left_out` is their number, up to LEFT_OUT_LIMIT. Rows without a name
    are called `none`. Codes never change.
    """

    def __init__(self, limit: int = NAMES_LIMIT, other: str = OTHER_NAMES, none: str = "") -> None:
        super().__init__([none, other], {"": NONE, none: NONE, other: OTHER})
        self.limit = limit
        self._left_out: set[int] = set()

    def now(self) -> KnownNames:
        """Current names, fixed, for another thread."""
        return KnownNames(list(self.texts), self._codes)

    @property
    def left_out(self) -> int:
        """Lower bound of the number of texts without a code."""
        return len(self._left_out)

    def code(self, text: str) -> int:
        """The code of a text, assigned if there is room."""
        known = self._codes.get(text)
        if known is not None:
            return known
        if len(text) > NAME_SIZE:
            return self.code(text[: NAME_SIZE - 1] + "…")
        if len(self.texts) >= self.limit + 2:
            if len(self._left_out) < LEFT_OUT_LIMIT:
                self._left_out.add(hash(text))
            return OTHER
        self._codes[text] = len(self.texts)
        self.texts.append(text)
        return len(self.texts) - 1

    def codes(self, column: pa.DictionaryArray) -> Codes:
        """Codes of the rows of a text column; NONE for null."""
        places = [self.code(text) for text in used_texts(column)]
        return np.array([*places, NONE], np.int32)[indices_of(column)]

    def kept(self, used: Flags) -> tuple["Names", Codes]:
        """The names that are `used`, and the new code of each old one."""
        kept = Names(self.limit, self.texts[OTHER], self.texts[NONE])
        new = np.zeros(len(used), np.int32)
        new[OTHER] = OTHER
        for code in np.flatnonzero(used).tolist():
            new[code] = kept.code(self.texts[code])
        return kept, new


def used_texts(column: pa.DictionaryArray) -> list[str]:
    """The texts of a column's dictionary."""
    texts: list[str] = column.dictionary.to_pylist()
    return texts


def indices_of(column: pa.DictionaryArray) -> Ints:
    """Dictionary indices of the rows; -1 for null."""
    indices = ints_of(column.indices)
    indices[indices == NULL] = -1
    return indices


def or_zero(values: Ints) -> Ints:
    """The values, with 0 for missing ones."""
    return np.where(values == NULL, 0, values)


def flags_of(array: pa.Array) -> Flags:
    """A boolean column as flags; null is False."""
    validity, content = array.buffers()
    last = array.offset + len(array)
    flags = np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little", count=last)
    if array.null_count:
        flags &= np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little", count=last)
    return flags[array.offset :].astype(bool)


def runs(*keys: np.ndarray[Any, Any]) -> Ints:
    """Start rows of runs with equal keys; at least one row is required.

    >>> runs(np.array([5, 5, 7, 7]), np.array([1, 2, 2, 2])).tolist()
    [0, 1, 2]
    """
    differs = np.zeros(len(keys[0]), bool)
    differs[0] = True
    for key in keys:
        differs[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(differs)


def places(ids: Ints, wanted: Ints) -> Ints:
    """Indices in `ids` of each of `wanted`; -1 for missing ones."""
    if not len(ids):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(ids, kind="stable")
    found = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
    return np.where(ids[found] == wanted, found, -1)


def names_of(texts: Sequence[str], codes: Ints) -> list[str]:
    """Texts of codes."""
    return [texts[code] for code in codes.tolist()]
