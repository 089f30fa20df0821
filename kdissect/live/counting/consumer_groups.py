"""Consumer groups of the window, and whether they are rebalancing.

A group rebalances from the first sign (a join, a response that says so, a plan) until a member got
its new assignment, or confirms it. In the new protocols each member changes independently: `assign`
begins it, `owned` ends it. Without an end it is considered over after a time without signs.
"""

from collections.abc import Container, Mapping
from typing import Final

import numpy as np

from kdissect.live.counting.columns import NONE, Flags, KnownNames, runs
from kdissect.live.counting.merged_buckets import MergedBuckets
from kdissect.live.counting.snapshot import LISTED, Grouped
from kdissect.live.counting.time_buckets import MemberColumns, picked
from kdissect.live.counting.waiting import Late
from kdissect.protocol.readers import NULL
from kdissect.tables.matrices import Ints

# Members rejoin within a poll interval; a minute is the default wait of brokers.
SIGN_NS: Final = 60_000_000_000
BEGINS: Final = frozenset({"join", "assign"})
ENDS: Final = frozenset({"sync", "owned", "epoch"})
# Errors that ask a member to join, or how to.
DISTURBED: Final = frozenset({"REBALANCE_IN_PROGRESS", "MEMBER_ID_REQUIRED"})


def grouping(merged: MergedBuckets, late: Mapping[int, Late], now_ns: int) -> tuple[Grouped, ...]:
    """Groups with events, rebalancing ones first."""
    rows = merged.members()
    order = np.lexsort((rows.time, rows.group))
    rows = picked(rows, order)
    names = merged.names
    found = of_groups(rows, rebalancing(rows, names.events, names.errors, now_ns), merged)
    found |= waiting_groups(found, late, merged)
    by_need = sorted(found.values(), key=lambda group: (not group.is_rebalancing, -group.events))
    return tuple(by_need[:LISTED])


def of_groups(
    rows: MemberColumns, is_rebalancing: Flags, merged: MergedBuckets
) -> dict[str, Grouped]:
    """Summaries of groups, for rows ordered by group and then time."""
    if not len(rows.group):
        return {}
    first = runs(rows.group)
    last = np.append(first[1:], len(rows.group)) - 1
    members = members_of(rows, merged.names.events)
    generation = last_where(rows.generation >= 0, first)
    # Only the busiest are shown, so only those become objects.
    chosen = np.lexsort((first - last, ~is_rebalancing))[:LISTED].tolist()
    names = merged.names
    found = {}
    for at in chosen:
        end = int(last[at])
        error = names.errors.texts[rows.error[end]]
        event = names.events.texts[rows.event[end]]
        name = names.groups.texts[rows.group[end]]
        found[name] = Grouped(
            name,
            end - int(first[at]) + 1,
            int(members[at]),
            int(rows.generation[generation[at]]) if generation[at] >= 0 else -1,
            f"{event}: {error}" if error else event,
            int(rows.time[end]),
            bool(is_rebalancing[at]),
        )
    return found


def rebalancing(rows: MemberColumns, events: KnownNames, errors: KnownNames, now_ns: int) -> Flags:
    """Per group, whether it is rebalancing; rows as in `of_groups`."""
    if not len(rows.group):
        return np.zeros(0, bool)
    succeeded = rows.error == NONE
    begins = flagged(events, BEGINS)[rows.event] & succeeded
    begins |= flagged(errors, DISTURBED)[rows.error]
    ends = flagged(events, ENDS)[rows.event] & succeeded
    first = runs(rows.group)
    begun = np.maximum.reduceat(np.where(begins, rows.time, int(NULL)), first)
    ended = np.maximum.reduceat(np.where(ends, rows.time, int(NULL)), first)
    flags: Flags = (begun > ended) & (begun > now_ns - SIGN_NS)
    return flags


def flagged(names: KnownNames, wanted: Container[str]) -> Flags:
    """Per code, whether its text is in `wanted`."""
    return np.array([name in wanted for name in names.texts], bool)


def members_of(rows: MemberColumns, events: KnownNames) -> Ints:
    """Per group, the number of members seen that have not left; rows as in `of_groups`."""
    order = np.lexsort((rows.time, rows.member, rows.group))
    group, member = rows.group[order], rows.member[order]
    last = np.append(runs(group, member)[1:], len(group)) - 1
    stays = (rows.event[order][last] != events.find("leave")) & (member[last] != NONE)
    # Groups are numbered in order.
    number = np.cumsum(np.diff(group[last], prepend=group[:1]) != 0)
    counts: Ints = np.bincount(number, stays).astype(np.int64)
    return counts


def last_where(flags: Flags, first: Ints) -> Ints:
    """The last flagged row in each run of rows; -1 if there is none."""
    found: Ints = np.maximum.reduceat(np.where(flags, np.arange(len(flags)), -1), first)
    return found


def waiting_groups(
    found: Mapping[str, Grouped], late: Mapping[int, Late], merged: MergedBuckets
) -> dict[str, Grouped]:
    """Groups whose members are waiting for the others now, so that there are no events yet."""
    waiting: dict[str, Grouped] = {}
    for one in late.values():
        known = found.get(one.group_id)
        if not one.group_id or one.waits.api not in ("JoinGroup", "SyncGroup"):
            continue
        if known is not None:
            waiting[one.group_id] = known._replace(is_rebalancing=True)
        elif merged.is_seen is None:
            waits = f"waits: {one.waits.api}"
            since = one.waits.since_ns
            waiting[one.group_id] = Grouped(one.group_id, 0, 0, -1, waits, since, True)
    return waiting
