"""The table of connections: those with the most bytes."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import integers, texts
from kdissect.protocol.readers import NULL
from kdissect.report.columns import CONNECTION_NUMBERS, CONNECTION_TEXTS
from kdissect.report.ends import addresses
from kdissect.tables.batches import ints_of

LISTED: Final = 300


class Connections:
    """Keeps the connections with the most bytes; of equal ones, the first."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, dict[str, Any]]] = []
        self.total = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Look at a batch of connections."""
        sizes = integers(batch, "bytes_to_broker", 0) + integers(batch, "bytes_to_client", 0)
        self.total += batch.num_rows
        places = np.argsort(-sizes, kind="stable")[:LISTED]
        if len(self._kept) == LISTED:
            places = places[sizes[places] > self._kept[-1][0]]
        if not len(places):
            return
        found = zip(sizes[places].tolist(), rows_of(batch, places), strict=True)
        self._kept = sorted([*self._kept, *found], key=lambda one: -one[0])[:LISTED]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The connections, the one with the most bytes first."""
        return [row for _, row in self._kept]


def rows_of(batch: pa.RecordBatch, places: "np.ndarray[Any, Any]") -> list[dict[str, Any]]:
    """The rows at these places, with the addresses of both sides."""
    columns: dict[str, list[Any]] = {
        "client": addresses(batch, "client", places), "broker": addresses(batch, "broker", places),
    }  # fmt: skip
    for name in CONNECTION_NUMBERS:
        values = ints_of(batch.column(name))[places].tolist()
        columns[name] = [None if value == NULL else value for value in values]
    for name in CONNECTION_TEXTS:
        columns[name] = texts(batch, name)[places].tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
