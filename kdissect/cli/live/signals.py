"""Signal handling during live capture.

SIGINT, SIGTERM   finish; the second, a second later or more: end at once, without the rows since
                  the last flush
SIGHUP            rotate, and reopen sources and key logs
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, Protocol

from kdissect.cli.ending import KILLED, first_or_second

STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


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

    `kill` is called before this process ends at once.
    """
    asked = Asked()

    def stop(_: int) -> None:
        asked.to_stop = True
        watcher.stop()

    def end(number: int) -> None:
        if kill is not None:
            kill()
        os._exit(KILLED + number)

    def reopen(_: int, __: FrameType | None) -> None:
        watcher.reopen()

    handler = first_or_second(stop, end)
    before = {number: signal.signal(number, handler) for number in STOPPING}
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, reopen)
    try:
        yield asked
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
