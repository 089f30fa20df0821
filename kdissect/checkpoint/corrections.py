"""Corrections of the rows of one split by the merger, and their application."""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.encoding.classes import Fields, Inline
from kdissect.encoding.documents import Document, dump, load
from kdissect.encoding.kinds import INT, Dict, Many, Rows, named
from kdissect.protocol.readers import NULL
from kdissect.tables.batches import ints_of, numbers
from kdissect.tables.matrices import Ints

CONNECTION_ID: Final = "connection_id"
RTT: Final = "rtt_ns"


class Correction(NamedTuple):
    """For one connection: true id, and ``(row, ns)``: its smallest round trip from that row on."""

    connection_id: int
    rtt_steps: list[tuple[int, int]]


class Corrections:
    """Applied to all batches of a split, in the order in which they were made.

    `synchronized` are by connection id in the split; rows of `dropped` ids do not count, or no rows
    at all when `drops_all`. `dropped_exchanges` are included in the counts.
    """

    def __init__(self) -> None:
        self.drops_all = False
        self.dropped: set[int] = set()
        self.dropped_exchanges = 0
        self.synchronized: dict[int, Correction] = {}
        # Number of rows of each connection so far; counted by `apply`.
        self._rows: dict[int, int] = {}

    def to_bytes(self) -> bytes:
        """Encode for another process or machine, before `apply`; `from_bytes` reads it."""
        return dump(DOCUMENT, self)

    @classmethod
    def from_bytes(cls, content: bytes) -> "Corrections":
        """Decode; raise EncodingError for bytes that are not corrections, or of another version."""
        corrections: Corrections = load(DOCUMENT, content)
        corrections._rows = {}
        return corrections

    def apply(self, table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a batch that count, as they are in the whole."""
        if self.drops_all:
            return batch.slice(0, 0)
        if self.dropped:
            wrong = np.array(sorted(self.dropped), np.int64)
            kept = ~np.isin(ints_of(batch[CONNECTION_ID]), wrong)
            if not kept.all():
                batch = batch.take(numbers(np.flatnonzero(kept), pa.int64()))
        if not self.synchronized or not batch.num_rows:
            return batch
        ids = ints_of(batch[CONNECTION_ID])
        if table == "exchanges" and RTT in batch.schema.names:
            batch = self._with_rtt(batch, ids)
        return self._with_ids(batch, ids)

    def _with_ids(self, batch: pa.RecordBatch, ids: Ints) -> pa.RecordBatch:
        wrong = np.array(sorted(self.synchronized), np.int64)
        right = np.array([self.synchronized[one].connection_id for one in wrong.tolist()], np.int64)
        place = np.minimum(np.searchsorted(wrong, ids), len(wrong) - 1)
        found = wrong[place] == ids
        if not found.any():
            return batch
        made = np.where(found, right[place], ids)
        return replaced(batch, CONNECTION_ID, numbers(made, pa.int64()))

    def _with_rtt(self, batch: pa.RecordBatch, ids: Ints) -> pa.RecordBatch:
        rtt: Ints | None = None
        for connection_id in np.unique(ids).tolist():
            correction = self.synchronized.get(connection_id)
            if correction is None:
                continue
            if rtt is None:
                rtt = ints_of(batch[RTT])
                answered = ints_of(batch["response_start"]) != NULL
            rows = np.flatnonzero(ids == connection_id)
            first = self._rows.get(connection_id, 0)
            self._rows[connection_id] = first + len(rows)
            starts = np.array([row for row, _ in correction.rtt_steps], np.int64)
            values = np.array([ns if ns >= 0 else NULL for _, ns in correction.rtt_steps], np.int64)
            step = np.searchsorted(starts, np.arange(first, first + len(rows)), side="right") - 1
            rtt[rows] = np.where(answered[rows], values[step], int(NULL))
        return batch if rtt is None else replaced(batch, RTT, numbers(rtt, pa.int64()))


def replaced(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    """Return the batch with other values in a column."""
    index = batch.schema.get_field_index(name)
    return batch.set_column(index, batch.schema.field(index), values)


DOCUMENT: Final = Document(
    4,
    "corrections of this version of kdissect",
    1,
    Inline(
        Fields(
            Corrections,
            ints="dropped_exchanges",
            bools="drops_all",
            dropped=Many(INT, set),
            synchronized=Dict(INT, named(Correction, connection_id=INT, rtt_steps=Rows(2))),
            left_out={"_rows": None},
        )
    ),
)
