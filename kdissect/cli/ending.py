"""SIGTERM and SIGHUP end a command as Ctrl-C does: worker processes and temporary files go, too."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

NUMBERS: Final = tuple(
    number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)
INTERRUPTED: Final = 130
KILLED: Final = 128  # base of a shell's exit code for a killed program; the signal is added
ONE_SIGNAL_SECONDS: Final = 1.0  # signals within this time count as one


class Terminated(KeyboardInterrupt):
    """A signal other than that of Ctrl-C ended the command; `code` is the exit code."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = KILLED + number


def code_of_ending(ending: BaseException) -> int:
    """Exit code of a command that was interrupted."""
    return ending.code if isinstance(ending, Terminated) else INTERRUPTED


def first_or_second(
    first: Callable[[int], object], second: Callable[[int], object]
) -> Callable[[int, FrameType | None], None]:
    """A handler of signals: calls `first` once, and `second` for one that comes a second later.

    Signals to a process and to its group, as `timeout` and container engines send them, count as
    one.
    """
    began: float | None = None

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal began
        if began is None:
            began = time.monotonic()
            first(number)
        elif time.monotonic() - began >= ONE_SIGNAL_SECONDS:
            second(number)

    return handle


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """The first of these signals raises Terminated; the second, later, ends the process at once.

    Signals that are ignored, as by nohup, stay so. Only the main thread can handle signals.
    """
    numbers: list[int] = []
    if threading.current_thread() is threading.main_thread():
        numbers = [one for one in NUMBERS if signal.getsignal(one) is signal.SIG_DFL]
    handler = first_or_second(terminate, end_at_once)
    for number in numbers:
        signal.signal(number, handler)
    try:
        yield
    except Terminated:
        numbers = []  # the signal may come once more before the process has ended
        raise
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def terminate(number: int) -> NoReturn:
    """End by Terminated."""
    raise Terminated(number)


def end_at_once(number: int) -> None:
    """End by a signal as if nothing handled it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
