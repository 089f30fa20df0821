"""The two ends of each connection, for rows that name only the connection."""

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import integers, texts
from kdissect.tables.matrices import Ints

UNKNOWN: Final = "(unknown broker)"


class Ends:
    """Connection → broker, as ``ip:port``: 16 bytes for each connection."""

    def __init__(self, connections: Iterable[pa.RecordBatch]) -> None:
        self.brokers: list[str] = [UNKNOWN]
        codes: dict[str, int] = {UNKNOWN: 0}
        ids, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for batch in connections:
            names = broker_names(batch)
            places.append(np.array([codes.setdefault(name, len(codes)) for name in names]))
            ids.append(integers(batch, "connection_id", -1))
        self.brokers = list(codes)
        order = np.argsort(np.concatenate(ids), kind="stable")
        self._ids = np.concatenate(ids)[order]
        self._places = np.concatenate(places).astype(np.int64)[order]

    def places(self, connections: Ints) -> Ints:
        """The place in `brokers` of each connection."""
        if not len(self._ids):
            return np.zeros(len(connections), np.int64)
        at = np.minimum(np.searchsorted(self._ids, connections), len(self._ids) - 1)
        found: Ints = np.where(self._ids[at] == connections, self._places[at], 0)
        return found


def broker_names(batch: pa.RecordBatch) -> list[str]:
    """The broker's address of each connection."""
    return addresses(batch, "broker")


def addresses(batch: pa.RecordBatch, side: str) -> list[str]:
    """Address and port of one side of each connection."""
    ips, ports = texts(batch, f"{side}_ip"), integers(batch, f"{side}_port", -1)
    return [f"{ip or '?'}:{port}" for ip, port in zip(ips.tolist(), ports.tolist(), strict=True)]
