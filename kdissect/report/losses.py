"""Time bins in which the capture has problems: never drawn as if nothing happened.

A problem has the time at which it was noticed. What is missing was sent on its connection since the
last exchange there, so nothing is known of the bins between in which no exchange was seen at all.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import has_word, integers
from kdissect.report.axis import Axis
from kdissect.report.rows import Exchanges
from kdissect.tables.matrices import Ints

# Stages whose problems are about packets and bytes; those of messages concern their meaning.
STAGES: Final = ("capture", "packets", "streams", "frames", "live")
MOST: Final = 1 << 16  # problems with a connection, of 24 bytes each; of more, the first


class Losses:
    """Counts problems of the capture by time bin, and the silences before them."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.counts = np.zeros(axis.count, np.int64)
        self._noticed: list[Ints] = []
        self._keys: Ints | None = None  # connection and bin of each problem, ascending
        self._last = np.empty(0, np.int64)  # the last bin with an exchange before each

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch of problems; all of them before the first exchanges."""
        times = integers(batch, "time", -1)
        known = has_word(batch, "stage", STAGES) & (times >= 0)
        places = self.axis.places(times[known])
        self.counts += np.bincount(places, minlength=self.axis.count)
        connections = integers(batch, "connection_id", -1)[known]
        if sum(map(len, self._noticed)) < MOST:
            own = connections >= 0
            self._noticed.append(connections[own] * self.axis.count + places[own])

    def add_exchanges(self, rows: Exchanges) -> None:
        """Note when connections with problems were last seen before them."""
        if self._keys is None:
            self._keys = np.sort(np.concatenate([np.empty(0, np.int64), *self._noticed]))
            self._last = np.full(len(self._keys), -1)
        if not len(self._keys):
            return
        bins = self.axis.places(rows.ends)
        keys = rows.numbers("connection_id") * self.axis.count + bins
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        same = self._keys[at] // self.axis.count == rows.numbers("connection_id")
        same &= (self._keys[at] >= keys) & (rows.ends >= 0)
        np.maximum.at(self._last, at[same], bins[same])

    def silences(self) -> list[int]:
        """The number of problems before which the bin is, since the last exchange there."""
        depth = np.zeros(self.axis.count + 1, np.int64)
        if self._keys is not None:
            known = self._last >= 0
            np.add.at(depth, self._last[known], 1)
            np.add.at(depth, self._keys[known] % self.axis.count + 1, -1)
        found: list[int] = np.cumsum(depth[:-1]).tolist()
        return found
