"""Findings of successive windows as events: begun, worse, over; without flapping.

    absent ──found `BEGINS` times in a row──▶ begun ──missing `ENDS` times in a row──▶ over
                                              │ ▲
                                              ▼ │ more severe `BEGINS` times in a row
                                             worse

A finding that is at a threshold comes and goes from window to window: it begins once, and ends when
it is gone for good. A lower severity is taken over after `ENDS` windows, without an event.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kdissect.rules.engine import ENTITIES
from kdissect.rules.finding import NOTICE, SEVERITIES, Finding
from kdissect.rules.finding_data import finding_data, iso_time

BEGUN: Final = "begun"
WORSE: Final = "worse"
OVER: Final = "over"
BEGINS: Final = 2
ENDS: Final = 4
# Findings followed at a time, the worst ones: names in them come from the wire.
FOLLOWED: Final = 100
Key = tuple[str, str]


class FindingEvent(NamedTuple):
    """A change of a finding, at `time_ns`; it began at `since_ns`."""

    event: str
    finding: Finding
    severity: str
    since_ns: int
    time_ns: int

    def data(self) -> dict[str, Any]:
        """The event as JSON data."""
        named = {"event": self.event, "time": iso_time(self.time_ns)}
        return {**named, **current_data(self.finding, self.severity, self.since_ns)}


@dataclass
class State:
    """A finding that was seen: windows in a row with it, without it, above and below `severity`.

    `severity` is the reported one; `since_ns` the time of the first of the windows in a row.
    """

    finding: Finding
    severity: str
    since_ns: int
    is_begun: bool = False
    seen: int = 0
    missing: int = 0
    higher: int = 0
    lower: int = 0


class FindingStates:
    """Follows findings from window to window."""

    def __init__(self, begins: int = BEGINS, ends: int = ENDS) -> None:
        self._begins = begins
        self._ends = ends
        self._states: dict[Key, State] = {}

    @property
    def current(self) -> list[State]:
        """Findings that have begun and are not over, the worst first."""
        begun = [state for state in self._states.values() if state.is_begun]
        return sorted(begun, key=lambda state: SEVERITIES.index(state.severity))

    def update(
        self, findings: Iterable[Finding], now_ns: int, is_last: bool = False
    ) -> list[FindingEvent]:
        """Take the findings of the next window, the worst first; notices have no effect.

        With `is_last` no other window follows: what was found begins at once.
        """
        found: dict[Key, Finding] = {}
        for finding in findings:
            if finding.severity != NOTICE and len(found) < FOLLOWED:
                found.setdefault(key_of(finding), finding)
        events = [self._seen(key, one, now_ns, is_last) for key, one in found.items()]
        events += [self._missing(key, now_ns) for key in [*self._states] if key not in found]
        return [event for event in events if event is not None]

    def _seen(self, key: Key, finding: Finding, now_ns: int, is_last: bool) -> FindingEvent | None:
        state = self._states.setdefault(key, State(finding, finding.severity, now_ns))
        state.finding = finding
        state.seen += 1
        state.missing = 0
        begins = 1 if is_last else self._begins
        if not state.is_begun:
            state.severity = finding.severity
            state.is_begun = state.seen >= begins
            return event_of(BEGUN, state, now_ns) if state.is_begun else None
        rank = SEVERITIES.index(finding.severity) - SEVERITIES.index(state.severity)
        state.higher = state.higher + 1 if rank < 0 else 0
        state.lower = state.lower + 1 if rank > 0 else 0
        if state.higher >= begins:
            state.severity, state.higher = finding.severity, 0
            return event_of(WORSE, state, now_ns)
        if state.lower >= self._ends:
            state.severity, state.lower = finding.severity, 0
        return None

    def _missing(self, key: Key, now_ns: int) -> FindingEvent | None:
        state = self._states[key]
        state.missing += 1
        state.seen = state.higher = state.lower = 0
        if state.is_begun and state.missing < self._ends:
            return None
        del self._states[key]
        return event_of(OVER, state, now_ns) if state.is_begun else None


def key_of(finding: Finding) -> Key:
    """Identity of a finding in other windows: its id, and the first thing that it concerns."""
    for name in ENTITIES:
        value = finding.concerns.get(name)
        if value is not None:
            return finding.id, f"{name} {value}"
    return finding.id, ""


def event_of(name: str, state: State, now_ns: int) -> FindingEvent:
    return FindingEvent(name, state.finding, state.severity, state.since_ns, now_ns)


def current_data(finding: Finding, severity: str, since_ns: int) -> dict[str, Any]:
    """A finding that has begun, as JSON data."""
    return {**finding_data(finding), "severity": severity, "since": iso_time(since_ns)}
