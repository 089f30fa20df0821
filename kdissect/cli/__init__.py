"""The command line: one file a command. Importing it imports nothing heavy."""

import atexit
import gc
import os
import sys
from contextlib import suppress

# Objects made before the cycle collector looks at them: start-up makes 150 000 that all stay.
COLLECT_EVERY = 1_000_000


class Ending:
    """Ends the process after all other exit handlers, without freeing all it holds one by one.

    With `code` None, when something unforeseen was raised, the interpreter ends as usual.
    """

    def __init__(self) -> None:
        self.code: int | None = None

    def leave(self) -> None:
        """Flush, and end with the code; where that fails, it is the interpreter's to say so."""
        if self.code is None:
            return
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


def main() -> int:
    """Run the command line on sys.argv; gives the exit code, for the process to end with."""
    ending = Ending()
    if not atexit._ncallbacks():
        # The first handler is called last; those of a debugger or profiler would not be at all.
        atexit.register(ending.leave)
    gc.set_threshold(COLLECT_EVERY)
    # numpy's linear algebra is not used; its idle threads would spin on a core of their own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Arrow's memory is used again for the next row group: new one has to be cleared first.
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")

    from kdissect.cli.program import run

    ending.code = run()
    # An interpreter that ends as usual searches all that is left for cycles, several times.
    gc.freeze()
    return ending.code
