"""`Supervisor`: the first process's side of the conversation with its workers."""

import select
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from kdissect.live.counting.snapshot import Focus
from kdissect.live.workers.forking import Worker
from kdissect.live.workers.messages import (
    BEGINS,
    HAS_READ,
    IS_DONE,
    NOTHING,
    REPORT,
    Inbox,
    Learned,
    Order,
    Report,
    WindowPart,
    send,
)

FIRST: Final = Report(BEGINS, 0.0, NOTHING, None, None, (), None)
EXIT_S: Final = 10.0  # for a process to end that has closed its socket
POLL_S: Final = 0.02


class Supervisor:
    """Orders to workers, and their last `reports`. `lost` are those that ended too early, and why.

    What one worker learned is passed on to the others with their next order. With the next question
    they are asked for their windows if `wants_windows` is set; `windows` are those that came.
    Snapshots are of the `foci`, and of the last `window_s` seconds unless that is 0.
    """

    def __init__(
        self, workers: Sequence[Worker], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.workers = list(workers)
        self.reports = [FIRST for _ in workers]
        self.lost: dict[int, str] = {}
        self.wants_windows = False
        self.windows: deque[tuple[int, WindowPart]] = deque()
        self.foci: tuple[Focus, ...] = (Focus(),)
        self.window_s = 0.0
        self._clock = clock
        self._reported_s = [clock() for _ in workers]
        self._inboxes = [Inbox() for _ in workers]
        self._is_asked = [False for _ in workers]
        self._news = [Learned({}, {}) for _ in workers]

    @property
    def phase(self) -> int:
        """That of the worker that is the furthest behind; IS_DONE without any."""
        phases = [self.reports[one.number].phase for one in self._there()]
        return min(phases, default=IS_DONE)

    @property
    def is_ending(self) -> bool:
        """Return whether a worker was lost, or ends by itself, as after an error."""
        return bool(self.lost) or any(one.phase >= HAS_READ for one in self.reports)

    @property
    def silent_s(self) -> float:
        """Longest time since the capture of a worker is known to have been alive."""
        now = self._clock()
        times = (
            now - self._reported_s[one.number] + self.reports[one.number].silent_s
            for one in self._there()
        )
        return max(times, default=0.0)

    def order(self, kind: str) -> None:
        """Give an order without an answer to all."""
        for worker in self._there():
            self._send(worker, kind, False)

    def ask(self, wants_snapshot: bool, seconds: float) -> None:
        """Let all report, and wait until they have, or that long."""
        for worker in self._there():
            if not self._is_asked[worker.number]:
                self._is_asked[worker.number] = True
                self._send(worker, REPORT, wants_snapshot, self.wants_windows)
        self.wants_windows = False
        deadline = time.monotonic() + seconds
        while any(self._is_asked[one.number] for one in self._there()):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self.listen(left)

    def listen(self, seconds: float) -> None:
        """Take reports that come within that time, and notice workers that end."""
        there = {one.pipe.fileno(): one for one in self._there()}
        if not there:
            return
        waiting = select.poll()
        for number in there:
            waiting.register(number, select.POLLIN)
        for number, _ in waiting.poll(round(seconds * 1000)):
            self._take(there[number])

    def kill(self) -> None:
        """End all at once."""
        for worker in self.workers:
            worker.kill()

    def _there(self) -> list[Worker]:
        """Workers that have not ended, nor said that they do."""
        return [
            one
            for one in self.workers
            if one.number not in self.lost and self.reports[one.number].phase != IS_DONE
        ]

    def _take(self, worker: Worker) -> None:
        try:
            found = self._inboxes[worker.number].receive(worker.pipe)
        except EOFError:
            self._lose(worker)
            return
        except OSError as error:
            self._lose(worker, error.strerror or "does not answer")
            return
        for report in found:
            self._is_asked[worker.number] = False
            if report.window is not None:
                self.windows.append((worker.number, report.window))
                report = report._replace(window=None)
            if not report.snapshots:
                report = report._replace(snapshots=self.reports[worker.number].snapshots)
            self.reports[worker.number] = report
            self._reported_s[worker.number] = self._clock()
            for other in self._there():
                if other is not worker:
                    self._news[other.number].names.update(report.learned.names)
                    self._news[other.number].protocols.update(report.learned.protocols)

    def _send(
        self, worker: Worker, kind: str, wants_snapshot: bool, wants_window: bool = False
    ) -> None:
        news, self._news[worker.number] = self._news[worker.number], Learned({}, {})
        # The shortest window is that of all.
        since_ns = max(one.window_begin_ns for one in self.reports)
        try:
            order = Order(
                kind, news, wants_snapshot, since_ns, wants_window, self.foci, self.window_s
            )
            send(worker.pipe, order)
        except TimeoutError:
            worker.kill()
            self._lose(worker, "did not answer, and was killed")
        except OSError:
            self._lose(worker)

    def _lose(self, worker: Worker, why: str = "") -> None:
        deadline = time.monotonic() + EXIT_S
        while not worker.has_ended() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        self.lost[worker.number] = why or reason_of(worker)


def reason_of(worker: Worker) -> str:
    """How a worker ended.

    >>> from socket import socket
    >>> worker = Worker(0, 0, socket())
    >>> worker.exit_code = -9
    >>> reason_of(worker)
    'was killed (SIGKILL)'
    """
    code = worker.exit_code
    if code is not None and code < 0:
        return f"was killed ({signal.Signals(-code).name})"
    return "ended with an error"
