"""Direction of the records of partition rows: that of the API of their exchange.

As in `kdissect traffic`. An exchange may come earlier or later than its rows, in a batch of another
table: both sides wait for each other in bounded memory.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.analysis.grouping import CONSUMING, PRODUCING
from kdissect.analysis.summary.arrow_columns import has_word, integers, is_set
from kdissect.analysis.summary.largest import Largest
from kdissect.tables.matrices import Ints

# Exchanges of 16 bytes each, and rows of 32; up to twice as many between two joins.
KEPT: Final = 1 << 18
NEITHER, PRODUCED, FETCHED = range(3)

Mask = np.ndarray[Any, Any]


class Rows(NamedTuple):
    """Rows: topics, and by row the place in those, the exchange, bytes and records."""

    names: Sequence[str]
    places: Ints
    ids: Ints
    size: Ints
    records: Ints

    def chosen(self, which: Mask) -> "Rows":
        """The rows of a mask."""
        return Rows(self.names, *(column[which] for column in self[1:]))


class MovedRecords:
    """Adds the records of partition rows to their topics, as produced or as fetched.

    Rows with a fetch offset are fetched, without waiting. Of more than `KEPT` other rows whose
    exchange is not known the oldest count as produced; so do rows without an exchange.
    """

    def __init__(self, topics: Largest) -> None:
        self._topics = topics
        self._exchanges: list[tuple[Ints, Ints]] = []  # ids and directions
        self._rows: list[Rows] = []

    def add_exchanges(self, batch: pa.RecordBatch) -> None:
        """Exchanges of any API."""
        ways = np.full(batch.num_rows, NEITHER)
        ways[has_word(batch, "api", PRODUCING)] = PRODUCED
        ways[has_word(batch, "api", CONSUMING)] = FETCHED
        self._exchanges.append((integers(batch, "exchange_id", -1), ways))
        if sum(len(ids) for ids, _ in self._exchanges) > 2 * KEPT:
            self.join()
            ids, ways = (np.concatenate(side) for side in zip(*self._exchanges, strict=True))
            self._exchanges = [(ids[-KEPT:], ways[-KEPT:])]

    def add_rows(self, batch: pa.RecordBatch, names: Sequence[str], places: Ints) -> None:
        """Rows of partitions, with the places of their topics in `names`."""
        ids = integers(batch, "exchange_id", -1)
        size, count = (integers(batch, name, 0) for name in ("record_bytes", "record_count"))
        rows = Rows(names, places, ids, size, count)
        is_fetched = is_set(batch, "fetch_offset")
        waits = ((size > 0) | (count > 0)) & ~is_fetched & (ids >= 0)
        # Topics without records are counted, too.
        self._count(rows, np.where(is_fetched, FETCHED, np.where(waits, NEITHER, PRODUCED)))
        if not waits.any():
            return
        self._rows.append(rows.chosen(waits))
        if self._waiting() > 2 * KEPT:
            self.join()
            while self._waiting() > KEPT:
                rows = self._rows.pop(0)
                self._count(rows, np.full(len(rows.ids), PRODUCED))

    def join(self) -> None:
        """Count the rows whose exchanges are known."""
        if not (self._exchanges and self._rows):
            return
        known, ways = (np.concatenate(side) for side in zip(*self._exchanges, strict=True))
        order = np.argsort(known, kind="stable")
        known, ways = known[order], ways[order]
        self._exchanges = [(known, ways)]
        waiting, self._rows = self._rows, []
        for rows in waiting:
            places = np.minimum(np.searchsorted(known, rows.ids), len(known) - 1)
            found = known[places] == rows.ids
            self._count(rows.chosen(found), ways[places[found]])
            if not found.all():
                self._rows.append(rows.chosen(~found))

    def _waiting(self) -> int:
        return sum(len(rows.ids) for rows in self._rows)

    def _count(self, rows: Rows, ways: Ints) -> None:
        produced, fetched = ways == PRODUCED, ways == FETCHED
        zeros = np.zeros(len(rows.ids), np.int64)
        self._topics.add(
            rows.names, rows.places, zeros - 1, rows.size * produced, rows.records * produced,
            rows.size * fetched, rows.records * fetched, zeros,
        )  # fmt: skip
