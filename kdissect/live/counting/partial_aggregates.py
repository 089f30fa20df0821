"""Partial aggregates of complete time buckets: computed once, merged many times."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kdissect.live.counting.columns import KnownNames
from kdissect.live.counting.latency_groups import Part, exchange_part, topic_part
from kdissect.live.counting.merged_buckets import EVERYTHING, MergedBuckets
from kdissect.live.counting.slowest import Candidates, candidates
from kdissect.live.counting.time_buckets import TimeBucket, Vocabulary


class PartialAggregate(NamedTuple):
    """Aggregate of the exchanges of some time buckets, within a focus."""

    apis: Part
    clients: Part
    topics: Part
    slowest: Candidates


def fold(merged: MergedBuckets) -> PartialAggregate:
    """Aggregate of all that `merged` selects."""
    return PartialAggregate(
        exchange_part(merged, "api", len(merged.names.apis)),
        exchange_part(merged, "client", len(merged.names.clients)),
        topic_part(merged),
        candidates(merged),
    )


class PartialAggregates:
    """Caches the aggregate of each time bucket while it is in use."""

    def __init__(self) -> None:
        # By identity of the time bucket, which is kept alive here, so that the id is not reused.
        self._known: dict[int, tuple[TimeBucket, PartialAggregate]] = {}

    def of(self, merged: MergedBuckets) -> Sequence[PartialAggregate]:
        """Aggregates that together cover what `merged` selects."""
        if merged.focus != EVERYTHING:
            return [fold(merged)]
        known = self._known
        found = {id(one): self._of_bucket(one, known, merged.names) for one in merged.buckets}
        # Two threads may do the same; the later result is valid too.
        self._known = found
        starts = merged.starts
        return [
            made._replace(slowest=made.slowest._replace(row=made.slowest.row + start))
            for (_, made), start in zip(found.values(), starts, strict=False)
        ]

    @staticmethod
    def _of_bucket(
        one: TimeBucket,
        known: dict[int, tuple[TimeBucket, PartialAggregate]],
        names: Vocabulary[KnownNames],
    ) -> tuple[TimeBucket, PartialAggregate]:
        remembered = known.get(id(one))
        if remembered is not None:
            return remembered
        return one, fold(MergedBuckets([one], names))


def first_of(folds: Sequence[PartialAggregate]) -> Candidates:
    """The candidates of all."""
    if not folds:
        return Candidates(np.empty(0, np.int64), np.empty(0, np.int64))
    return Candidates(
        np.concatenate([one.slowest.row for one in folds]),
        np.concatenate([one.slowest.own for one in folds]),
    )
