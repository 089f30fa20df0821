"""TCP counts by side, of ended connections and of those that are open.

The table `connections` has a connection when it ended. The state of those that are open is polled,
a bounded number at each tick, in turn; what was polled is replaced by the row.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.exchanges.connection_state import ConnectionState
from kdissect.live.counting.columns import Flags
from kdissect.live.counting.counters import ClientSegments
from kdissect.live.turns import Turns
from kdissect.protocol.readers import NULL
from kdissect.streams.direction_counts import DirectionCounts
from kdissect.streams.events import OPENER
from kdissect.tables.batches import ints_of

POLLED: Final = 2_000  # connections per tick: some milliseconds
SIDES: Final = ("client", "broker")
WAYS: Final = ("to_broker", "to_client")  # what each side sends


class SideCounts(NamedTuple):
    """Counts of what one side sent; of a zero window, of the side that announced it."""

    payload_bytes: int
    retransmitted_segments: int
    zero_windows: int
    zero_window_ns: int


WIDTH: Final = len(SideCounts._fields)
COLUMNS: Final = [f"{name}_{way}" for way in WAYS for name in SideCounts._fields]
NO_COUNTS: Final = (0,) * len(COLUMNS)


class TcpCounts:
    """Counts of all connections; `states` are those that are open.

    `clients` are the client ids of connections, as far as they are known. All belong to the thread
    that calls `look` and `take`.
    """

    def __init__(self, states: Mapping[int, ConnectionState], polled: int = POLLED) -> None:
        self._states = states
        self._turns = Turns(states, polled)
        # Counts in the order of COLUMNS: of open connections, and their sum with ended ones.
        self._open: dict[int, tuple[int, ...]] = {}
        self.clients: dict[int, str] = {}
        # What the counts of connections grew by since `take_segments`, and ended connections.
        self._grown: dict[int, list[int]] = {}
        self._ended: list[int] = []
        self._sum = list(NO_COUNTS)
        self._most = NO_COUNTS

    def take(self, batch: pa.RecordBatch) -> None:
        """Add rows of `connections`, in place of what was polled of them."""
        columns = [ints_of(batch[name]).tolist() for name in COLUMNS]
        ids = batch["connection_id"].to_pylist()
        for connection_id, *counts in zip(ids, *columns, strict=True):
            self._replace(connection_id, tuple(max(count, 0) for count in counts))
            del self._open[connection_id]
        self._ended += ids

    def name_clients(self, exchanges: pa.RecordBatch) -> None:
        """Learn the client ids of connections from rows of `exchanges`."""
        ids, first = np.unique(ints_of(exchanges["connection_id"]), return_index=True)
        unknown = [place for place, one in enumerate(ids.tolist()) if one not in self.clients]
        rows = first[unknown]
        names = exchanges["client_id"].take(pa.array(rows)).to_pylist()
        for connection_id, name in zip(ids[unknown].tolist(), names, strict=True):
            if name is not None:
                self.clients[connection_id] = name

    def take_segments(self) -> list[ClientSegments]:
        """Retransmissions and zero windows of clients since the last call."""
        found = []
        for connection_id, grown in self._grown.items():
            client = self.clients.get(connection_id, "")
            for side in range(len(SIDES)):
                counts = SideCounts(*grown[side * WIDTH : (side + 1) * WIDTH])
                sent = counts.retransmitted_segments, counts.zero_windows
                if any(sent):
                    found.append(ClientSegments(client, side, *(max(one, 0) for one in sent)))
        self._grown = {}
        for connection_id in self._ended:
            self.clients.pop(connection_id, None)
        self._ended = []
        return found

    def look(self) -> tuple[SideCounts, SideCounts]:
        """Poll the next connections; return the counts of client and broker.

        They never fall: a poll may take another side for the client than the row does later.
        """
        for connection_id in self._turns.next():
            state = self._states.get(connection_id)
            if state is not None:
                self._replace(connection_id, counts_of(state))
                if state.last_client_id is not None:
                    self.clients[connection_id] = state.last_client_id
        self._most = tuple(map(max, self._most, self._sum))
        return SideCounts(*self._most[:WIDTH]), SideCounts(*self._most[WIDTH:])

    def _replace(self, connection_id: int, counts: tuple[int, ...]) -> None:
        before = self._open.get(connection_id, NO_COUNTS)
        self._open[connection_id] = counts
        if counts == before:
            return
        grown = self._grown.setdefault(connection_id, list(NO_COUNTS))
        for at, count in enumerate(counts):
            self._sum[at] += count - before[at]
            grown[at] += count - before[at]


def counts_of(state: ConnectionState) -> tuple[int, ...]:
    """Counts as in COLUMNS; while that is unknown, the opener is taken for the client."""
    up = OPENER if state.request_direction < 0 else state.request_direction
    counts = state.connection.counts
    return (*side_counts(counts[up]), *side_counts(counts[1 - up]))


def side_counts(counts: DirectionCounts) -> SideCounts:
    return SideCounts(
        counts.payload_bytes,
        counts.retransmitted_segments,
        counts.zero_windows,
        counts.zero_window_ns,
    )


def is_refused(batch: pa.RecordBatch) -> Flags:
    """Per row of `connections`, whether a SYN was answered by a reset of the broker's side."""
    resets = np.array([side == "broker" for side in batch["rst_by"].to_pylist()], bool)
    opened = np.array(batch["syn_seen"].to_pylist(), bool)
    is_answered = ints_of(batch["handshake_rtt_ns"]) != NULL
    for way in WAYS:
        is_answered |= ints_of(batch[f"bytes_{way}"]) > 0
    refused: Flags = resets & opened & ~is_answered
    return refused
