"""Ends of partitions, and the lowest commits of groups: how far one may be behind."""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import groups, integers, text_groups

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
        for topic, rows in text_groups(batch, "topic"):
            _keep(self._ends, np.max, topic or "", partitions[rows], ends[rows])
            _keep(self._commits, np.min, topic or "", partitions[rows], commits[rows])

    def behind(self) -> int:
        """Records between all ends and commits, at the most; more where not known.

        What one group is behind is the sum over its partitions.
        """
        if max(len(self._commits), len(self._ends)) >= MOST_PARTITIONS:
            return sum(self._ends.values())
        behind = (self._ends.get(place, 0) - offset for place, offset in self._commits.items())
        return sum(max(0, one) for one in behind)


def _keep(
    kept: dict[tuple[str, int], int],
    choose: Callable[[Offsets], np.int64],
    topic: str,
    partitions: Offsets,
    offsets: Offsets,
) -> None:
    known = offsets >= 0
    offsets = offsets[known]
    for partition, rows in groups(partitions[known]):
        key = (topic, int(partition))
        if key in kept:
            kept[key] = int(choose(np.append(offsets[rows], kept[key])))
        elif len(kept) < MOST_PARTITIONS:
            kept[key] = int(choose(offsets[rows]))
