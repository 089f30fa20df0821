"""Disk errors: reported once when they begin and once when they end, with the rows lost.

Writer threads record them, and the thread that reads packets reports them.
"""

import errno
import threading
from collections import Counter
from typing import Final

from kdissect.errors import OutputError, Problem

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
DISK_FULL: Final = "disk-full"
DISK_FAILED: Final = "disk-failed"


class DiskTrouble:
    """Records writers that fail, and rows lost because of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failing: dict[str, str] = {}
        self._kind = DISK_FULL
        self._reason = ""
        self._began_ns = -1  # -1: not reported yet
        self._lost: Counter[str] = Counter()
        self._others: list[Problem] = []

    @property
    def is_failing(self) -> bool:
        """Return whether the last attempt of any writer failed."""
        return bool(self._failing)

    def has(self, who: str) -> bool:
        """Return whether the last attempt of this writer failed."""
        return who in self._failing

    @property
    def reason(self) -> str:
        """The reason as text."""
        return self._reason

    def failed(self, who: str, error: Exception) -> None:
        """Record a failed attempt of a writer, which will retry."""
        with self._lock:
            self._failing[who] = str(error)
            self._reason = str(error)
            self._kind = DISK_FULL if is_full(error) else DISK_FAILED

    def worked(self, who: str) -> None:
        """Record a successful attempt of a writer."""
        if who in self._failing:
            with self._lock:
                self._failing.pop(who, None)

    def lose(self, table: str, rows: int) -> None:
        """Record rows dropped for lack of room."""
        with self._lock:
            self._lost[table] += rows

    def add(self, problem: Problem) -> None:
        """Add another problem to report."""
        with self._lock:
            self._others.append(problem)

    def take_problems(self, now_ns: int) -> list[Problem]:
        """Return the problems to report now."""
        with self._lock:
            problems, self._others = self._others, []
            if self._failing and self._began_ns < 0:
                self._began_ns = now_ns
                text = f"{self._reason}: rows wait in memory until there is room"
                problems.append(Problem("tables", self._kind, text, now_ns))
            elif (self._began_ns >= 0 or self._lost) and not self._failing:
                seconds = (now_ns - self._began_ns) / 1e9 if self._began_ns >= 0 else 0
                text = f"tables are written again after {seconds:.1f} s; {lost_text(self._lost)}"
                problems.append(Problem("tables", self._kind, text, now_ns))
                self._began_ns = -1
                self._lost = Counter()
            return [one._replace(time_ns=now_ns) if one.time_ns < 0 else one for one in problems]

    def loss(self) -> str:
        """Rows lost since the errors began, by table."""
        with self._lock:
            return lost_text(self._lost)


def lost_text(lost: Counter[str]) -> str:
    """Like "rows lost: exchanges 12, partitions 30"."""
    if not lost:
        return "no row was lost"
    return "rows lost: " + ", ".join(f"{table} {rows}" for table, rows in sorted(lost.items()))


def is_full(error: BaseException | None) -> bool:
    """Return whether the disk is full, by errno or by the text of the error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        error = error.__cause__ if isinstance(error, OutputError) else None
    return False
