"""Bytes read, rate and time left, on stderr and only on a terminal."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import click

from kdissect.text.escape import escaped
from kdissect.text.human import duration, size

SHOW_AFTER_SECONDS: Final = 0.5
EVERY_SECONDS: Final = 0.1
CLEAR_LINE: Final = "\r\x1b[K"


class Progress:
    """One line that is rewritten by each `report`, and removed at the end."""

    def __init__(self, is_wanted: bool | None = None) -> None:
        self.is_shown = sys.stderr.isatty() if is_wanted is None else is_wanted
        self._clock: Callable[[], float] = time.monotonic
        self._start = self._clock()
        self._next = self._start + SHOW_AFTER_SECONDS
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.clear()

    def report(self, done: int, total: int | None = None) -> None:
        """Report `done` bytes of `total` (None: unknown) as read."""
        now = self._clock()
        if not self.is_shown or now < self._next:
            return
        self._next = now + EVERY_SECONDS
        self._is_drawn = True
        sys.stderr.write(CLEAR_LINE + line(done, total, now - self._start))
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line, before other output."""
        if self._is_drawn:
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()
            self._is_drawn = False

    def notice(self, text: str) -> None:
        """Print a line that stays."""
        self.clear()
        click.echo(f"kdissect: {escaped(text)}", err=True)


def line(done: int, total: int | None, seconds: float) -> str:
    """The text of the line."""
    rate = done / seconds if seconds > 0 else 0.0
    if not total:
        return f"{size(done)}  {size(rate)}/s"
    left = duration((total - done) / rate * 1e9) if rate and done <= total else "?"
    return f"{size(done)} of {size(total)} ({done / total:.0%})  {size(rate)}/s  {left} left"
