"""The command line: one file per command. Importing it imports nothing heavy."""

import atexit
import gc
import os
import sys
from contextlib import suppress

# Garbage collection threshold: start-up makes 150 000 objects that all stay.
COLLECT_EVERY = 1_000_000


class Ending:
    """Ends the process after all other exit handlers, without freeing its objects one by one.

    With `code` None, after an unexpected exception, the interpreter ends as usual.
    """

    def __init__(self) -> None:
        self.code: int | None = None

    def leave(self) -> None:
        """Flush, and exit with the code; on failure the interpreter reports the error."""
        if self.code is None:
            return
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


def main() -> int:
    """Run the command line on sys.argv; return the exit code of the process."""
    from kdissect.cli.standard_streams import prepare

    prepare()
    ending = Ending()
    if not atexit._ncallbacks():
        # The first handler is called last; those of a debugger or profiler would be skipped.
        atexit.register(ending.leave)
    gc.set_threshold(COLLECT_EVERY)
    # numpy's linear algebra is not used; its idle threads would spin on another core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Arrow's memory is reused for the next row group: new memory has to be cleared first.
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")

    from kdissect.cli.program import run

    ending.code = run()
    # An interpreter that ends as usual runs several garbage collections over all that is left.
    gc.freeze()
    return ending.code
