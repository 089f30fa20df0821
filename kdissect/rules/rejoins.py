"""Members that were told of a rebalance, joined again and waited for the others.

It needs no history of the group: an eager assignor takes all partitions from a member before it
joins, so it had none until its SyncGroup.
"""

from typing import Final, NamedTuple

import pyarrow as pa

from kdissect.analysis.dimensions import SECOND_NS
from kdissect.analysis.summary.arrow_columns import has_text, has_word, integers, is_set, texts

MOST: Final = 10_000  # members; rebalances
EAGER: Final = frozenset(("range", "roundrobin", "sticky"))
TOLD: Final = "REBALANCE_IN_PROGRESS"
WAIT_NS: Final = SECOND_NS
EVENTS: Final = ("heartbeat", "join", "sync")


class Wait(NamedTuple):
    """The longest wait of a group's members between their join and their sync."""

    group: str
    client: str
    protocol: str
    waited_ns: int
    first_ns: int
    rebalances: int  # in which a member waited so long


class Rejoins:
    """Collects the waits by group; constant memory."""

    def __init__(self) -> None:
        # Group and member → when it joined again, or None while it has only been told.
        self._told: dict[tuple[str, str], int | None] = {}
        self._waits: dict[str, Wait] = {}
        self._counted: set[tuple[str, int]] = set()  # group and generation

    def add(self, batch: pa.RecordBatch) -> None:
        """Look at the events of classic groups in the order in which they were sent."""
        is_told = has_text(batch, "error", TOLD)
        if not (is_told.any() or self._told):
            return
        is_of = has_word(batch, "event", EVENTS) & (is_told | ~is_set(batch, "error"))
        rows = is_of.nonzero()[0]
        times, generations = integers(batch, "time", 0), integers(batch, "generation", -1)
        names = ("event", "group_id", "member_id", "client_id", "protocol")
        columns = [texts(batch, name) for name in names]
        for row in rows[times[rows].argsort(kind="stable")].tolist():
            event, group, member, client, protocol = (str(one[row] or "") for one in columns)
            key, time_ns = (group, member), int(times[row])
            if event == "heartbeat":
                if is_told[row] and len(self._told) < MOST:
                    self._told.setdefault(key, None)
            elif event == "join" and key in self._told:
                self._told[key] = time_ns if protocol in EAGER else None
            elif event == "sync" and (joined_ns := self._told.pop(key, None)) is not None:
                wait = Wait(group, client, protocol, time_ns - joined_ns, joined_ns, 1)
                self._take(wait, int(generations[row]))

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
        return sorted(self._waits.values(), key=lambda one: (-one.waited_ns, one.group))
