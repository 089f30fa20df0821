"""Time bins in which the capture has problems: never drawn as if nothing happened."""

from typing import Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import has_word, integers
from kdissect.report.axis import Axis

# Stages whose problems are about packets and bytes; those of messages concern their meaning.
STAGES: Final = ("capture", "packets", "streams", "frames", "live")


class Losses:
    """Counts problems of the capture by time bin."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.counts = np.zeros(axis.count, np.int64)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch of problems."""
        times = integers(batch, "time", -1)
        known = has_word(batch, "stage", STAGES) & (times >= 0)
        places = self.axis.places(times[known])
        self.counts += np.bincount(places, minlength=self.axis.count)
