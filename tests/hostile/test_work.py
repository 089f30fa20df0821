"""Hostile captures take work that grows with them, and no faster."""

import os
import random
from itertools import pairwise

import pytest

from tests.hostile.catalogue import HOSTILE
from tests.hostile.counting import GROWTH, IS_COMPILED, dissect, lines, small_bounds

SEED = int(os.environ.get("KDISSECT_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
SMALL = 12_000
# What a run takes, whatever is in it: schemas, layouts that are read first.
BASE = 40_000
pytestmark = pytest.mark.skipif(
    IS_COMPILED, reason="compiled code has no lines to count; tools.work_per_byte counts it"
)


def counted(name: str, seed: int, size: int) -> int:
    """Lines of Python for a capture of about this size."""
    hostile = HOSTILE[name]
    capture = hostile.capture(seed, size)
    with small_bounds():
        dissect(hostile, capture)  # layouts that it needs are read now
        return lines(lambda: dissect(hostile, capture))


@pytest.mark.parametrize("name", HOSTILE)
def test_twice_a_hostile_capture_takes_no_more_than_twice_the_work(name: str) -> None:
    one = counted(name, SEED, SMALL)
    two = counted(name, SEED, 2 * SMALL)
    assert two < GROWTH * max(one, BASE), f"{name}, seed {SEED}: {one} lines, then {two}"


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_work_grows_with_the_bytes_at_every_doubling(name: str) -> None:
    for seed in range(SEED, SEED + 3):
        counts = [counted(name, seed, SMALL << n) for n in range(2, 5)]
        for one, two in pairwise(counts):
            assert two < GROWTH * max(one, BASE), f"{name}, seed {seed}: {counts} lines"
