"""Latency and its parts by time bin, for the largest names of each dimension."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import integers
from kdissect.analysis.tally import counted
from kdissect.report.axis import LATENCY_BINS, Axis, latency_bins
from kdissect.tables.matrices import Ints

# Part → its column, in the order in which they pass.
PARTS: Final = {
    "latency": "latency_ns", "upload": "upload_ns", "queue": "queue_ns", "long poll": "wait_ns",
    "broker time": "work_ns", "download": "download_ns",
}  # fmt: skip
EVERY: Final = "all"
OTHERS: Final = 0  # the number of all names that are not among the largest
WAITING: Final = 1 << 18  # cells that wait to be merged, 8 bytes each


class HeatMap:
    """Counts of exchanges by dimension, name, part, latency bin and time bin.

    `names` are the names of each dimension that have a map of their own; all others share one.
    """

    def __init__(self, axis: Axis, names: Mapping[str, Sequence[str]]) -> None:
        self.axis = axis
        self.names = {by: {name: n + 1 for n, name in enumerate(of)} for by, of in names.items()}
        self._first = dict(zip(self.names, self._firsts(), strict=True))
        self._cells = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)
        self._waiting: list[Ints] = []

    def numbers(self, by: str, names: Sequence[str]) -> Ints:
        """The numbers of names of a dimension: `OTHERS`, or counted from 1."""
        known = self.names[by]
        return np.array([known.get(name, OTHERS) for name in names], np.int64)

    def add(self, by: str, numbers: Ints, starts: Ints, values: Sequence[Ints]) -> None:
        """Count exchanges with the numbers of their names; negative values are not counted."""
        times = self.axis.places(starts)
        groups = (self._first[by] + numbers) * len(PARTS)
        for part, of in enumerate(values):
            known = (of >= 0) & (starts >= 0)
            if part:
                known &= of > 0  # a part that did not happen
            rows = (groups[known] + part) * LATENCY_BINS + latency_bins(of[known])
            self._waiting.append(rows * self.axis.count + times[known])
        if sum(map(len, self._waiting)) > WAITING:
            self._merge()

    def data(self) -> list[dict[str, Any]]:
        """A map for each name that occurs: its parts, each as time bin, latency bin, count, …"""
        self._merge()
        rows, times = np.divmod(self._cells, self.axis.count)
        parts, latencies = np.divmod(rows, LATENCY_BINS)  # of all groups, ascending
        flat = np.stack([times, latencies, self._counts], axis=1)
        found = []
        for group, by, name in self._groups():
            first = group * len(PARTS)
            ends = np.searchsorted(parts, np.arange(first, first + len(PARTS) + 1)).tolist()
            cells = {
                word: flat[begin:end].ravel().tolist()
                for word, begin, end in zip(PARTS, ends[:-1], ends[1:], strict=True)
                if begin < end
            }
            if cells:
                found.append({"by": by, "name": name, "cells": cells})
        return found

    def _merge(self) -> None:
        if not self._waiting:
            return
        cells, counts = counted(np.concatenate(self._waiting), None)
        self._waiting = []
        self._cells, self._counts = counted(
            np.concatenate([self._cells, cells]), np.concatenate([self._counts, counts])
        )

    def _firsts(self) -> Iterator[int]:
        first = 0
        for names in self.names.values():
            yield first
            first += len(names) + 1

    def _groups(self) -> Iterator[tuple[int, str, str]]:
        for by, names in self.names.items():
            for name, number in names.items():
                yield self._first[by] + number, by, name
            yield self._first[by] + OTHERS, by, "(others)"


def part_values(batch: pa.RecordBatch, is_answered: "np.ndarray[Any, Any]") -> list[Ints]:
    """The parts of each row in ns, -1 where unknown or without a response."""
    return [np.where(is_answered, integers(batch, column, -1), -1) for column in PARTS.values()]
