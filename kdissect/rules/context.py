"""Input of the rules: the counters of a pass, and the evidence queried."""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kdissect.analysis.brokers import PEER
from kdissect.analysis.summary.counters import ApiRow
from kdissect.analysis.summary.summary import Summary
from kdissect.rules.conditions import ALL, Condition, among, least
from kdissect.rules.evidence_rows import ROWS, Chosen, Row, Rows, in_ns
from kdissect.rules.evidence_sources import EveryRow, GivenRows
from kdissect.rules.indicators import Indicators

PEERS: Final = re.compile(PEER)  # client ids of brokers and controllers
Wanted = Callable[[Row], object]
# Rows kept by all groups of one evidence together, beside the first of each.
GROUPED_ROWS: Final = 10 * ROWS


@dataclass(frozen=True)
class Context:
    """`evidence` has the rows by name, `failures` the reasons where they are missing.

    `more` has all rows of evidence that is truncated in `evidence`, `unread` are
    those whose further rows are unavailable. `cut` are the evidences that rules have used without
    reading all their rows.
    """

    summary: Summary
    signs: Indicators
    evidence: Mapping[str, list[Row]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, EveryRow] = field(default_factory=dict)
    unread: Collection[str] = ()
    cut: set[str] = field(default_factory=set)

    def of(self, names: Collection[str]) -> "Context":
        """The same with these evidences only."""
        return replace(
            self,
            evidence={name: rows for name, rows in self.evidence.items() if name in names},
            failures={name: why for name, why in self.failures.items() if name in names},
            more={name: every for name, every in self.more.items() if name in names},
            unread=[name for name in self.unread if name in names],
            cut=set(),
        )

    def rows(self, name: str) -> Rows:
        """The rows of an evidence, at most ROWS; none when it was not queried."""
        found = self.evidence.get(name, [])
        if len(found) > ROWS:
            self.cut.add(name)
        return Rows(found[:ROWS])

    def every(self, name: str, condition: Condition = ALL) -> Iterator[Row]:
        """All rows of an evidence for which a condition holds, in its order."""
        for rows in self._every(name).batches(condition):
            yield from rows

    def chosen(self, name: str, condition: Condition = ALL, wanted: Wanted | None = None) -> Chosen:
        """The rows of an evidence that match a rule's condition and predicate."""
        found = Chosen()
        for rows in self._every(name).batches(condition):
            if matching := rows if wanted is None else list(filter(wanted, rows)):
                for row in matching[: ROWS - len(found)]:
                    found.keep(row)
                found.add(matching)
        self._tell_more(name, [found])
        return found

    def chosen_named(self, name: str, condition: Condition, wanted: Wanted | None = None) -> Chosen:
        """The same, for rows of one client each.

        Where bytes are missing, rows without a name are of many clients: it was not captured.
        """
        if not self.summary.network.missing_bytes:
            return self.chosen(name, condition, wanted)
        return self.chosen(
            name, condition, lambda row: row["client"] and (wanted is None or wanted(row))
        )

    def grouped(
        self,
        name: str,
        key: Callable[[Row], Hashable],
        condition: Condition = ALL,
        wanted: Wanted | None = None,
    ) -> dict[Any, Chosen]:
        """The same rows, grouped by `key`: at most ROWS groups."""
        found: dict[Any, Chosen] = {}
        kept = 0
        for rows in self._every(name).batches(condition):
            groups: dict[Any, list[Row]] = {}
            for row in rows if wanted is None else filter(wanted, rows):
                group = key(row)
                if group not in found:
                    if len(found) == ROWS:
                        self.cut.add(name)
                        continue
                    found[group] = Chosen()
                groups.setdefault(group, []).append(row)
                if not found[group] or kept < GROUPED_ROWS:
                    found[group].keep(row)
                    kept += 1
            for group, those in groups.items():
                found[group].add(those)
        self._tell_more(name, found.values())
        return found

    def largest(self, name: str, column: str, by: str, values: Collection[str]) -> dict[str, int]:
        """The largest number of a column for each of the values of another; without zeros."""
        return self._every(name).largest(column, by, least(**{column: 1}) & among(by, values))

    def _every(self, name: str) -> EveryRow:
        return self.more[name] if name in self.more else GivenRows(self._gathered(name))

    def _gathered(self, name: str) -> list[Row]:
        """The kept rows of an evidence; records when the engine had no room to read all of them."""
        found = self.evidence.get(name, [])
        if name in self.unread:
            self.cut.add(name)
        return found

    def _tell_more(self, name: str, found: Iterable[Chosen]) -> None:
        if any(one.has_more_names for one in found):
            self.cut.add(name)

    @property
    def span_ns(self) -> int:
        """Duration from the first packet to the last."""
        totals = self.summary.totals
        return max(0, (totals.last_time_ns or 0) - (totals.first_time_ns or 0))

    @property
    def apis(self) -> dict[str, ApiRow]:
        """The APIs by name."""
        return {row.api: row for row in self.summary.apis}


def number(row: Row, name: str) -> int:
    """An integer of a row; 0 when null."""
    return int(row.get(name) or 0)


def time_ns(row: Row, name: str) -> int | None:
    """A time of a row of evidence as ns since 1970."""
    return in_ns(row.get(name))
