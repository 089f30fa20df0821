"""Coordinators: brokers that answered the requests of groups, and changes between them."""

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kdissect.analysis.dimensions import SECOND_NS
from kdissect.analysis.summary.arrow_columns import (
    grouped,
    has_word,
    integers,
    is_set,
    names_and_places,
    texts,
)

# Requests that only the coordinator of a group answers without an error, sent as long as a client
# is a member or commits.
OF_COORDINATORS: Final = (
    "JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "TxnOffsetCommit",
    "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat",
)  # fmt: skip
MOST: Final = 10_000  # groups' clients with a connection each
ENOUGH: Final = 3  # responses sufficient to know a client's request interval
STOP_NS: Final = 2 * SECOND_NS
STOP_RATIO: Final = 3  # of the usual time between two answers
ANSWERED: Final = "answered"


class Answers(NamedTuple):
    """Answers of a broker to a client of a group."""

    number: int
    first_asked_ns: int
    first_ns: int
    last_ns: int
    first_packet: int

    def and_also(self, other: "Answers") -> "Answers":
        """Both together."""
        first = min(self, other, key=lambda one: one.first_ns)
        return first._replace(
            number=self.number + other.number, last_ns=max(self.last_ns, other.last_ns)
        )


class Move(NamedTuple):
    """A coordinator's move as a group's clients saw it; the times are those of the slowest."""

    group: str
    before: str
    after: str
    stopped_ns: int
    usual_ns: int
    last_ns: int
    first_ns: int
    packet: int
    clients: tuple[str, ...]


class Coordinators:
    """Collects answers by group, client and connection; constant memory."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, int], Answers] = {}
        self._brokers: dict[int, str] = {}

    def add_exchanges(self, batch: pa.RecordBatch) -> None:
        """Count the successful exchanges of groups."""
        is_of = is_set(batch, "group_id") & ~is_set(batch, "error")
        is_of &= is_set(batch, "response_end")
        if not is_of.any():
            return
        is_of &= has_word(batch, "api", OF_COORDINATORS)
        is_of &= has_word(batch, "outcome", (ANSWERED,))
        rows = is_of.nonzero()[0]
        if not len(rows):
            return
        asked, answered, packets = (
            integers(batch, name, 0)
            for name in ("request_start", "response_end", "response_packet")
        )
        for key, of in _keys_in_order(batch, rows):
            first = of[np.argmin(answered[of])]
            found = Answers(
                len(of), int(asked[first]), int(answered[first]), int(answered[of].max()),
                int(packets[first]),
            )  # fmt: skip
            if key in self._answers:
                self._answers[key] = self._answers[key].and_also(found)
            elif len(self._answers) < MOST:
                self._answers[key] = found

    def add_connections(self, batch: pa.RecordBatch) -> None:
        """Keep the brokers of those connections, and of others while there is room.

        The row of a connection may come before those of its exchanges.
        """
        wanted = {connection for _, _, connection in self._answers}
        ids = integers(batch, "connection_id", -1).tolist()
        room = MOST - len(self._brokers)
        rows = [row for row, one in enumerate(ids) if one in wanted]
        rows += [row for row, one in enumerate(ids) if one not in wanted][: max(room, 0)]
        addresses, ports = texts(batch, "broker_ip"), integers(batch, "broker_port", 0)
        for row in rows:
            self._brokers[ids[row]] = f"{addresses[row]}:{ports[row]}"

    def moves(self) -> list[Move]:
        """Moves during which a client got no answer for long, the longest of each group first."""
        by_client: dict[tuple[str, str], dict[str, Answers]] = {}
        for (group, client, connection), answers in self._answers.items():
            broker = self._brokers.get(connection)
            if broker is not None:
                of = by_client.setdefault((group, client), {})
                of[broker] = of[broker].and_also(answers) if broker in of else answers
        found: dict[tuple[str, str, str], Move] = {}
        for (group, client), of in by_client.items():
            for move in _moves_of(group, client, of):
                key = (group, move.before, move.after)
                known = found.get(key, move)
                longest = max(known, move, key=lambda one: one.stopped_ns)
                clients = dict.fromkeys((*known.clients, *move.clients))
                found[key] = longest._replace(clients=tuple(clients))
        return sorted(found.values(), key=lambda one: (-one.stopped_ns, one.group))


def _keys_in_order(
    batch: pa.RecordBatch, rows: npt.NDArray[np.intp]
) -> list[tuple[tuple[str, str, int], npt.NDArray[np.intp]]]:
    """Group, client and connection of rows, each with its rows, in the order of the first ones."""
    groups_of, group_places = names_and_places(batch, "group_id")
    clients_of, client_places = names_and_places(batch, "client_id")
    connections = integers(batch, "connection_id", 0)[rows]
    names = group_places[rows] * len(clients_of) + client_places[rows]
    order, starts = grouped(names, connections)
    bounds = [*starts.tolist(), len(order)]
    found = []
    for start, stop in pairwise(bounds):
        group, client = divmod(int(names[order[start]]), len(clients_of))
        key = (groups_of[group], clients_of[client], int(connections[order[start]]))
        found.append((key, rows[order[start:stop]]))
    return sorted(found, key=lambda one: int(one[1][0]))


def _moves_of(group: str, client: str, of: dict[str, Answers]) -> list[Move]:
    """The moves that stopped a client: no answer for longer than between two of them before."""
    ordered = sorted(of.items(), key=lambda one: one[1].first_ns)
    found = []
    for (before, old), (after, new) in pairwise(ordered):
        if old.number < ENOUGH or new.first_asked_ns < old.last_ns:
            continue
        usual_ns = (old.last_ns - old.first_ns) // (old.number - 1)
        stopped_ns = new.first_ns - old.last_ns
        if stopped_ns >= max(STOP_NS, STOP_RATIO * usual_ns):
            found.append(
                Move(group, before, after, stopped_ns, usual_ns, old.last_ns, new.first_ns,
                     new.first_packet, (client,))
            )  # fmt: skip
    return found
