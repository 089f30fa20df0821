"""Committed captures cut by a snaplen tell what they tell as a whole, or null, in every column.

The sizes are drawn anew in each run; `python -m tools.recovery --snaplens 54-300` tries them all.
"""

import random

import pytest

from tests.recovery.captures import EVERY, whole, wrong_at

SMALLEST, LARGEST = 54, 300  # bytes: Ethernet, IPv4 and TCP headers alone, and most small messages
# Sizes of the captures' own that showed wrong values: header and client id, body, counts.
SHOWN = (78, 84, 96, 128, 160)


@pytest.mark.parametrize("name", EVERY)
def test_a_capture_cut_at_any_size_makes_nothing_up(name: str) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    source = random.Random(seed)
    sizes = {source.randrange(SMALLEST, LARGEST + 1), source.choice(SHOWN)}
    wrong = [f"{size} bytes: {one}" for size in sorted(sizes) for one in wrong_at(name, size)]
    whole.cache_clear()
    assert wrong == [], f"seed {seed}"
