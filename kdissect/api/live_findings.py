"""`LiveFindings`: findings of a live capture over a sliding window, as events.

take ──▶ FindingWindow ──every few seconds──▶ rules ──▶ FindingStates ──▶ events
(reads packets)                            (a thread)   (reads packets)
"""

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from kdissect.api.finding_states import FindingEvent, FindingStates, State, current_data
from kdissect.api.finding_window import Captured, FindingWindow
from kdissect.api.summary_pass import TABLES_OF_RULES, SummaryPage
from kdissect.capture.packet import SECOND_NS
from kdissect.errors import Problem
from kdissect.live.listener import Listener, LiveCapture, Status
from kdissect.rules.compiled_sql import columns_needed, plans
from kdissect.rules.finding import Finding

# Rows of all tables, of some 500 bytes each with all columns.
KEPT_ROWS: Final = 100_000
# The rules run this often in a window, but not more than once in so many seconds.
TIMES: Final = 10
LEAST_S: Final = 1.0
MOST_S: Final = 30.0
IN_MEMORY: Final = 1 << 62  # bytes of a page that is not to use files: the rows are bounded
EVENTS: Final = 1_000  # that were not taken
# Read on import, as a process without privileges may not be permitted to read them later.
PRELOADED: Final = (columns_needed(), plans())
Answer = tuple[int, list[Finding] | Exception]


class Judge:
    """Judges windows of `window_s` seconds, about ten times in that time, by the packets' clock.

    In a thread, unless `is_waiting`: then packets wait for it, as in a replay. `say` is called with
    each event, `fail` with a problem of the rules. While load is shed nothing is judged: rows are
    missing.
    """

    def __init__(
        self,
        window_s: float,
        say: Callable[[FindingEvent], None] = lambda _: None,
        is_waiting: bool = False,
        fail: Callable[[Problem], None] = lambda _: None,
    ) -> None:
        self._every_ns = round(min(max(window_s / TIMES, LEAST_S), MOST_S) * SECOND_NS)
        self._due_ns = -1
        self._say = say
        self._fail = fail
        self._is_waiting = is_waiting
        self._states = FindingStates()
        self._events: deque[FindingEvent] = deque(maxlen=EVENTS)
        self._jobs: queue.SimpleQueue[Captured | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self.is_busy = False
        self._thread: threading.Thread | None = None

    @property
    def current(self) -> list[State]:
        """Findings that have begun and are not over, the worst first."""
        return self._states.current

    def labels(self) -> list[tuple[str, str]]:
        """Id and severity of each of them."""
        return [(state.finding.id, state.severity) for state in self.current]

    def take_data(self) -> dict[str, Any]:
        """Current findings, and the events since the last call, as JSON data."""
        events = [self._events.popleft().data() for _ in range(len(self._events))]
        now = [current_data(one.finding, one.severity, one.since_ns) for one in self.current]
        return {"findings": now, "finding_events": events}

    def start(self) -> None:
        """Start the thread, if there is to be one."""
        if not self._is_waiting:
            self._thread = threading.Thread(target=self._work, name="findings", daemon=True)
            self._thread.start()

    def is_due_at(self, status: Status) -> bool:
        """Return whether a window is to be judged now; then the next one is due later."""
        if self._due_ns < 0:
            self._due_ns = status.now_ns + self._every_ns
        if status.now_ns < self._due_ns or self.is_busy or status.level:
            return False
        self._due_ns = status.now_ns + self._every_ns
        return True

    def judge(self, captured: Captured) -> None:
        """Judge a window; its events come with `receive`."""
        if self._is_waiting:
            self._answers.put(answer_of(captured))
            self.receive()
        else:
            self.is_busy = True
            self._jobs.put(captured)

    def end(self, captured: Captured | None) -> None:
        """End the thread, and judge a last window here: what is found in it has begun."""
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join()
        self.receive()
        if captured is not None:
            self._answers.put(answer_of(captured))
            self.receive(is_last=True)

    def receive(self, is_last: bool = False) -> None:
        """Take the findings of windows that have been judged."""
        while not self._answers.empty():
            now_ns, found = self._answers.get()
            self.is_busy = False
            if isinstance(found, Exception):
                text = f"findings of a window are missing: {type(found).__name__}: {found}"
                self._fail(Problem("live", "findings-failed", text, now_ns))
                continue
            for event in self._states.update(found, now_ns, is_last):
                self._events.append(event)
                self._say(event)

    def _work(self) -> None:
        while (captured := self._jobs.get()) is not None:
            self._answers.put(answer_of(captured))


class LiveFindings(Judge, Listener):
    """Findings of one process over its own window."""

    tables = frozenset(TABLES_OF_RULES)

    def __init__(
        self,
        window_s: float,
        say: Callable[[FindingEvent], None] = lambda _: None,
        is_waiting: bool = False,
        kept_rows: int = KEPT_ROWS,
    ) -> None:
        super().__init__(window_s, say, is_waiting, self._report)
        self._window = FindingWindow(round(window_s * SECOND_NS), kept_rows)

    def begin(self, watcher: LiveCapture) -> None:
        self._watcher = watcher
        self.start()

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        self._window.take(table, batch)

    def tick(self, status: Status) -> None:
        self._window.tick(status.now_ns)
        self.receive()
        if self.is_due_at(status):
            self.judge(self._captured())

    def finish(self, status: Status) -> None:
        """Judge the last window."""
        self._window.tick(status.now_ns)
        self.end(None if status.level else self._captured())

    def _captured(self) -> Captured:
        return self._window.captured(self._watcher)

    def _report(self, problem: Problem) -> None:
        self._watcher.dissector.add_problems([problem])


def answer_of(captured: Captured) -> Answer:
    """Findings of a window, the worst first, or why there are none."""
    try:
        return captured.end_ns, findings_of(captured)
    except Exception as error:  # a failure of the rules must not end the capture
        return captured.end_ns, error


def findings_of(captured: Captured) -> list[Finding]:
    """All findings of the rows."""
    with SummaryPage() as page:
        page.kept.limit = IN_MEMORY
        page.add_all(captured.batches)
        return page.findings(page.summary(captured.balance))
