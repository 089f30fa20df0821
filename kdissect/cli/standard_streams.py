"""stdin, stdout and stderr in a state in which every command can use them.

A program may be started without one of them (`>&-`, some supervisors); the next file that it opens
would get that number, and what is printed would be written there. Terminals and pipes may have
encodings that lack characters of the pages, such as Latin-1.
"""

import codecs
import os
import sys
from typing import Final, TextIO

MODES: Final = ("r", "w", "w")  # of descriptors 0 to 2
NAMES: Final = ("stdin", "stdout", "stderr")
SUBSTITUTION: Final = "kdissect.substitution"
# One character for one, so that columns stay aligned.
SUBSTITUTES: Final = str.maketrans(
    "─→←↑↓▶›…×≤²µΣ\u202f" "█▇▆▅▄▃▂▁▒░",
    "-><^v>>~x<2uS " "########::",
)  # fmt: skip


def prepare() -> None:
    """Open those that are closed on the null device, and make stdout write any character."""
    for number, name in enumerate(NAMES):
        open_if_closed(number, name)
    codecs.register_error(SUBSTITUTION, substituted)
    make_lenient(sys.stdout)


def open_if_closed(number: int, name: str) -> None:
    """Open the null device under this descriptor, and as this stream of `sys`, where it is None."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        os.set_inheritable(number, True)
    if getattr(sys, name) is None:
        stream = open(number, MODES[number], encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)


def make_lenient(stream: TextIO) -> None:
    """Let the stream replace characters that its encoding lacks, unless errors are configured."""
    errors = getattr(stream, "errors", None)
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is None or errors not in ("strict", "surrogateescape"):
        return
    if codecs.lookup(stream.encoding).name != "utf-8":
        reconfigure(errors=SUBSTITUTION)
    elif errors == "strict":  # lone surrogates, of file names
        reconfigure(errors="backslashreplace")


def substituted(error: UnicodeError) -> tuple[str, int]:
    r"""Replace characters of the pages by similar ones of ASCII, others by their escape.

    >>> substituted(UnicodeEncodeError("ascii", "a…\u200b→", 1, 4, "not there"))
    ('~\\u200b>', 4)
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    known = lacking.translate(SUBSTITUTES)
    return known.encode("ascii", "backslashreplace").decode("ascii"), error.end


def silence_stdout() -> None:
    """Redirect the interpreter's final flush to nothing: stdout can no longer be written."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def discard_unwritable() -> None:
    """Discard output that stdout does not take (full disk): the interpreter would fail on it."""
    try:
        sys.stdout.flush()
    except OSError:
        silence_stdout()
