"""The two ends of each connection, for rows that name only the connection."""

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import integers, names_and_places, texts
from kdissect.tables.matrices import Ints

UNKNOWN: Final = "(unknown broker)"
PORT_BITS: Final = 17
UNKNOWN_PORT: Final = (1 << PORT_BITS) - 1


class Ends:
    """Connection → broker, as ``ip:port``: 16 bytes for each connection."""

    def __init__(self, connections: Iterable[pa.RecordBatch]) -> None:
        self.brokers: list[str] = [UNKNOWN]
        codes: dict[str, int] = {UNKNOWN: 0}
        ids, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        counts = [np.empty(0, np.int64)]
        for batch in connections:
            names, of = broker_names(batch)
            known = np.array([codes.setdefault(name, len(codes)) for name in names], np.int64)
            places.append(known[of])
            ids.append(integers(batch, "connection_id", -1))
            counts.append(integers(batch, "exchanges", 0))
        self.brokers = list(codes)
        self._exchanges = np.bincount(
            np.concatenate(places).astype(np.int64), np.concatenate(counts), len(codes)
        )
        order = np.argsort(np.concatenate(ids), kind="stable")
        self._ids = np.concatenate(ids)[order]
        self._places = np.concatenate(places).astype(np.int64)[order]

    def largest(self, most: int) -> list[str]:
        """The brokers with the most exchanges."""
        order = np.argsort(-self._exchanges[1:], kind="stable")[:most] + 1
        return [self.brokers[place] for place in order.tolist()]

    def places(self, connections: Ints) -> Ints:
        """The place in `brokers` of each connection."""
        if not len(self._ids):
            return np.zeros(len(connections), np.int64)
        at = np.minimum(np.searchsorted(self._ids, connections), len(self._ids) - 1)
        found: Ints = np.where(self._ids[at] == connections, self._places[at], 0)
        return found


def broker_names(batch: pa.RecordBatch) -> tuple[list[str], Ints]:
    """The addresses of brokers, each once, and the place of each connection in them."""
    names, of_ip = names_and_places(batch, "broker_ip")
    codes = (of_ip << PORT_BITS) + integers(batch, "broker_port", UNKNOWN_PORT)
    distinct, places = np.unique(codes, return_inverse=True)
    return [
        address(names[code >> PORT_BITS], code & UNKNOWN_PORT) for code in distinct.tolist()
    ], places.reshape(-1)


def addresses(batch: pa.RecordBatch, side: str, places: Ints) -> list[str]:
    """Address and port of one side of the connections at these places."""
    ips, ports = texts(batch, f"{side}_ip"), integers(batch, f"{side}_port", UNKNOWN_PORT)
    pairs = zip(ips[places].tolist(), ports[places].tolist(), strict=True)
    return [address(ip, port) for ip, port in pairs]


def address(ip: str | None, port: int) -> str:
    """Both as one text.

    >>> address("10.0.0.1", 9092), address(None, UNKNOWN_PORT)
    ('10.0.0.1:9092', '?:-1')
    """
    return f"{ip or '?'}:{-1 if port == UNKNOWN_PORT else port}"
