"""Rebalances, failovers and the lag of groups on the time axis of a page."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from kdissect.report.axis import MS, Axis
from kdissect.rules.context import Context
from kdissect.rules.evidence_rows import ROWS, Row, in_ns
from kdissect.rules.preconditions import LAG, PAGE_GATES
from kdissect.text.human import time

NAMED: Final = 3  # names that a band says, of those that begin in its first bin
NAME_LENGTH: Final = 80
GROUPS: Final = 10  # with a line of their own


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
        self.lag, self.groups_left_out = lag_of(seen.every(LAG), axis)
        self.is_lag_unasked = LAG not in seen.evidence and LAG not in seen.failures
        self.is_lag_unasked &= PAGE_GATES[LAG](seen)
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


def lag_of(rows: Iterable[Row], axis: Axis) -> tuple[list[dict[str, Any]], int]:
    """Lag by bin of the groups that are furthest behind, null before it is known; others' number.

    One group is held at a time: rows come by group.
    """
    found: list[tuple[int, int, str, list[int | None]]] = []
    groups = 0
    for name, own in by_group(rows):
        # Equal ones in their order.
        groups += 1
        values = values_of(own, axis)
        found.append((max((value or 0 for value in values), default=0), -groups, name, values))
        found.sort(reverse=True)
        del found[GROUPS:]
    return [{"name": name, "values": values} for *_, name, values in found], groups - len(found)


def by_group(rows: Iterable[Row]) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each group; they come in order of groups, and are at most a bin each."""
    name: object = None
    own: list[Row] = []
    for row in rows:
        if own and row["group_id"] != name:
            yield str(name), own
            own = []
        name = row["group_id"]
        own.append(row)
    if own:
        yield str(name), own


def values_of(rows: Iterable[Row], axis: Axis) -> list[int | None]:
    """The running sum of the changes, by bin."""
    change, known = np.zeros(axis.count, np.int64), np.zeros(axis.count, np.int64)
    for row in rows:
        place = axis.place(in_ns(row["bin"]) or 0)
        change[place] += row["change"]
        known[place] += row["partitions"]
    lags, is_known = np.cumsum(change).tolist(), (np.cumsum(known) > 0).tolist()
    return [lag if seen else None for lag, seen in zip(lags, is_known, strict=True)]


def shown(row: Row) -> dict[str, Any]:
    """A row for a table: times as text."""
    found = dict(row)
    for name in ("started", "ended"):
        if name in found:
            ns = in_ns(found[name])
            found[name] = None if ns is None else time(ns)
    return found
