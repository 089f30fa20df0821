"""SIGTERM and SIGHUP end a command as Ctrl-C does: worker processes and temporary files go, too."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

NUMBERS: Final = tuple(
    number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)
INTERRUPTED: Final = 130
KILLED: Final = 128  # base of a shell's exit code for a killed program; the signal is added


class Terminated(KeyboardInterrupt):
    """A signal other than that of Ctrl-C ended the command; `code` is the exit code."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = KILLED + number


def code_of_ending(ending: BaseException) -> int:
    """Exit code of a command that was interrupted."""
    return ending.code if isinstance(ending, Terminated) else INTERRUPTED


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """The first of these signals raises Terminated; the second ends the process at once.

    Signals that are ignored, as by nohup, stay so. Only the main thread can handle signals.
    """
    numbers: list[int] = []
    if threading.current_thread() is threading.main_thread():
        numbers = [one for one in NUMBERS if signal.getsignal(one) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, terminate)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def terminate(number: int, _: FrameType | None) -> NoReturn:
    """End by Terminated (a signal handler)."""
    signal.signal(number, signal.SIG_DFL)
    raise Terminated(number)
