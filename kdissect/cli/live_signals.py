"""What signals mean while packets are captured.

SIGINT, SIGTERM   finish; once more: end at once, without the rows since the last flush
SIGHUP            rotate, and open sources and key logs anew
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kdissect.live.watcher import Watcher

STOPPING: Final = (signal.SIGINT, signal.SIGTERM)
KILLED: Final = 128  # the exit code of a shell for a program that a signal ended, plus its number


class Asked:
    """Whether it was a signal that ended it."""

    def __init__(self) -> None:
        self.to_stop = False


@contextmanager
def signals(watcher: "Watcher") -> Iterator[Asked]:
    """Let signals be heard by `watcher`, which looks ten times a second, in here."""
    asked = Asked()

    def stop(number: int, _: FrameType | None) -> None:
        if asked.to_stop:
            os._exit(KILLED + number)
        asked.to_stop = True
        watcher.stop()

    def reopen(_: int, __: FrameType | None) -> None:
        watcher.reopen()

    before = {number: signal.signal(number, stop) for number in STOPPING}
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, reopen)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
