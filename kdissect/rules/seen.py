"""What rules look at: the counters of a pass, and the evidence that was asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kdissect.analysis.counters import ApiRow
from kdissect.analysis.summary import Summary
from kdissect.rules.signs import Signs

Row = Mapping[str, Any]
Rows = list[Row]
US: Final = 1_000  # evidence has times in microseconds
# Rows of one evidence: what is left out is smaller than what is there, as it is ordered.
ROWS: Final = 300
SECOND_NS: Final = 1_000_000_000
MS: Final = 1_000_000


@dataclass(frozen=True)
class Seen:
    """`evidence` has the rows by name, `failures` why there are none.

    `cut` are the evidences that rules have asked for and of which there are more rows.
    """

    summary: Summary
    signs: Signs
    evidence: Mapping[str, Rows] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)

    def rows(self, name: str) -> list[Row]:
        """The rows of an evidence, at most ROWS; none when it was not asked for."""
        found = self.evidence.get(name, [])
        if len(found) > ROWS:
            self.cut.add(name)
        return found[:ROWS]

    def named_rows(self, name: str) -> list[Row]:
        """The rows of an evidence that are of one client each.

        Where bytes are missing, those without a name are of many clients: it was not captured.
        """
        rows = self.rows(name)
        if not self.summary.network.missing_bytes:
            return rows
        return [row for row in rows if row["client"]]

    @property
    def span_ns(self) -> int:
        """From the first packet to the last."""
        totals = self.summary.totals
        return max(0, (totals.last_time_ns or 0) - (totals.first_time_ns or 0))

    @property
    def apis(self) -> dict[str, ApiRow]:
        """The APIs by name."""
        return {row.api: row for row in self.summary.apis}


def number(row: Row, name: str) -> int:
    """A whole number of a row; 0 when it is null."""
    return int(row.get(name) or 0)


def time_ns(row: Row, name: str) -> int | None:
    """A time of a row of evidence as ns since 1970."""
    microseconds = row.get(name)
    return None if microseconds is None else int(microseconds) * US


def total(rows: list[Row], name: str) -> int:
    """The sum of a column, in which nulls are nothing."""
    return sum(number(row, name) for row in rows)


def largest(rows: list[Row], name: str) -> int:
    """The largest value of a column; 0 without any."""
    return max((int(row[name]) for row in rows if row[name] is not None), default=0)


def earliest(rows: list[Row], name: str) -> int | None:
    """The smallest time of a column, in ns."""
    return min((value for row in rows if (value := time_ns(row, name)) is not None), default=None)


def latest(rows: list[Row], name: str) -> int | None:
    """The largest time of a column, in ns."""
    return max((value for row in rows if (value := time_ns(row, name)) is not None), default=None)


def first_packet(rows: list[Row], name: str = "first_packet") -> int | None:
    """The smallest frame number of a column."""
    return min((int(row[name]) for row in rows if row[name] is not None), default=None)
