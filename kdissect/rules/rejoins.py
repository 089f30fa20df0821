"""Members that had to join again, and held no partitions until they were assigned some.

It needs no history of the group.

Classic groups: a member is told of a rebalance, joins again and waits for the others. An eager
assignor takes all partitions from it before it joins, so it has none until its SyncGroup.

Groups of the new protocols (KIP-848, 1071): a rebalance takes only those partitions that move, and
members are not told to join. One that is refused as fenced or unknown gives up all, joins
with epoch 0, and has none until a response assigns some. Share groups (KIP-932) are left out: their
members share partitions, so others read on.
"""

from typing import Final, NamedTuple

import pyarrow as pa

from kdissect.analysis.dimensions import SECOND_NS
from kdissect.analysis.summary.arrow_columns import (
    has_text,
    has_word,
    integers,
    is_set,
    text_groups,
    texts,
)

MOST: Final = 10_000  # members; rebalances
EAGER: Final = frozenset(("range", "roundrobin", "sticky"))
TOLD: Final = "REBALANCE_IN_PROGRESS"
# Of a heartbeat of the new protocols: the member must give up all and join again.
REFUSED: Final = ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID")
WAIT_NS: Final = SECOND_NS
EVENTS: Final = ("heartbeat", "join", "sync", "assign", "leave")
SHARE: Final = "ShareGroupHeartbeat"
COLUMNS: Final = (
    "event", "group_id", "member_id", "client_id", "protocol", "assignment", "error",
)  # fmt: skip


class Event(NamedTuple):
    """An event of a member: when it was sent, and COLUMNS."""

    time_ns: int
    event: str
    group: str
    member: str
    client: str
    protocol: str
    assignment: str
    error: str


class Wait(NamedTuple):
    """The longest wait of a group's members, from their join until they had partitions."""

    group: str
    client: str
    protocol: str
    waited_ns: int
    first_ns: int
    rebalances: int  # in which a member waited so long
    refused: str  # error for which it joined again; "" in classic groups


class Told(NamedTuple):
    """A member that has to join again, and when it has."""

    refused: str  # "" in classic groups
    joined_ns: int | None = None


class Rejoins:
    """Collects the waits by group; constant memory."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], Told] = {}  # by group and member
        self._waits: dict[str, Wait] = {}
        self._counted: set[tuple[str, int]] = set()  # group and generation
        self._share_groups: set[str] = set()

    def add_exchanges(self, batch: pa.RecordBatch) -> None:
        """Keep which groups are share groups, which rows of members do not tell."""
        for api, rows in text_groups(batch, "api"):
            if api == SHARE and len(self._share_groups) < MOST:
                self._share_groups.update(map(str, set(texts(batch, "group_id")[rows])))

    def add(self, batch: pa.RecordBatch) -> None:
        """Look at the events of groups in the order in which they were sent."""
        is_told = has_text(batch, "error", TOLD)
        is_told |= has_word(batch, "error", REFUSED) & has_text(batch, "event", "heartbeat")
        if not (is_told.any() or self._told):
            return
        is_of = has_word(batch, "event", EVENTS) & (is_told | ~is_set(batch, "error"))
        rows = is_of.nonzero()[0]
        times, generations = integers(batch, "time", 0), integers(batch, "generation", -1)
        columns = [texts(batch, name) for name in COLUMNS]
        leads = batch.column("is_leader").to_pylist()  # null in groups of the new protocols
        for row in rows[times[rows].argsort(kind="stable")].tolist():
            event = Event(int(times[row]), *(str(one[row] or "") for one in columns))
            if not (event.event == "assign" and leads[row] is not None):
                self._look(event, int(generations[row]))

    def _look(self, event: Event, generation: int) -> None:
        key = (event.group, event.member)
        told = self._told.get(key)
        if event.event == "heartbeat":
            self._tell(key, "" if event.error == TOLD else event.error)
        elif told is None:
            return
        elif event.event == "join" and not event.error:
            self._told[key] = told._replace(joined_ns=joined_ns(event, told))
        elif event.event == "leave" or has_partitions(event, told):
            del self._told[key]
            if told.joined_ns is not None and event.event != "leave":
                waited_ns = event.time_ns - told.joined_ns
                self._take(
                    Wait(event.group, event.client, event.protocol, waited_ns, told.joined_ns, 1,
                         told.refused),
                    generation,
                )  # fmt: skip

    def _tell(self, key: tuple[str, str], refused: str) -> None:
        known = self._told.get(key)
        if known is not None and bool(known.refused) == bool(refused):
            return
        if known is not None or len(self._told) < MOST:
            self._told[key] = Told(refused)

    def _take(self, wait: Wait, generation: int) -> None:
        if wait.waited_ns < WAIT_NS or len(self._counted) >= MOST:
            return
        is_new = (wait.group, generation) not in self._counted
        self._counted.add((wait.group, generation))
        if (known := self._waits.get(wait.group)) is not None:
            wait = max(known, wait, key=lambda one: one.waited_ns)._replace(
                first_ns=min(known.first_ns, wait.first_ns),
                rebalances=known.rebalances + is_new,
            )
        self._waits[wait.group] = wait

    def waits(self) -> list[Wait]:
        """The longest first."""
        is_full = len(self._share_groups) >= MOST
        found = [
            one
            for one in self._waits.values()
            if not (one.refused and (is_full or one.group in self._share_groups))
        ]
        return sorted(found, key=lambda one: (-one.waited_ns, one.group))


def joined_ns(event: Event, told: Told) -> int | None:
    """When a member began to wait; None where it has partitions."""
    is_without = not event.assignment if told.refused else event.protocol in EAGER
    return event.time_ns if is_without else None


def has_partitions(event: Event, told: Told) -> bool:
    """Return whether the event ends a member's wait."""
    if told.refused:
        return event.event == "assign" and bool(event.assignment)
    return event.event == "sync"
