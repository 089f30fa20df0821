"""The first process of ``kdissect live`` with several workers: orders, sums, one output.

    begin ──▶ every second: ask all, add up, write ──▶ stop ──▶ all have read ──▶ all are done

It never reads a packet. A worker that ends by itself ends the capture: the others finish their
files, and the error says which one it was.
"""

import os
import time
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kdissect.cli.empty_result import NO_EXCHANGES, explain_empty
from kdissect.cli.live.lines import Lines, tell_begin, tell_files, tell_totals
from kdissect.cli.live.plan import Plan
from kdissect.cli.live.run import make_push, make_shared_findings, served, tell_problem, versioned
from kdissect.cli.live.signals import signals
from kdissect.cli.live.start import Opened
from kdissect.cli.program import ANSWERED
from kdissect.errors import KdissectError
from kdissect.live.counting.lines import line_of
from kdissect.live.counting.mergeable import merge
from kdissect.live.counting.merged_buckets import EVERYTHING
from kdissect.live.counting.snapshot import Focus, Snapshot, scaled
from kdissect.live.listener import Status
from kdissect.live.privileges import ThreadCheck
from kdissect.live.systemd_notify import ServiceListener
from kdissect.live.watcher import memory_bytes
from kdissect.live.workers.messages import CAPTURES, FINISH, HAS_READ, IS_DONE, REOPEN, STOP
from kdissect.live.workers.supervisor import Supervisor
from kdissect.live.workers.totals import total

if TYPE_CHECKING:
    from kdissect.live.workers.summed_metrics import SummedMetrics

SECOND_S: Final = 1.0
SECOND_NS: Final = 1_000_000_000
# Longest time until a stop, or the end of a worker, is noticed.
POLL_S: Final = 0.1
# Workers are asked so often while they begin and end.
SOON_S: Final = 0.05
# A worker whose capture shows no sign of life for so long is not reported as alive.
SILENT_S: Final = 20.0


