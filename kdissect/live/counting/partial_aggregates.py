"""Partial aggregates of complete time buckets: computed once, merged many times."""

from typing import NamedTuple

import numpy as np

from kdissect.analysis.tally import Tally, merged
from kdissect.live.counting.columns import KnownNames
from kdissect.live.counting.latency_groups import exchange_tally, topic_tally
from kdissect.live.counting.merged_buckets import EVERYTHING, MergedBuckets
from kdissect.live.counting.slowest import Candidates, candidates
from kdissect.live.counting.time_buckets import TimeBucket, Vocabulary


class PartialAggregate(NamedTuple):
    """Aggregate of the exchanges of some time buckets, within a focus."""

    apis: Tally
    clients: Tally
    topics: Tally
    slowest: Candidates


def fold(joined: MergedBuckets) -> PartialAggregate:
    """Aggregate of all that `joined` selects."""
    return PartialAggregate(
        exchange_tally(joined, "api"),
        exchange_tally(joined, "client"),
        topic_tally(joined),
        candidates(joined),
    )


class PartialAggregates:
    """Caches the aggregate of each time bucket while it is in use."""

    def __init__(self) -> None:
        # By identity of the time bucket, which is kept alive here, so that the id is not reused.
        self._known: dict[int, tuple[TimeBucket, PartialAggregate]] = {}

    def of(self, joined: MergedBuckets) -> PartialAggregate:
        """The aggregate of what `joined` selects."""
        if joined.focus != EVERYTHING or not joined.buckets:
            return fold(joined)
        known = self._known
        found = {id(one): self._of_bucket(one, known, joined.names) for one in joined.buckets}
        # Two threads may do the same; the later result is valid too.
        self._known = found
        folds = [made for _, made in found.values()]
        rows = [one.slowest.row + start for one, start in zip(folds, joined.starts, strict=False)]
        return PartialAggregate(
            merged([one.apis for one in folds]),
            merged([one.clients for one in folds]),
            merged([one.topics for one in folds]),
            Candidates(np.concatenate(rows), np.concatenate([one.slowest.own for one in folds])),
        )

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
