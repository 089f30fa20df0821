"""The table of partitions: records produced and fetched, and errors."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.grouping import CONSUMING
from kdissect.analysis.summary.arrow_columns import has_word, integers, is_set
from kdissect.analysis.summary.largest import Largest
from kdissect.analysis.summary.summary import bytes_and_partitions, topics_and_places
from kdissect.report.edges import key_of, pair_of
from kdissect.report.rows import Exchanges
from kdissect.tables.matrices import Ints

KEPT: Final = 512  # of more, those with the most bytes
MOST: Final = 1 << 20  # exchanges that consume, of 8 bytes each
WIDTH: Final = 33  # bits of the number of a partition, from 1
WITHOUT: Final = -1  # in place of the partition of rows about a whole topic


class Partitions:
    """Sums of each partition, as `Summary.topics` has them of topics.

    Rows with a fetch offset are fetched, and rows of exchanges that consume; all others produced.
    """

    def __init__(self) -> None:
        self._largest = Largest(KEPT, bytes_and_partitions)
        self._consuming: list[Ints] = []
        self._ids: Ints | None = None
        self._held = 0
        self.is_cut = False

    def add_exchanges(self, rows: Exchanges) -> None:
        """Note which exchanges consume; all of them before the first partitions."""
        if self._held >= MOST:
            self.is_cut = True
            return
        consumes = has_word(rows.batch, "api", CONSUMING)
        ids = integers(rows.batch, "exchange_id", -1)[consumes]
        self._consuming.append(ids)
        self._held += len(ids)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch of partitions."""
        names, places = topics_and_places(batch)
        numbers = integers(batch, "partition", WITHOUT)
        keys, of_row = keys_of(names, places, numbers)
        named = numbers >= 0
        size, records = integers(batch, "record_bytes", 0), integers(batch, "record_count", 0)
        is_fetched = self._is_fetched(batch)
        failed = integers(batch, "error_code", 0) != 0
        measures = (
            size * ~is_fetched, records * ~is_fetched, size * is_fetched, records * is_fetched,
            failed.astype(np.int64),
        )  # fmt: skip
        none = np.full(int(named.sum()), -1, np.int64)
        self._largest.add(keys, of_row[named], none, *(one[named] for one in measures))

    def rows(self) -> list[dict[str, Any]]:
        """The partitions, the one with the most bytes first."""
        names = (
            "produced_bytes", "produced_records", "fetched_bytes", "fetched_records", "with_errors",
        )  # fmt: skip
        found = []
        for one in self._largest.rows():
            topic, partition = pair_of(one.name)
            sums = dict(zip(names, map(int, one.sums), strict=True))
            found.append(
                {"topic": topic, "partition": int(partition), "exchanges": one.rows} | sums
            )
        return found

    @property
    def left_out(self) -> int:
        """Partitions that were dropped."""
        return self._largest.left_out

    def _is_fetched(self, batch: pa.RecordBatch) -> "np.ndarray[Any, Any]":
        if self._ids is None:
            self._ids = np.sort(np.concatenate([np.empty(0, np.int64), *self._consuming]))
            self._consuming = []
        ids = integers(batch, "exchange_id", -1)
        found: np.ndarray[Any, Any] = is_set(batch, "fetch_offset")
        if len(self._ids):
            at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
            found |= self._ids[at] == ids
        return found


def keys_of(names: list[str], places: Ints, numbers: Ints) -> tuple[list[str], Ints]:
    """Topics and partitions that occur, as keys, and the place of each row in those."""
    codes, of_row = np.unique((places << WIDTH) + numbers + 1, return_inverse=True)
    pairs = zip((codes >> WIDTH).tolist(), (codes % (1 << WIDTH) - 1).tolist(), strict=True)
    return [key_of(names[place], str(number)) for place, number in pairs], of_row.reshape(-1)
