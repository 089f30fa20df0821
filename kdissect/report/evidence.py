"""Exchanges behind each finding: those in its time range that its entities name."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from kdissect.report.rows import Exchanges
from kdissect.rules.finding import Finding

# Exchanges that are listed, the slowest, and findings that have such a list.
LISTED: Final = 20
EXAMINED: Final = 100
# Entity of a finding → the column of exchanges.
COLUMNS: Final = {
    "client": "client_id", "clients": "client_id", "api": "api", "apis": "api",
    "error": "error", "broker": "broker", "brokers": "broker", "group": "group_id",
    "transaction": "transactional_id",
}  # fmt: skip
OF_PACKET: Final = 1 << 62  # rank of the exchange whose packet the finding names


class Evidence:
    """The slowest exchanges of one finding, and the number of all that fit."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        self.conditions = conditions_of(finding)
        self.total = 0
        self._rows: list[tuple[int, int, dict[str, Any]]] = []

    def add(self, rows: Exchanges) -> None:
        """Look at a batch."""
        places = np.flatnonzero(self._mask(rows))
        self.total += len(places)
        if not len(places):
            return
        ranks = rows.latency[places]
        if self.finding.packet is not None:
            for packet in ("request_packet", "response_packet"):
                numbers = rows.numbers(packet)[places]
                ranks = np.where(numbers == self.finding.packet, OF_PACKET, ranks)
        order = np.argsort(-ranks, kind="stable")[:LISTED]
        for place, rank in zip(places[order].tolist(), ranks[order].tolist(), strict=True):
            if len(self._rows) == LISTED and rank <= self._rows[-1][0]:
                break
            row = rows.row(place)
            self._rows.append((rank, -row["start_ns"], row))
            self._rows.sort(key=lambda one: one[:2], reverse=True)
            del self._rows[LISTED:]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The exchange of the packet that the finding names, then the slowest."""
        return [row for _, _, row in self._rows]

    def _mask(self, rows: Exchanges) -> "np.ndarray[Any, Any]":
        first, last = self.finding.first_time_ns, self.finding.last_time_ns
        mask = np.ones(rows.batch.num_rows, bool)
        if first is not None:
            mask &= rows.ends >= first
        if last is not None:
            mask &= rows.starts <= last
        for column, words in self.conditions.items():
            if not mask.any():
                break
            mask &= rows.named(column, words)
        return mask


def conditions_of(finding: Finding) -> dict[str, frozenset[str]]:
    """Column → names of which an exchange has one."""
    found: dict[str, frozenset[str]] = {}
    for entity, column in COLUMNS.items():
        value = finding.concerns.get(entity)
        words = [value] if isinstance(value, str) else list(value or ()) if _is_list(value) else []
        if words:
            found[column] = frozenset(word or "" for word in words)
    return found


def evidence_of(findings: Sequence[Finding]) -> list[Evidence]:
    """The rows to look for."""
    return [Evidence(finding) for finding in findings[:EXAMINED]]


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)
