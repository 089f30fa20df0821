"""One of several workers of ``kdissect live``, until the first process tells it to end."""

from typing import Any

from kdissect.cli.live.plan import Plan, limited
from kdissect.cli.live.run import make_files, make_metrics, shedding
from kdissect.cli.live.start import Opened
from kdissect.cli.program import ANSWERED
from kdissect.errors import KdissectError
from kdissect.live.counting.meters import Meters
from kdissect.live.listener import Listener
from kdissect.live.privileges import ThreadCheck
from kdissect.live.watcher import Watcher
from kdissect.live.workers.messages import Written
from kdissect.live.workers.reporter import Reporter


def work(plan: Plan, opened: Opened, has_metrics: bool, workers: int) -> int:
    """Capture; `plan` is this worker's share. Returns the exit code; raises KdissectError."""
    seat = opened.seat
    assert seat is not None  # noqa: S101  # of a worker
    metrics = make_metrics(plan.labels) if has_metrics else None
    meters = Meters() if plan.has_lines else None
    window = None if plan.findings_s is None else make_window(plan.findings_s, workers)
    reporter = Reporter(seat, metrics, meters, window)
    files = None if plan.directory is None else make_files(plan, plan.directory)
    listeners: list[Listener] = [reporter]
    listeners += [
        one for one in (opened.topic_names, files, window, metrics, meters) if one is not None
    ]
    if opened.dropped is not None:
        listeners.append(ThreadCheck(opened.dropped))
    try:
        watcher = Watcher(
            opened.packet_source, listeners, limited(plan), keylogs=opened.keylogs, **shedding(plan)
        )
        watcher.run()
    except KdissectError as error:
        raise KdissectError(f"worker {seat.number + 1}: {error}") from error
    written = None if files is None else Written(files.rows, files.number, str(files.run.path))
    reporter.leave(written)
    return ANSWERED


def make_window(window_s: float, workers: int) -> Any:
    """Rows of this worker, for findings."""
    from kdissect.api.shared_window import SharedWindow

    return SharedWindow(window_s, workers)
