"""`Reporter`: a worker's side of the conversation with the first process.

A thread waits for orders and answers them, so that the capture waits for nothing but, at its end,
the names that other workers know. When the first process is gone the capture stops and finishes.
"""

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from kdissect.live.counting.meters import Meters
from kdissect.live.counting.snapshot import Focus
from kdissect.live.listener import Listener, LiveCapture, Status
from kdissect.live.workers.forking import Seat
from kdissect.live.workers.messages import (
    BEGINS,
    CAPTURES,
    FINISH,
    HAS_READ,
    IS_DONE,
    REOPEN,
    REPORT,
    STOP,
    Inbox,
    Learned,
    Order,
    Report,
    Window,
    Written,
    send,
)

if TYPE_CHECKING:
    from kdissect.live.counting.metrics import MetricsListener

# For the other workers, which may have more to dissect, and for the last report to be taken.
FINISH_S: Final = 20.0
DONE_S: Final = 10.0


class Reporter(Listener):
    """The first of a worker's listeners: files are finished after it, with the names of all."""

    def __init__(
        self,
        seat: Seat,
        metrics: "MetricsListener | None",
        meters: Meters | None,
        window: Window | None = None,
    ) -> None:
        self._pipe = seat.pipe
        self._metrics = metrics
        self._meters = meters
        self._window = window
        self._phase = BEGINS
        self._status: Status | None = None
        self._written: Written | None = None
        self._alive_s = time.monotonic()
        self._known: set[bytes] = set()  # topics by id, at the last tick
        self._news = Learned({}, {})  # what the first process does not know yet
        self._lock = threading.Lock()
        self._from_others: deque[Learned] = deque()
        self._may_finish = threading.Event()
        self._is_told = threading.Event()
        self._is_alone = False

    def begin(self, watcher: LiveCapture) -> None:
        self._watcher = watcher
        watcher.dissector.exchanges.bodies.groups.news = []
        threading.Thread(target=self._serve, name="orders", daemon=True).start()

    def alive(self) -> None:
        self._alive_s = time.monotonic()

    def tick(self, status: Status) -> None:
        """Exchange what was learned; report that it captures."""
        self.alive()
        self._learn()
        self._status = status
        self._phase = max(self._phase, CAPTURES)

    def finish(self, status: Status) -> None:
        """Wait until all workers have dissected their packets, for the names that they know."""
        self._learn()
        self._status = status
        self._phase = HAS_READ
        self._may_finish.wait(FINISH_S)
        self._learn()

    def leave(self, written: Written | None) -> None:
        """Report that all is done, and wait until that was taken."""
        self._written = written
        self._phase = IS_DONE
        if not self._is_alone:
            self._is_told.wait(DONE_S)

    def _learn(self) -> None:
        """Take what others have learned; note what is new here."""
        names, groups = self._watcher.names, self._watcher.dissector.exchanges.bodies.groups
        while self._from_others:
            others = self._from_others.popleft()
            self._known.update(others.names)
            for raw, name in others.names.items():
                names.setdefault(raw, name)
            for group, protocol in others.protocols.items():
                groups.learn(group, protocol)
        joined, groups.news = groups.news or [], []
        with self._lock:
            self._news.protocols.update((group, protocol) for group, protocol, _ in joined)
            if len(names) != len(self._known):
                new = {raw: name for raw, name in names.items() if raw not in self._known}
                self._known.update(new)
                self._news.names.update(new)

    def _serve(self) -> None:
        """Answer orders until the first process closes its end."""
        inbox = Inbox()
        try:
            while True:
                for order in inbox.receive(self._pipe):
                    self._obey(order)
        except (EOFError, OSError):
            self._is_alone = True
            self._watcher.stop()
            self._may_finish.set()
            self._is_told.set()

    def _obey(self, order: Order) -> None:
        if order.learned.names or order.learned.protocols:
            self._from_others.append(order.learned)
        if order.kind == STOP:
            self._watcher.stop()
        elif order.kind == REOPEN:
            self._watcher.reopen()
        elif order.kind == FINISH:
            self._may_finish.set()
        elif order.kind == REPORT:
            phase = self._phase
            if self._window is not None:
                self._window.ask(order.since_ns, order.wants_window)
            if self._meters is not None and order.window_s:
                self._meters.set_window(order.window_s)
            send(self._pipe, self._report(phase, order.foci if order.wants_snapshot else ()))
            if phase == IS_DONE:
                self._is_told.set()

    def _report(self, phase: int, foci: tuple[Focus, ...]) -> Report:
        with self._lock:
            news, self._news = self._news, Learned({}, {})
        meters = self._meters
        return Report(
            phase,
            time.monotonic() - self._alive_s,
            news,
            self._status,
            None if self._metrics is None else self._metrics.samples(),
            () if meters is None else tuple(meters.mergeable(focus) for focus in foci),
            self._written,
            0 if self._window is None else self._window.begin_ns,
            None if self._window is None else self._window.take_encoded(),
        )
