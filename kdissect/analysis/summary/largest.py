"""The largest of a large number of names, in bounded memory."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from kdissect.analysis.summary.counters import Counted, quantiles_of
from kdissect.analysis.tally import Tally, chosen, merged, tally
from kdissect.tables.matrices import Ints

PENDING: Final = 2_000_000  # bytes of tallies that wait to be merged
OBJECTS: Final = 1_000  # bytes of each beside its numbers

Weights = tuple[np.ndarray[Any, Any], ...]


def by_rows(of: Tally) -> Weights:
    return (of.rows,)


def bytes_of(of: Tally) -> int:
    """Bytes of memory of a tally."""
    return OBJECTS + sum(column.nbytes for column in of[:-1])


class Largest:
    """A tally by name: of twice `limit` names or more, the heavier ones up to `limit` are kept.

    A dropped name that occurs again starts from 0, so with more than `limit` names counts may be
    too low by the dropped part; `left_out` is the number dropped. `weigh` is the sort key.
    """

    def __init__(self, limit: int, weigh: Callable[[Tally], Weights] = by_rows) -> None:
        self._limit = limit
        self._weigh = weigh
        self._codes: dict[str, int] = {}
        self._tallies: list[Tally] = []
        self._waiting = 0  # bytes of all tallies but the first
        self.left_out = 0

    def add(
        self, names: Sequence[str], places: Ints, times: Ints, *measures: np.ndarray[Any, Any]
    ) -> None:
        """Count rows; the name of each is at a place in `names`, which may have more."""
        if not len(places):
            return
        codes = np.array([self._codes.setdefault(name, len(self._codes)) for name in names])
        self._tallies.append(tally(codes[places], times, *measures))
        if len(self._tallies) > 1:
            self._waiting += bytes_of(self._tallies[-1])
        is_full = self._waiting > max(PENDING, bytes_of(self._tallies[0]))
        if is_full or len(self._codes) >= 2 * self._limit:
            self._merge()

    def rows(self) -> list[Counted]:
        """The counts of each name, the heaviest first."""
        if not self._tallies:
            return []
        self._merge()
        (of,) = self._tallies
        columns = self._codes, of.rows.tolist(), of.sums.T.tolist(), quantiles_of(of)
        found = [Counted(*row) for row in zip(*columns, strict=True)]
        return [found[place] for place in self._by_weight(of).tolist()]

    def _merge(self) -> None:
        of = merged(self._tallies)
        kept = np.arange(len(of.key))
        if len(kept) >= 2 * self._limit:
            kept = np.sort(self._by_weight(of)[: self._limit])
            self.left_out += len(of.key) - len(kept)
        names = list(self._codes)
        self._codes = {names[code]: place for place, code in enumerate(of.key[kept].tolist())}
        self._tallies = [chosen(of, kept)]
        self._waiting = 0

    def _by_weight(self, of: Tally) -> Ints:
        return np.lexsort([-weight for weight in reversed(self._weigh(of))])
