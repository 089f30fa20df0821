"""Producers that came back to a broker: a batch may be sent again there, though nothing failed.

Where the tap is on the broker's side of a network that lost the response, all requests were
answered, and the client connects anew and sends its batch again.
"""

from typing import Final

import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import has_word, integers, texts

MOST: Final = 10_000  # connections
Ends = tuple[str | None, str | None, int]  # client address, broker address and port


class Producers:
    """Keeps the connections that produce; constant memory for any capture."""

    def __init__(self) -> None:
        self._clients: dict[int, str | None] = {}  # by connection
        self._ends: dict[int, Ends] = {}

    def add_exchanges(self, batch: pa.RecordBatch) -> None:
        """Note the clients of Produce requests."""
        rows = has_word(batch, "api", ("Produce",)).nonzero()[0]
        if not len(rows) or len(self._clients) > MOST:
            return
        ids = integers(batch, "connection_id", -1)[rows].tolist()
        self._clients.update(zip(ids, texts(batch, "client_id")[rows], strict=True))

    def add_connections(self, batch: pa.RecordBatch) -> None:
        """Note the ends of connections; their exchanges may come later."""
        if len(self._ends) > MOST:
            return
        ends = zip(
            texts(batch, "client_ip"), texts(batch, "broker_ip"),
            integers(batch, "broker_port", 0).tolist(), strict=True,
        )  # fmt: skip
        ids = integers(batch, "connection_id", -1).tolist()
        self._ends.update(zip(ids, ends, strict=True))

    @property
    def have_returned(self) -> bool:
        """Whether a client produced on several connections to a broker, or too many to know."""
        if max(len(self._clients), len(self._ends)) > MOST:
            return bool(self._clients)
        known = [(who, self._ends.get(id_)) for id_, who in self._clients.items()]
        return len(set(known)) < len(known)
