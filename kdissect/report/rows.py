"""A batch of kept exchanges with what all parts of a report ask of it, read once."""

from typing import Any

import numpy as np
import pyarrow as pa

from kdissect.analysis.summary.arrow_columns import integers, names_and_places
from kdissect.report.columns import NAMES, NUMBERS, PARTS, TIMES
from kdissect.report.ends import Ends
from kdissect.tables.matrices import Ints
from kdissect.text.human import time


class Exchanges:
    """The rows of a batch: names with the place of each row in them, times, and brokers."""

    def __init__(self, batch: pa.RecordBatch, ends: Ends) -> None:
        self.batch = batch
        self.names = {column: names_and_places(batch, column) for column in NAMES}
        self.names["broker"] = ends.brokers, ends.places(integers(batch, "connection_id", -1))
        times = [integers(batch, column, -1) for column in TIMES]
        # An orphan has no request, an unanswered request no response.
        self.starts = _first_of(times)
        self.ends = _first_of(times[::-1])
        self.latency = integers(batch, "latency_ns", -1)
        self._read: dict[str, Ints] = {}

    def numbers(self, column: str) -> Ints:
        """An integer column, -1 for nulls, read once."""
        if column not in self._read:
            self._read[column] = integers(self.batch, column, -1)
        return self._read[column]

    def named(self, column: str, words: frozenset[str]) -> "np.ndarray[Any, Any]":
        """Mask of the rows with one of the names in a column."""
        names, places = self.names[column]
        known = np.array([name in words for name in names], bool)
        found: np.ndarray[Any, Any] = known[places]
        return found

    def row(self, place: int) -> dict[str, Any]:
        """One row for the page; times in ns since 1970."""
        found: dict[str, Any] = {
            "start_ns": int(self.starts[place]), "end_ns": int(self.ends[place]),
        }  # fmt: skip
        for column in (*PARTS, *NUMBERS, "response_start"):
            value = int(self.numbers(column)[place])
            found[column] = None if value < 0 else value
        for column, (names, places) in self.names.items():
            found[column] = names[places[place]]
        found["outcome"] = self.batch.column("outcome")[place].as_py() or ""
        return found


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """The row with times that a page can hold: text, and ms, of which a double has 0.2 µs."""
    rest = {name: value for name, value in row.items() if name not in ("start_ns", "end_ns")}
    response = rest.pop("response_start")
    return rest | {
        "time": time(row["start_ns"]),
        "start_ms": in_ms(row["start_ns"]),
        "end_ms": in_ms(row["end_ns"]),
        "response_ms": None if response is None else in_ms(response),
    }


def in_ms(ns: int) -> float:
    """Ms since 1970 with µs; the division is of numbers that a double holds exactly."""
    return ns // 1000 / 1000


def _first_of(times: list[Ints]) -> Ints:
    """The first known time of each row, -1 without any."""
    found = times[0].copy()
    for later in times[1:]:
        found = np.where(found < 0, later, found)
    return found
