"""Partitions on the screen: their ends, how fast they grow, and the group that is furthest behind.

Rates are of the end between two marks; a mark is at least `MARK_NS` old when it is used, so that a
partition with a batch every few seconds does not flicker.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kdissect.capture.packet import SECOND_NS
from kdissect.live.counting.lag import NO_POSITIONS, Partition, Positions, Seen, lags
from kdissect.live.counting.snapshot import LISTED, Grouped, PartitionLag

MARK_NS: Final = 10 * SECOND_NS


class Marks(NamedTuple):
    """Earlier ends of a partition: the one that rates are of, and the one that will replace it."""

    old: Seen
    new: Seen


class OffsetState(NamedTuple):
    """Positions and records per second of partitions, of one worker."""

    positions: Positions = NO_POSITIONS
    rates: Mapping[Partition, float] = {}


class EndRates:
    """Records per second by partition."""

    def __init__(self) -> None:
        self._marks: dict[Partition, Marks] = {}

    def of(self, positions: Positions, now_ns: int) -> dict[Partition, float]:
        """Rates at this tick; 0 where the end was seen for the first time, or went back."""
        kept: dict[Partition, Marks] = {}
        rates: dict[Partition, float] = {}
        for partition, (_, end) in positions.ends.items():
            now = now_ns, end
            marks = self._marks.get(partition, Marks(now, now))
            if end < marks.old[1] or now_ns < marks.old[0]:
                marks = Marks(now, now)
            elif now_ns - marks.new[0] >= MARK_NS:
                marks = Marks(marks.new, now)
            kept[partition] = marks
            seconds = max(now_ns - marks.old[0], SECOND_NS) / SECOND_NS
            rates[partition] = (end - marks.old[1]) / seconds
        self._marks = kept
        return rates


def merge_rates(parts: Iterable[Mapping[Partition, float]]) -> dict[Partition, float]:
    """Rates of several workers: each that sees a partition sees its end."""
    found: dict[Partition, float] = {}
    for part in parts:
        for partition, rate in part.items():
            found[partition] = max(rate, found.get(partition, 0.0))
    return found


def partition_lags(state: OffsetState, topic: str = "") -> tuple[PartitionLag, ...]:
    """The first partitions by lag, and by rate; of a topic, if one is named."""
    found: dict[Partition, PartitionLag] = {}
    for (name, index), (_, end) in state.positions.ends.items():
        if topic in ("", name):
            rate = state.rates.get((name, index), 0.0)
            found[name, index] = PartitionLag(name, index, end, rate, "", -1, -1, 0)
    for (group, name, index), (_, offset) in state.positions.committed.items():
        one = found.get((name, index))
        if one is not None:
            lag = max(one.end - offset, 0)
            one = one._replace(groups=one.groups + 1)
            if (lag, group) > (one.lag, one.group):
                one = one._replace(group=group, committed=offset, lag=lag)
            found[name, index] = one
    by_lag = sorted(found.values(), key=lambda one: (-one.lag, -one.rate, one[:2]))
    by_rate = sorted(by_lag[LISTED:], key=lambda one: -one.rate)
    return tuple(by_lag[:LISTED] + [one for one in by_rate[:LISTED] if one.rate > 0])


def with_lags(
    groups: Iterable[Grouped], positions: Positions, is_alone: bool = False
) -> tuple[Grouped, ...]:
    """The groups with their lag; then those without events that have committed, the worst first.

    With `is_alone` the latter are left out.
    """
    of_groups = lags(positions)
    found = {one.group_id: one for one in groups}
    for group_id, one in found.items():
        known = of_groups.get(group_id)
        if known is not None:
            found[group_id] = one._replace(lag=known.records, lag_partitions=known.partitions)
    if is_alone:
        return (*found.values(),)
    last: dict[str, int] = {}
    for (group, _, _), (time_ns, _) in positions.committed.items():
        last[group] = max(time_ns, last.get(group, 0))
    quiet = [
        Grouped(group, 0, 0, -1, "commit", last[group], False, known.records, known.partitions)
        for group, known in of_groups.items()
        if group not in found
    ]
    quiet.sort(key=lambda one: (-one.lag, one.group_id))
    return (*found.values(), *quiet)[:LISTED]
