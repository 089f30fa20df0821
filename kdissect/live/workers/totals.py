"""Statuses of several workers as one."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from kdissect.live.encryption import Undecrypted
from kdissect.live.listener import Status
from kdissect.pipeline import Balance
from kdissect.sources.packet_source import Counts


def total(statuses: Sequence[Status], memory: int = 0, cpu_seconds: float = 0.0) -> Status:
    """Sums of one or more; memory and CPU time of this process are added.

    The fill level of the buffer and the level of shedding are those of the worker that is worst.
    """
    return Status(
        max(one.now_ns for one in statuses),
        balance_of([one.balance for one in statuses]),
        Counts(*map(sum, zip(*(one.packet_source for one in statuses), strict=True))),
        max(one.backlog for one in statuses),
        sum(one.open_connections for one in statuses),
        level=max(one.level for one in statuses),
        shed=added(one.shed for one in statuses),
        memory=memory + sum(one.memory for one in statuses),
        cpu_seconds=cpu_seconds + sum(one.cpu_seconds for one in statuses),
        undecrypted=Undecrypted(
            added(one.undecrypted.reasons for one in statuses),
            sum(one.undecrypted.bytes for one in statuses),
        ),
    )


def balance_of(balances: Sequence[Balance]) -> Balance:
    """Sum of each count."""
    found: dict[str, Any] = {}
    for field in fields(Balance):
        values = [getattr(one, field.name) for one in balances]
        found[field.name] = added(values) if isinstance(values[0], Mapping) else sum(values)
    return Balance(**found)


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sum of counts by name."""
    found: Counter[str] = Counter()
    for one in counts:
        found.update(one)
    return dict(found)
