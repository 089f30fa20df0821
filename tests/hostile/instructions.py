"""Counts machine instructions of hostile captures by callgrind, loops inside C too.

    python -m tests.hostile.instructions [--size BYTES] [--doublings N] [--seed SEED] [NAME ...]

One process dissects every capture; between two of them it calls `getppid`, where callgrind writes
down what it counted and begins anew. Start-up and generating captures are left out.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.hostile.catalogue import HOSTILE
from tests.hostile.counting import GROWTH, dissect

TOTAL = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)
IN_CHILD = "KDISSECT_COUNTED"
Counts = dict[str, list[int]]


def counted(names: Sequence[str], sizes: Sequence[int], seed: int) -> Counts:
    """Instructions of each generator at each size; those of a repeated name are added up."""
    command = [sys.executable, "-m", "tests.hostile.instructions", "--seed", str(seed)]
    command += ["--size", str(sizes[0]), "--doublings", str(len(sizes) - 1), *names]
    surroundings = os.environ | {IN_CHILD: "1", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as out:
        valgrind = ["valgrind", "--tool=callgrind", "--dump-before=getppid"]
        valgrind.append(f"--callgrind-out-file={out}/counts")
        done = subprocess.run(
            [*valgrind, *command], check=False, capture_output=True, text=True, env=surroundings
        )
        if done.returncode:
            raise RuntimeError(f"nothing was counted:\n{done.stderr[-2000:]}")
        dumps = sorted(Path(out).glob("counts.*"), key=lambda file: int(file.suffix[1:]))
        totals = [total_of(dump) for dump in dumps]
    # The first dump covers the start; every second one covers generating a capture.
    found = totals[1::2]
    if len(found) != len(names) * len(sizes):
        raise RuntimeError(f"{len(found)} counts of {len(names)} generators")
    counts = {name: [0] * len(sizes) for name in names}
    for at, name in enumerate(names):
        each = found[at * len(sizes) : (at + 1) * len(sizes)]
        counts[name] = [sum(both) for both in zip(counts[name], each, strict=True)]
    return counts


def total_of(dump: Path) -> int:
    """Instructions of one part that callgrind wrote."""
    found = TOTAL.search(dump.read_text())
    if found is None:
        raise RuntimeError(f"no total in {dump.name}")
    return int(found[1])


def dissect_all(names: Sequence[str], sizes: Sequence[int], seed: int) -> None:
    """Cases to count; a repeated name is drawn again."""
    for number, name in enumerate(names):
        hostile = HOSTILE[name]
        captures = [hostile.capture(seed + number, size) for size in sizes]
        # Layouts and readers, which are made once per process. The largest needs them all, as the
        # smaller ones are its beginning.
        dissect(hostile, captures[-1])
        for capture in captures:
            os.getppid()
            dissect(hostile, capture)
            os.getppid()


def growths(counts: Sequence[int]) -> list[float]:
    """Growth factor of each doubling."""
    return [after / before for before, after in pairwise(counts)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(HOSTILE))
    parser.add_argument("--size", type=int, default=1 << 16)
    parser.add_argument("--doublings", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sizes = [given.size << number for number in range(given.doublings + 1)]
    if os.environ.get(IN_CHILD):
        dissect_all(given.names, sizes, given.seed)
        return
    for name in given.names:
        (counts,) = counted([name], sizes, given.seed).values()
        grown = growths(counts)
        mark = "" if max(grown) < GROWTH else "   grows too fast"
        each = ", ".join(f"{count / size:.0f}" for count, size in zip(counts, sizes, strict=True))
        times = ", ".join(f"{one:.2f}" for one in grown)
        sys.stdout.write(f"{name:32} {each} a byte; x {times}{mark}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