class Leader:
    """Leads the workers from their start to their end; `status` is the sum of theirs."""

    def __init__(self, plan: Plan, opened: Opened, has_lines: bool = True) -> None:
        self.supervisor = Supervisor(opened.workers)
        self.status: Status | None = None
        self.metrics: SummedMetrics | None = None
        if opened.bound is not None or plan.otlp is not None:
            self.metrics = make_sum(len(opened.workers), plan.labels)
            self.metrics.share = plan.asked.share
        self._names = opened.packet_source.names
        self._share = plan.asked.share
        self._findings: Any = None
        self._hooks: list[Any] = []
        if plan.findings_s is not None:
            self._findings, hooks = make_shared_findings(plan, plan.findings_s, len(opened.workers))
            self._hooks += hooks
            if self.metrics is not None:
                self.metrics.findings = self._findings.labels
        if self.metrics is not None and plan.otlp is not None:
            self._hooks.append(make_push(self.metrics, plan.otlp, tell_problem))
        self._lines: Lines | None = None
        self._wants_snapshots = False
        if plan.has_lines and has_lines:
            text_of = partial(versioned, findings=self._findings) if plan.is_json else line_of
            self._lines = Lines(self, plan.every_s, text_of)
        notifier = opened.notifier
        self._service = ServiceListener(notifier) if notifier.is_heard else None
        self._check = None if opened.dropped is None else ThreadCheck(opened.dropped)
        self._duration_s = plan.duration_s
        self._is_stopping = self._is_reopening = False

    def stop(self) -> None:
        """End soon; may be called from a signal handler."""
        self._is_stopping = True

    def reopen(self) -> None:
        """Let all workers reopen soon; may be called like `stop`."""
        self._is_reopening = True

    def snapshot(self, focus: Focus = EVERYTHING) -> Snapshot:
        """The workers' last snapshots as one; raises KdissectError where there is none."""
        parts = [
            part
            for one in self.supervisor.reports
            for part in one.snapshots
            if part.snapshot.focus == focus
        ]
        if self.status is None or not parts:
            raise KdissectError("no worker has reported")
        return scaled(merge(parts, self.status), self._share)

    def run(self) -> None:
        """Lead until it is to stop, a worker is lost, or the time is over; end all cleanly."""
        try:
            self._begin()
            deadline = None if self._duration_s is None else time.monotonic() + self._duration_s
            while not self._is_over():
                self._tick()
                self._wait(deadline)
        finally:
            self._end()

    def _begin(self) -> None:
        """Wait until all workers capture."""
        while not self._is_over() and self.supervisor.phase < CAPTURES:
            self.supervisor.ask(False, SECOND_S)
            self.supervisor.listen(SOON_S)
        if self._findings is not None:
            self._findings.start()
        for hook in self._hooks:
            hook.begin()
        if self._lines is not None:
            self._lines.begin()
        if self._service is not None and not self._is_over():
            self._service.ready(self._names)

    def _is_over(self) -> bool:
        return self._is_stopping or self.supervisor.is_ending

    def _wait(self, deadline: float | None) -> None:
        """Until the next second; notices what may happen before."""
        end = time.monotonic() + SECOND_S
        while not self._is_over() and (left := end - time.monotonic()) > 0:
            self.supervisor.listen(min(left, POLL_S))
            if self._is_reopening:
                self._is_reopening = False
                self.supervisor.order(REOPEN)
                if self._service is not None:
                    self._service.reopen()
            if deadline is not None and time.monotonic() >= deadline:
                self.stop()

    def _tick(self) -> None:
        self._ask()
        status = self.status
        if status is None:
            return
        if self._findings is not None:
            self.supervisor.wants_windows = self._findings.is_due(status)
        for hook in self._hooks:
            hook.tick(status)
        if self._lines is not None:
            self._lines.tick(status)
        if self._service is not None and self.supervisor.silent_s < SILENT_S:
            self._service.tick(status)
        if self._check is not None:
            self._check.tick(status)

    def _ask(self, is_last: bool = False) -> None:
        """Let all report, and add up; with snapshots where the next line needs them."""
        lines = self._lines
        soon_ns = SECOND_NS + (0 if self.status is None else self.status.now_ns)
        is_due = lines is not None and (is_last or lines.is_due(soon_ns))
        self.supervisor.ask(is_due or self._wants_snapshots, SECOND_S)
        while self.supervisor.windows:
            self._findings.take(*self.supervisor.windows.popleft())
        reports = self.supervisor.reports
        statuses = [one.status for one in reports if one.status is not None]
        if statuses:
            usage = os.times()
            own_cpu = usage.user + usage.system
            self.status = total(statuses, memory_bytes(), own_cpu)
            if self.metrics is not None:
                own = {
                    "process_resident_memory_bytes": float(memory_bytes()),
                    "process_cpu_seconds": own_cpu,
                }
                self.metrics.add([one.samples for one in reports], own)

    def _end(self) -> None:
        """Let all workers finish; write the last line."""
        self.supervisor.order(STOP)
        while self.supervisor.phase < HAS_READ:
            self.supervisor.ask(False, SECOND_S)
            self.supervisor.listen(SOON_S)
        # With it go the names that others know.
        self.supervisor.order(FINISH)
        while self.supervisor.phase < IS_DONE:
            self._ask(is_last=True)
            self.supervisor.listen(SOON_S)
        self._ask()
        if self.status is None:
            return
        if self._service is not None:
            self._service.finish(self.status)
        if self._findings is not None:
            self._findings.finish(self.status)
        for hook in self._hooks:
            hook.finish(self.status)
        if self._lines is not None:
            self._lines.finish(self.status)


def make_sum(workers: int, labels: int) -> "SummedMetrics":
    """Sum of the workers' metrics for Prometheus, of the extra `live`."""
    from kdissect.live.workers.summed_metrics import SummedMetrics

    return SummedMetrics(workers, labels)


def lead(plan: Plan, opened: Opened) -> int:
    """Lead the workers; returns the exit code. Raises KdissectError for a worker that was lost."""
    leader = Leader(plan, opened)
    with signals(leader, leader.supervisor.kill), served(leader.metrics, opened.bound):
        tell_begin(plan.asked, plan.options)
        leader.run()
    tell_result(leader, opened.packet_source.names)
    if leader.supervisor.lost:
        number, why = min(leader.supervisor.lost.items())
        raise KdissectError(
            f"worker {number + 1} of {len(opened.workers)} {why}: its connections are not captured"
            " any more, so all end here, and the others have finished their files. Start again;"
            " with the same -o that takes up what it had flushed"
        )
    return ANSWERED


def tell_result(leader: Leader, names: list[str]) -> None:
    """Print the totals, and where the files of each worker are."""
    status = leader.status
    if status is None:
        return
    tell_totals(status, names)
    written = [one.written for one in leader.supervisor.reports if one.written is not None]
    for one in written:
        tell_files(one.rows, one.rotations, one.run)
    if not status.balance.exchanges and not leader.supervisor.lost:
        explain_empty(NO_EXCHANGES, asdict(status.balance))
