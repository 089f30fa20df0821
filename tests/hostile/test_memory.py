"""Hostile captures take memory that grows with them no faster, and is bounded by their bytes."""

from itertools import pairwise

import pytest

from tests.hostile.catalogue import HOSTILE
from tests.hostile.counting import GROWTH, dissect
from tests.measuring import peak_memory
from tests.seeds import SEED

MIB = 1 << 20
SIZE = 24_000
# Rows of all tables before they are a batch: a record of seven bytes is 40 columns of 8 bytes, and
# as much again while they become Arrow.
EACH = 400
BASE = 8 * MIB


def peak_of(name: str, seed: int, size: int) -> int:
    hostile = HOSTILE[name]
    capture = hostile.capture(seed, size)
    return peak_memory(lambda: dissect(hostile, capture))


def check_memory(peaks: list[int], size: int, name: str) -> None:
    """Each peak is of a capture that is twice as large as the one before."""
    said = f"{name}, KDISSECT_SEED={SEED}: {peaks}"
    for number, found in enumerate(peaks):
        assert found < BASE + EACH * (size << number), said
    for one, two in pairwise(peaks):
        assert two < GROWTH * max(one, 2 * MIB), said


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", HOSTILE)
def test_memory_of_a_hostile_capture_is_bounded_by_its_bytes(name: str) -> None:
    dissect(HOSTILE[name], HOSTILE[name].capture(SEED, SIZE))
    check_memory([peak_of(name, SEED, SIZE << n) for n in range(3)], SIZE, name)
