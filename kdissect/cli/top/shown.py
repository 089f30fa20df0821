"""What ``kdissect top`` shows: snapshots of a capture, with its findings."""

from typing import Any, Protocol

from kdissect.live.counting.merged_buckets import EVERYTHING
from kdissect.live.counting.snapshot import CurrentFinding, Focus, Snapshot


class Runs(Protocol):
    """A capture that runs in a thread of its own, see `capture`."""

    def run(self) -> None:
        """Run until it ends, or is to stop."""

    def stop(self) -> None:
        """End soon; from any thread."""

    def reopen(self) -> None:
        """Reopen sources and key logs."""


class Metered(Protocol):
    """Where snapshots come from, in any thread."""

    def snapshot(self, focus: Focus = EVERYTHING) -> Snapshot:
        """The current snapshot."""
        ...

    def set_window(self, window_s: float) -> None:
        """Set the window of later snapshots."""


class Shown:
    """The snapshots of `meters`, with the findings, once `findings` is set."""

    def __init__(self, meters: Metered) -> None:
        self._meters = meters
        self.set_window = meters.set_window
        self.findings: Any = None

    def snapshot(self, focus: Focus = EVERYTHING) -> Snapshot:
        """The current snapshot."""
        snapshot = self._meters.snapshot(focus)
        if self.findings is None:
            return snapshot
        return snapshot._replace(current_findings=current_findings(self.findings))


def current_findings(findings: Any) -> tuple[CurrentFinding, ...]:
    """Findings that have begun and are not over, the worst first."""
    return tuple(
        CurrentFinding(one.finding.id, one.severity, one.finding.text, one.since_ns)
        for one in findings.current
    )
