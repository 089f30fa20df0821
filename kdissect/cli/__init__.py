"""The command line: one file a command. Importing it imports nothing heavy."""

import gc
import os

# Objects made before the cycle collector looks at them: start-up makes 150 000 that all stay.
COLLECT_EVERY = 1_000_000


def main() -> int:
    """Run the command line on sys.argv; gives the exit code."""
    gc.set_threshold(COLLECT_EVERY)
    # numpy's linear algebra is not used; its idle threads would spin on a core of their own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from kdissect.cli.program import run

    code = run()
    # The interpreter would search all that is left for cycles, several times, before it ends.
    gc.freeze()
    return code
