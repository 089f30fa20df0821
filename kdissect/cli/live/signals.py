"""Signal handling during live capture.

SIGINT, SIGTERM   finish; the second, a second later or more: end at once, without the rows since
                  the last flush
SIGHUP            rotate, and reopen sources and key logs
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, Protocol

from kdissect.cli.repeating import ONE_SIGNAL_SECONDS

STOPPING: Final = (signal.SIGINT, signal.SIGTERM)
KILLED: Final = 128  # base of a shell's exit code for a killed program; the signal is added


class Stoppable(Protocol):
    """A capture, as the handlers of signals use it: both set a flag."""

    def stop(self) -> None:
        """End it cleanly."""

    def reopen(self) -> None:
        """Rotate, and reopen sources and key logs."""


class Asked:
    """Return whether a signal ended the run."""

    def __init__(self) -> None:
        self.to_stop = False


@contextmanager
def signals(watcher: Stoppable, kill: Callable[[], None] | None = None) -> Iterator[Asked]:
    """Deliver signals to `watcher`, which polls ten times a second, inside this context.

    `kill` is called before this process ends at once. Signals to a process and to its group, as
    `timeout` and container engines send them, count as one.
    """
    asked = Asked()
    first = 0.0

    def stop(number: int, _: FrameType | None) -> None:
        nonlocal first
        if not asked.to_stop:
            asked.to_stop = True
            first = time.monotonic()
            watcher.stop()
        elif time.monotonic() - first >= ONE_SIGNAL_SECONDS:
            if kill is not None:
                kill()
            os._exit(KILLED + number)

    def reopen(_: int, __: FrameType | None) -> None:
        watcher.reopen()

    before = {number: signal.signal(number, stop) for number in STOPPING}
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, reopen)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
