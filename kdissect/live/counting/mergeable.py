"""Snapshots of several workers as one: tallies and lists are merged by name."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kdissect.analysis.tally import Tally, bin_count, chosen, merged
from kdissect.live.counting.columns import KnownNames
from kdissect.live.counting.degraded_connections import need
from kdissect.live.counting.lag import merge_positions
from kdissect.live.counting.latency_groups import timed, whole_of
from kdissect.live.counting.merged_buckets import EVERYTHING
from kdissect.live.counting.partition_lags import (
    OffsetState,
    merge_rates,
    partition_lags,
    with_lags,
)
from kdissect.live.counting.problem_messages import join_messages
from kdissect.live.counting.slowest import LISTED as LISTED_SLOWEST
from kdissect.live.counting.snapshot import (
    LISTED,
    ConnectionRate,
    DegradedConnection,
    Failing,
    Grouped,
    Snapshot,
)
from kdissect.live.listener import Status


class NamedTally(NamedTuple):
    """A tally whose key is an index in `names`."""

    names: list[str]
    tally: Tally


class MergeableSnapshot(NamedTuple):
    """A snapshot, the tallies that its percentiles are of, and the offsets that lag is of."""

    snapshot: Snapshot
    apis: NamedTally
    clients: NamedTally
    topics: NamedTally
    offsets: OffsetState = OffsetState()


def named(tally: Tally, names: KnownNames) -> NamedTally:
    """The tally with the names of its keys alone."""
    texts = [names.texts[code] for code in tally.key.tolist()]
    return NamedTally(texts, chosen(tally, np.arange(len(texts))))


def merge(parts: Sequence[MergeableSnapshot], status: Status) -> Snapshot:
    """One snapshot of one or more, with the status of all."""
    first = parts[0].snapshot
    shots = [part.snapshot for part in parts]
    seconds = max(shot.window_s for shot in shots)
    # A worker with more rows than are kept has a shorter window: what it counted stands for more.
    shares = [seconds / shot.window_s if shot.is_sampled else 1.0 for shot in shots]
    apis, clients, topics = (
        join([getattr(part, name) for part in parts], shares)
        for name in ("apis", "clients", "topics")
    )
    slowest = sorted(
        (one for shot in shots for one in shot.slowest),
        key=lambda one: one.wait_ns - one.latency_ns,
    )
    problems = sorted(status.problems.items(), key=lambda item: -item[1])
    offsets = OffsetState(
        merge_positions(part.offsets.positions for part in parts),
        merge_rates(part.offsets.rates for part in parts),
    )
    groups = join_groups(one for shot in shots for one in shot.groups)
    is_focused = bool(first.focus.api or first.focus.client)
    return first._replace(
        status=status,
        window_s=seconds,
        is_sampled=any(shot.is_sampled for shot in shots),
        whole=whole_of(apis.tally, seconds),
        packets_rate=sum(shot.packets_rate for shot in shots),
        apis=timed(apis.tally, apis.names, seconds),
        clients=timed(clients.tally, clients.names, seconds),
        topics=timed(topics.tally, topics.names, seconds),
        errors=join_errors(one for shot in shots for one in shot.errors),
        connections=join_connections(one for shot in shots for one in shot.connections),
        groups=with_lags(groups, offsets.positions, is_alone=first.focus != EVERYTHING),
        slowest=tuple(slowest[:LISTED_SLOWEST]),
        problems=tuple(problems),
        waiting=sum(shot.waiting for shot in shots),
        late=sum(shot.late for shot in shots),
        clients_seen=len(clients.tally.key),
        topics_seen=len(topics.tally.key),
        partitions=() if is_focused else partition_lags(offsets, first.focus.topic),
        connection_rates=join_rates(one for shot in shots for one in shot.connection_rates),
        connections_seen=sum(shot.connections_seen for shot in shots),
        problem_messages=join_messages(one for shot in shots for one in shot.problem_messages),
    )


def join(parts: Sequence[NamedTally], shares: Sequence[float]) -> NamedTally:
    """Merge tallies; the counts of each are first multiplied by its share."""
    codes: dict[str, int] = {}
    tallies = []
    for part, share in zip(parts, shares, strict=True):
        new = np.array([codes.setdefault(name, len(codes)) for name in part.names], np.int64)
        tally = part.tally
        key, bins = np.divmod(tally.cells, bin_count(tally.bits))
        tallies.append(
            tally._replace(
                key=new[tally.key],
                rows=np.rint(tally.rows * share).astype(np.int64),
                sums=tally.sums * share,
                cells=new[key] * np.int64(bin_count(tally.bits)) + bins,
            )
        )
    return NamedTally(list(codes), merged(tallies))


def join_errors(errors: Iterable[Failing]) -> tuple[Failing, ...]:
    """Errors by code and API, the most frequent first."""
    found: dict[tuple[str, str], Failing] = {}
    for one in errors:
        known = found.get((one.error, one.api))
        if known is not None:
            last = max(one, known, key=lambda each: each.last_ns)
            count, rate = one.errors + known.errors, one.rate + known.rate
            one = last._replace(errors=count, rate=rate)
        found[one.error, one.api] = one
    return tuple(sorted(found.values(), key=lambda one: -one.errors)[:LISTED])


def join_connections(connections: Iterable[DegradedConnection]) -> tuple[DegradedConnection, ...]:
    """The worst of the connections, each of which is of one worker."""
    order = sorted(connections, key=lambda one: need(one, one.waiting_ns >= 0), reverse=True)
    return tuple(order[:LISTED])


def join_rates(rates: Iterable[ConnectionRate]) -> tuple[ConnectionRate, ...]:
    """The first by exchanges and by bytes; each connection is of one worker."""
    every = list(rates)
    by_count = sorted(every, key=lambda one: -one.rate)[:LISTED]
    by_bytes = sorted(every, key=lambda one: -one.bytes_to_broker - one.bytes_to_client)[:LISTED]
    return tuple(dict.fromkeys([*by_count, *by_bytes]))


def join_groups(groups: Iterable[Grouped]) -> tuple[Grouped, ...]:
    """Groups whose members' connections are of several workers."""
    found: dict[str, Grouped] = {}
    for one in groups:
        known = found.get(one.group_id)
        if known is not None:
            last = max(one, known, key=lambda each: each.last_ns)
            one = last._replace(
                events=one.events + known.events,
                members=one.members + known.members,
                generation=max(one.generation, known.generation),
                is_rebalancing=one.is_rebalancing or known.is_rebalancing,
            )
        found[one.group_id] = one
    by_need = sorted(found.values(), key=lambda group: (not group.is_rebalancing, -group.events))
    return tuple(by_need[:LISTED])
