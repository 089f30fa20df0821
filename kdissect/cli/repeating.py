"""Commands that do something again and again until a signal ends them."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from kdissect.cli.ending import first_or_second
from kdissect.cli.program import report
from kdissect.errors import KdissectError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def end_as_usual(*_: object) -> NoReturn:
    """End by KeyboardInterrupt (a signal handler)."""
    raise KeyboardInterrupt


@contextmanager
def until_signal(
    second: Callable[[], NoReturn] = end_as_usual,
) -> Iterator[threading.Event]:
    """An event that SIGINT or SIGTERM sets; `second` is called for a second one."""
    stopped = threading.Event()
    handler = first_or_second(lambda _: stopped.set(), lambda _: second())
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield stopped
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


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
