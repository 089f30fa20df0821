"""Rebalances and failovers on the time axis of a page."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from kdissect.report.axis import MS, Axis
from kdissect.rules.context import Context
from kdissect.rules.evidence_rows import ROWS, Row, in_ns
from kdissect.text.human import time

NAMED: Final = 3  # names that a band says, of those that begin in its first bin
NAME_LENGTH: Final = 80
MOST_GROUPS: Final = 16  # of which the longest rebalance is kept


class Happening(NamedTuple):
    """A kind of event: its evidence, start and end of a row in ns, and the name it has."""

    kind: str
    evidence: str
    ends: Callable[[Row], tuple[int, int]]
    name: Callable[[Row], str]


def of_rebalance(row: Row) -> tuple[int, int]:
    """Start and end; one without a captured end is drawn where it starts."""
    start = in_ns(row["started"]) or 0
    return start, in_ns(row["ended"]) or start


def of_failover(row: Row) -> tuple[int, int]:
    """From the first error to the first success, or to the last error if none was captured."""
    start = in_ns(row["started"]) or 0
    return start, start + int(row["blackout_ns"] or row["failing_ns"] or 0)


KINDS: Final = (
    Happening("rebalance", "rebalance_times", of_rebalance,
              lambda row: f"{row['group_id']}: {row['cause']}"),
    Happening("failover", "failover_times", of_failover,
              lambda row: f"{row['topic']}-{row['partition']} ({row['access']})"),
)  # fmt: skip


class Happenings:
    """What a page draws of the evidence for pages; `trouble` are the reasons for what is missing.

    `bands` are the times with at least one rebalance or failover, bins that touch in one; `rows`
    are the first of each kind by time.
    """

    def __init__(self, seen: Context, axis: Axis) -> None:
        self.bands = [band for kind in KINDS for band in bands_of(kind, seen, axis)]
        self.rows = {
            kind.kind: [shown(row) for row in seen.evidence.get(kind.evidence, [])[:ROWS]]
            for kind in KINDS
        }
        self.more = [
            kind.kind for kind in KINDS if len(seen.evidence.get(kind.evidence, ())) > ROWS
        ]
        self.longest = longest(seen.every("rebalance_times"))
        self.trouble = [f"{name.replace('_', ' ')}: {why}" for name, why in seen.failures.items()]
        self.trouble += [f"{name.replace('_', ' ')}: only the first" for name in seen.unread]


def bands_of(kind: Happening, seen: Context, axis: Axis) -> Iterator[dict[str, Any]]:
    """The bins in which something of a kind happens, those that touch as one band."""
    depth = np.zeros(axis.count + 1, np.int64)
    begun = np.zeros(axis.count, np.int64)
    names: dict[int, list[str]] = {}
    for row in seen.every(kind.evidence):
        first, last = map(axis.place, kind.ends(row))
        depth[first] += 1
        depth[last + 1] -= 1
        begun[first] += 1
        own = names.setdefault(first, [])
        if len(own) < NAMED:
            own.append(kind.name(row)[:NAME_LENGTH])
    for first, last in runs(np.cumsum(depth[:-1]) > 0):
        yield {
            "kind": kind.kind, "from_ms": axis.start_ns // MS + first * axis.width_ns // MS,
            "to_ms": axis.start_ns // MS + (last + 1) * axis.width_ns // MS,
            "count": int(begun[first : last + 1].sum()), "names": names[first],
        }  # fmt: skip


def runs(flags: "np.ndarray[Any, Any]") -> Iterator[tuple[int, int]]:
    """First and last place of each run of true ones.

    >>> list(runs(np.array([True, False, True, True])))
    [(0, 0), (2, 3)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    for first, after in edges.reshape(-1, 2).tolist():
        yield first, after - 1


def longest(rows: Iterable[Row]) -> list[tuple[str, int, int]]:
    """Group, start and end of the longest rebalances of all, one of each group at the most."""
    found: dict[str, tuple[int, int, int]] = {}
    for row in rows:
        start, end = of_rebalance(row)
        group, before = str(row["group_id"] or ""), found.get(str(row["group_id"] or ""))
        if group and (before is None or end - start > before[0]):
            found[group] = end - start, start, end
            if len(found) > MOST_GROUPS:
                del found[min(found, key=lambda name: found[name])]
    order = sorted(found.items(), key=lambda one: -one[1][0])
    return [(group, start, end) for group, (_, start, end) in order]


def shown(row: Row) -> dict[str, Any]:
    """A row for a table: times as text."""
    found = dict(row)
    for name in ("started", "ended"):
        if name in found:
            ns = in_ns(found[name])
            found[name] = None if ns is None else time(ns)
    return found
