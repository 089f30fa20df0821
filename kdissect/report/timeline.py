"""Exchanges, errors, bytes and latency percentiles by time bin of the request."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import integers
from kdissect.analysis.summary.counters import ExchangeColumns
from kdissect.analysis.tally import Tally, merged, quantiles, tally
from kdissect.report.axis import Axis

COUNTS: Final = (
    "exchanges", "errors", "unanswered", "request_bytes", "response_bytes", "missing_bytes",
)  # fmt: skip
SHARES: Final = {"p50_ns": 0.5, "p95_ns": 0.95, "p99_ns": 0.99, "max_ns": 1.0}
# Tallies that wait to be merged.
WAITING: Final = 16


class Timeline:
    """Counts exchanges by time bin."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self._sums = np.zeros((len(COUNTS), axis.count), np.int64)
        self._tallies: list[Tally] = []

    def add(self, batch: pa.RecordBatch, starts: "np.ndarray[Any, Any]") -> None:
        """Count the rows of a batch; `starts` are their times, negative where there is none."""
        columns = ExchangeColumns(batch)
        known = starts >= 0
        bins = self.axis.places(starts[known])
        values = (
            np.ones(batch.num_rows, np.int64), columns.is_failed, columns.measures[2],
            integers(batch, "request_size", 0), integers(batch, "response_size", 0),
            integers(batch, "missing_bytes", 0),
        )  # fmt: skip
        for sums, value in zip(self._sums, values, strict=True):
            added = np.bincount(bins, value[known].astype(np.float64), self.axis.count)
            sums += added.astype(np.int64)
        if len(bins):
            self._tallies.append(tally(bins, columns.latency[known]))
        if len(self._tallies) >= WAITING:
            self._tallies = [merged(self._tallies)]

    def data(self) -> dict[str, Any]:
        """The counts, and percentiles by bin, null where nothing was answered."""
        found: dict[str, Any] = {
            name: sums.tolist() for name, sums in zip(COUNTS, self._sums, strict=True)
        }
        times: list[list[int | None]] = [[None] * self.axis.count for _ in SHARES]
        if self._tallies:
            of = merged(self._tallies)
            rows = quantiles(of, list(SHARES.values())).tolist()
            for bin_, row in zip(of.key.tolist(), rows, strict=True):
                for name, value in enumerate(row):
                    times[name][bin_] = value if value >= 0 else None
        return found | dict(zip(SHARES, times, strict=True))
