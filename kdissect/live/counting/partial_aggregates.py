"""What is known of slices once they are complete: `PartialAggregate`, counted once and added up
many times.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kdissect.live.counting.columns import KnownNames
from kdissect.live.counting.latency_groups import Part, exchange_part, topic_part
from kdissect.live.counting.merged_buckets import EVERYTHING, MergedBuckets
from kdissect.live.counting.slowest import Candidates, candidates
from kdissect.live.counting.time_buckets import TimeBucket, Vocabulary


class PartialAggregate(NamedTuple):
    """The exchanges of some slices, as far as a focus is on them."""

    apis: Part
    clients: Part
    topics: Part
    slowest: Candidates


def fold(joined: MergedBuckets) -> PartialAggregate:
    """All that `joined` sees, as one."""
    return PartialAggregate(
        exchange_part(joined, "api", len(joined.names.apis)),
        exchange_part(joined, "client", len(joined.names.clients)),
        topic_part(joined),
        candidates(joined),
    )


class PartialAggregates:
    """Remembers the fold of each slice while it is asked for."""

    def __init__(self) -> None:
        # By the identity of the slice, which is kept beside it and so has no other's.
        self._known: dict[int, tuple[TimeBucket, PartialAggregate]] = {}

    def of(self, joined: MergedBuckets) -> Sequence[PartialAggregate]:
        """Folds that are together what `joined` sees."""
        if joined.focus != EVERYTHING:
            return [fold(joined)]
        known = self._known
        found = {id(one): self._of_slice(one, known, joined.names) for one in joined.slices}
        # Two threads may do the same, and the later one is right too.
        self._known = found
        starts = joined.starts
        return [
            made._replace(slowest=made.slowest._replace(row=made.slowest.row + start))
            for (_, made), start in zip(found.values(), starts, strict=False)
        ]

    @staticmethod
    def _of_slice(
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
