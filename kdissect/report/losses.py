"""Time bins in which the capture has holes or problems: never drawn as if nothing happened."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import integers, texts
from kdissect.report.axis import Axis

# Stages whose problems are about packets and bytes; those of messages concern their meaning.
STAGES: Final = frozenset(("capture", "packets", "streams", "frames", "live"))
LISTED: Final = 200


class Losses:
    """Counts problems of the capture by time bin, and keeps the first ones."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.counts = np.zeros(axis.count, np.int64)
        self.rows: list[dict[str, Any]] = []
        self.total = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch of problems."""
        times, stages = integers(batch, "time", -1), texts(batch, "stage")
        is_loss = np.array([stage in STAGES for stage in stages.tolist()], bool)
        known = is_loss & (times >= 0)
        places = self.axis.places(times[known])
        self.counts += np.bincount(places, minlength=self.axis.count)
        self.total += batch.num_rows
        for row in batch.slice(0, max(LISTED - len(self.rows), 0)).to_pylist():
            self.rows.append({name: row[name] for name in COLUMNS} | {"time_ns": None})
        for row, time in zip(self.rows[-batch.num_rows :], times.tolist(), strict=False):
            row["time_ns"] = time if time >= 0 else None


COLUMNS: Final = ("stage", "kind", "packet_number", "bytes", "connection_id", "message")
