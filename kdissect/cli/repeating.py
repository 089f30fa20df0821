"""Commands that do something again and again until a signal ends them."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from kdissect.cli.program import report
from kdissect.errors import KdissectError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def until_signal() -> Iterator[threading.Event]:
    """An event that SIGINT or SIGTERM sets; the second of them acts as usual."""
    stopped = threading.Event()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def stop(*_: object) -> None:
        stopped.set()
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in SIGNALS:
        signal.signal(number, stop)
    try:
        yield stopped
    finally:
        restore()


def repeat(act: Callable[[], object], every_ns: int, stopped: threading.Event) -> None:
    """Act at once, then every so often until it is stopped.

    An error of the first time is raised, later ones are reported: a disk may have room again.
    """
    act()
    while not stopped.wait(_until_next(every_ns)):
        try:
            act()
        except KdissectError as error:
            report(error)


def _until_next(every_ns: int) -> float:
    """Seconds until the next multiple of the interval: a page is made soon after a rotation."""
    return (every_ns - time.time_ns() % every_ns) / 1e9
