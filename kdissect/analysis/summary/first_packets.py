"""Frame number of the first response with an error, by the error's name.

Errors name their exchange, whose row has the packet and may come earlier or later, in a batch of
another table. Both sides wait for each other in bounded memory.
"""

from typing import Final

import numpy as np

from kdissect.tables.matrices import Ints

# Rows on each side: 16 bytes each. An exchange that failed has a row in `errors`, so that its batch
# is full, and given, long before as many others failed.
KEPT: Final = 1 << 18


class FirstPackets:
    """Joins failed exchanges and errors, and keeps the smallest packet number of each name."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._codes: dict[str, int] = {}
        self._exchanges: list[tuple[Ints, Ints]] = []  # ids and packets
        self._errors: list[tuple[Ints, Ints]] = []  # ids and codes of names

    def add_exchanges(self, ids: Ints, packets: Ints) -> None:
        """Failed exchanges with the packets of their responses, -1 for none."""
        if len(ids):
            self._exchanges.append((ids, packets))
            self._limit()

    def add_errors(self, name: str, ids: Ints) -> None:
        """Ids of the exchanges with an error."""
        code = self._codes.setdefault(name, len(self._codes))
        self._errors.append((ids, np.full(len(ids), code)))
        self._limit()

    def first_by_name(self) -> dict[str, int]:
        """The packets known so far."""
        self._join()
        return dict(self._first)

    def _limit(self) -> None:
        if any(sum(len(ids) for ids, _ in side) > 2 * KEPT for side in self._sides()):
            self._join()

    def _sides(self) -> tuple[list[tuple[Ints, Ints]], list[tuple[Ints, Ints]]]:
        return self._exchanges, self._errors

    def _join(self) -> None:
        if not (self._exchanges and self._errors):
            self._exchanges, self._errors = (kept(side) for side in self._sides())
            return
        (known, packets), (ids, codes) = (columns(side) for side in self._sides())
        order = np.argsort(known, kind="stable")
        places = order[np.minimum(np.searchsorted(known[order], ids), len(known) - 1)]
        found = known[places] == ids
        for name, code in self._codes.items():
            of_name = packets[places[found & (codes == code)]]
            of_name = of_name[of_name >= 0]
            if len(of_name):
                self._first[name] = min(int(of_name.min()), self._first.get(name, int(1e18)))
        self._exchanges = kept(self._exchanges)
        self._errors = kept([(ids[~found], codes[~found])])


def columns(side: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    ids, values = zip(*side, strict=True)
    return np.concatenate(ids), np.concatenate(values)


def kept(side: list[tuple[Ints, Ints]]) -> list[tuple[Ints, Ints]]:
    """The last rows, as many as are kept."""
    if not side:
        return side
    ids, values = columns(side)
    return [(ids[-KEPT:], values[-KEPT:])]
