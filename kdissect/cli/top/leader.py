"""``kdissect top --workers N``: the first process, which adds up what workers count."""

from pathlib import Path
from typing import Any

from kdissect.cli.live.leader import Leader
from kdissect.cli.live.plan import Plan as LivePlan
from kdissect.cli.live.start import Opened
from kdissect.errors import KdissectError
from kdissect.live.counting.merged_buckets import EVERYTHING
from kdissect.live.counting.meters import Meters
from kdissect.live.counting.narrowing import narrowed
from kdissect.live.counting.snapshot import Focus, Snapshot


class TopLeader(Leader):
    """Leads workers, and has snapshots of all of them together.

    A focus that is new is asked for with the next question, a second later at most; until then a
    snapshot has what the last one says about it.
    """

    def __init__(self, plan: LivePlan, opened: Opened) -> None:
        super().__init__(plan, opened, has_lines=False)
        self._wants_snapshots = True
        self._wanted: dict[Focus, None] = {}
        self._before = Meters().snapshot()

    def set_window(self, window_s: float) -> None:
        """Set the window of later snapshots."""
        self.supervisor.window_s = window_s

    def snapshot(self, focus: Focus = EVERYTHING) -> Snapshot:
        """The last snapshot of all workers."""
        self._wanted[focus] = None
        try:
            return super().snapshot(focus)
        except KdissectError:  # not asked for yet
            pass
        try:
            return narrowed(super().snapshot(EVERYTHING), focus)
        except KdissectError:
            return self._before._replace(focus=focus)

    def _ask(self, is_last: bool = False) -> None:
        wanted, self._wanted = self._wanted, {}
        self.supervisor.foci = (EVERYTHING, *(one for one in wanted if one != EVERYTHING))
        super()._ask(is_last)

    @property
    def findings(self) -> Any:
        """Findings of all workers' rows, None without."""
        return self._findings

    def add_recorder(self, path: Path, every_s: float, head: Any, snapshot: Any) -> None:
        """Record a session."""
        from kdissect.live.recorded_sessions import Recorder

        self._hooks.append(Recorder(path, every_s, snapshot, head))

    def check(self) -> None:
        """Raise KdissectError for a worker that was lost."""
        if self.supervisor.lost:
            number, why = min(self.supervisor.lost.items())
            total = len(self.supervisor.workers)
            raise KdissectError(
                f"worker {number + 1} of {total} {why}: its connections are not captured any more"
            )
