"""Ends of partitions, and the lowest commits of groups: how far one may be behind."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import integers, names_and_places, reduced

MOST_PARTITIONS: Final = 10_000
LONG_LOG: Final = 20  # offset of an end; a group that is behind many shorter ones is not reported
Offsets = npt.NDArray[np.int64]


class EndsAndCommits:
    """By topic and partition: the highest known end and the lowest commit; constant memory."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], int] = {}
        self._commits: dict[tuple[str, int], int] = {}

    def add(self, batch: pa.RecordBatch, ends: Offsets) -> None:
        """Take a batch of `partitions`, and the ends that its rows show, -1 where none."""
        commits = integers(batch, "committed_offset", -1)
        if not (commits >= 0).any() and not (ends >= LONG_LOG).any():
            return
        partitions = integers(batch, "partition", -1)
        topics, places = names_and_places(batch, "topic")
        for kept, choose, offsets in (
            (self._ends, np.maximum, ends),
            (self._commits, np.minimum, commits),
        ):
            rows = (offsets >= 0).nonzero()[0]
            found = reduced(choose, offsets[rows], places[rows], partitions[rows])
            for (place, partition), offset in zip(*found, strict=True):
                key = (topics[place], partition)
                if key in kept:
                    kept[key] = int(choose(offset, kept[key]))
                elif len(kept) < MOST_PARTITIONS:
                    kept[key] = offset

    def behind(self) -> int:
        """Records between all ends and commits, at the most; more where not known.

        What one group is behind is the sum over its partitions.
        """
        if max(len(self._commits), len(self._ends)) >= MOST_PARTITIONS:
            return sum(self._ends.values())
        behind = (self._ends.get(place, 0) - offset for place, offset in self._commits.items())
        return sum(max(0, one) for one in behind)
