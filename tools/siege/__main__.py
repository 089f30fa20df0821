"""Hostile input for hours: every command on changed captures, and hostile peers before `live`.

    python -m tools.siege mutations [--minutes 120] [--seed N] [--only NUMBER]
    python -m tools.siege peers     [--minutes 120] [--seed N] [--only NUMBER]

A violated check is an escape: it is saved below build/siege with the seed, and the siege goes on.
Exit code 1 when there was one. What it did is printed as a table for docs/fuzzing.md.
"""

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

from tools.siege import mutations, peers
from tools.siege.escapes import Book
from tools.siege.mutations import Siege
from tools.siege.processes import ROOT

FAILED = 2
PARTS = {"mutations": mutations.besiege, "peers": peers.besiege}


def main() -> int:
    parser = argparse.ArgumentParser(
        "siege", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--only", type=int, help="the number of one input or round, done again")
    parser.add_argument("--place", type=Path, default=ROOT / "build" / "siege")
    options = parser.parse_args()
    # On SIGTERM, its children are ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(FAILED))
    if options.part == "peers":
        code = peers.isolated_run(sys.argv[1:], options.seed)
        if code is not None:
            return code
    print(f"{options.part}, seed {options.seed}, {options.minutes:g} minutes", flush=True)
    siege = Siege(options.minutes, options.seed, options.place.absolute(), only=options.only)
    with tempfile.TemporaryDirectory(prefix="kdissect-siege-") as scratch:
        book: Book = PARTS[options.part](siege, Path(scratch))
    print(*book.summary(), sep="\n")
    return 1 if book.escapes else 0


if __name__ == "__main__":
    sys.exit(main())
