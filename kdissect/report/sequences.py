"""Messages around the slowest exchange of a finding, for a sequence diagram.

Those of its connection, of its consumer group, and, where a leader may wait for followers, the
fetches of brokers; all that overlap its time.
"""

from typing import Any, Final

import numpy as np

from kdissect.report.evidence import Evidence
from kdissect.report.rows import Exchanges, shown

DIAGRAMS: Final = 12
MESSAGES: Final = 40
MARGIN_NS: Final = 5_000_000
# Exchanges in which leaders wait for followers.
OF_FOLLOWERS: Final = ("produce-latency-slow-follower", "broker-stalls", "replicas-missing")


class Sequence:
    """Collects the messages around one exchange."""

    def __init__(self, number: int, evidence: Evidence) -> None:
        self.finding = number
        self.main = evidence.rows[0]
        margin = MARGIN_NS + (self.main["end_ns"] - self.main["start_ns"]) // 10
        self.first_ns = self.main["start_ns"] - margin
        self.last_ns = self.main["end_ns"] + margin
        self.connections = np.array([row["connection_id"] for row in evidence.rows[:3]], np.int64)
        self.group = frozenset(filter(None, [self.main["group_id"]]))
        self.has_followers = evidence.finding.id in OF_FOLLOWERS
        self.total = 0
        self._rows: dict[int, dict[str, Any]] = {self.main["exchange_id"]: self.main}

    def add(self, rows: Exchanges) -> None:
        """Look at a batch."""
        mask = (rows.ends >= self.first_ns) & (rows.starts <= self.last_ns)
        if not mask.any():
            return
        chosen = np.isin(rows.numbers("connection_id"), self.connections)
        if self.group:
            chosen |= rows.named("group_id", self.group)
        if self.has_followers:
            chosen |= rows.numbers("replica_id") >= 0
        places = np.flatnonzero(mask & chosen)
        self.total += len(places)
        for place in places.tolist():
            if len(self._rows) >= MESSAGES:
                return
            row = rows.row(place)
            self._rows.setdefault(row["exchange_id"], row)

    def data(self) -> dict[str, Any]:
        """The exchanges by time, the main one marked, and the number of those left out."""
        ordered = sorted(self._rows.values(), key=lambda row: row["start_ns"])
        return {
            "finding": self.finding,
            "main": self.main["exchange_id"],
            "exchanges": [shown(row) for row in ordered],
            "left_out": max(self.total - len(ordered), 0),
        }


def sequences_of(evidence: list[Evidence]) -> list[Sequence]:
    """The diagrams of a page: one for each of the first findings with exchanges."""
    found = [Sequence(n, one) for n, one in enumerate(evidence) if one.rows]
    return found[:DIAGRAMS]
