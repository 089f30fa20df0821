"""Numbers of packets that the runs of live captures have in a tap of a dataset."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from kdissect.dataset.entries import CaptureEntry
from kdissect.protocol.readers import NULL
from kdissect.tables.batches import ints_of, numbers
from kdissect.tables.ids import FACTORS, id_offsets
from kdissect.tables.matrices import Ints


@dataclass
class Segment:
    """Numbers of packets of a run from `first` on are moved by `base`."""

    first: int
    base: int


@dataclass
class Numbers:
    """Numbers of packets that the runs of a tap have; `next` is the first that none has.

    A run claims as many as its rotations have used. Where another run has claimed some since, it
    goes on after those: the numbers before keep their place, so an id is always the same.
    """

    next: int = 0
    limits: dict[str, int] = field(default_factory=dict)
    segments: dict[str, list[Segment]] = field(default_factory=dict)

    @classmethod
    def of(cls, captures: Sequence[CaptureEntry]) -> "Numbers":
        """Those that the rotations in a dataset have claimed, in their order."""
        made = cls()
        for one in captures:
            run = Path(one.path).parent.name
            made.claim(run, made.limits.get(run, 0) + one.packets)
        return made

    def claim(self, run: str, limit: int) -> int:
        """Claim the numbers of a run below `limit`; returns how many are new.

        >>> numbers = Numbers()
        >>> numbers.claim("a", 10), numbers.claim("b", 5), numbers.claim("a", 12)
        (10, 5, 2)
        >>> numbers.segments["a"], numbers.next
        ([Segment(first=0, base=0), Segment(first=10, base=5)], 17)
        """
        known = self.limits.get(run, 0)
        count = max(0, limit - known)
        own = self.segments.setdefault(run, [])
        if count:
            if not own or own[-1].base + known != self.next:
                own.append(Segment(known, self.next - known))
            self.limits[run] = known + count
            self.next += count
        return count

    def moved(self, batch: pa.RecordBatch, run: str, tap: int) -> pa.RecordBatch:
        """Rows with the ids of the tap."""
        firsts = np.array([one.first for one in self.segments[run]], np.int64)
        bases = np.array([one.base for one in self.segments[run]], np.int64)
        for name, factor in FACTORS.items():
            index = batch.schema.get_field_index(name)
            if index < 0 or not len(firsts):
                continue
            ids = ints_of(batch[name])
            base = bases[np.searchsorted(firsts, ids // factor, side="right") - 1]
            found: Ints = ids + base * factor + id_offsets(tap)[name]
            made = numbers(np.where(ids == NULL, int(NULL), found), pa.int64())
            batch = batch.set_column(index, batch.schema.field(index), made)
        return batch
