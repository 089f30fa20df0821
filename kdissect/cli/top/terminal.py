"""The terminal for the screen, independent of stdin and stderr."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

TERMINAL: Final = Path("/dev/tty")
PLAIN: Final = ("", "dumb", "unknown")


def has_screen() -> bool:
    """Return whether stdout is a terminal capable of full-screen output."""
    return (
        sys.stdout.isatty()
        and os.environ.get("TERM", "") not in PLAIN
        and os.access(TERMINAL, os.R_OK | os.W_OK)
    )


@contextmanager
def terminal() -> Iterator[None]:
    """Let Textual use the terminal for keys and output, inside this context.

    It uses stdin and stderr for that; but stdin may be the pipe with the packets, and stderr
    a file.
    """
    before = sys.__stdin__, sys.__stderr__
    # A shell sets them once; the terminal itself knows its current size.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    with TERMINAL.open(encoding="utf-8") as keys, TERMINAL.open("w", encoding="utf-8") as screen:
        sys.__stdin__, sys.__stderr__ = keys, screen  # type: ignore[misc]  # typeshed: Final
        try:
            yield
        finally:
            sys.__stdin__, sys.__stderr__ = before  # type: ignore[misc]  # the same
            with suppress(OSError):
                screen.flush()
