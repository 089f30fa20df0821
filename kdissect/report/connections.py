"""The table of connections: those with the most bytes."""

import heapq
from typing import Any, Final

import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import integers
from kdissect.report.ends import addresses

LISTED: Final = 300
SHOWN: Final = (
    "connection_id", "exchanges", "bytes_to_broker", "bytes_to_client",
    "retransmitted_segments_to_broker", "retransmitted_segments_to_client",
    "missing_bytes_to_broker", "missing_bytes_to_client", "gaps_to_broker", "gaps_to_client",
    "handshake_rtt_ns",
)  # fmt: skip
TEXTS: Final = ("protocol", "rst_by", "sasl_mechanism", "client_software_name")


class Connections:
    """Keeps the connections with the most bytes."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, dict[str, Any]]] = []
        self.total = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Look at a batch of connections."""
        sizes = integers(batch, "bytes_to_broker", 0) + integers(batch, "bytes_to_client", 0)
        clients, brokers = addresses(batch, "client"), addresses(batch, "broker")
        first = self.total
        self.total += batch.num_rows
        for place, size in enumerate(sizes.tolist()):
            if len(self._heap) == LISTED and size <= self._heap[0][0]:
                continue
            row = {"client": clients[place], "broker": brokers[place]}
            one = batch.slice(place, 1).select([*SHOWN, *TEXTS]).to_pylist()[0]
            heapq.heappush(self._heap, (size, -first - place, row | one))
            if len(self._heap) > LISTED:
                heapq.heappop(self._heap)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The connections, the one with the most bytes first."""
        return [row for _, _, row in sorted(self._heap, key=lambda one: one[:2], reverse=True)]
