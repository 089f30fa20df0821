"""Committed captures cut by a snaplen give the values of the whole, or null, in every column.

Captures and sizes are drawn in each run, and the seed is printed; `make recovery` tries every size.
"""

import random
from collections.abc import Iterable

import pytest

from tests.recovery.captures import EVERY, whole, wrong_at
from tests.seeds import SEED

SMALLEST, LARGEST = 54, 300  # bytes: Ethernet, IPv4 and TCP headers alone, and most small messages
# Sizes of the captures' own that showed wrong values: header and client id, body, counts.
SHOWN = (78, 84, 96, 128, 160)
# Record keys of an internal topic whose name was cut off; raw tokens; group metadata.
WRONG_ONCE = (
    ("cluster-3.9.1.pcapng", 189),
    ("cluster-4.3.1.pcapng", 181),
    ("sasl-0.10.2.2.pcapng", 96),
    ("quickstart.pcapng", 96),
)


DRAWN = 4  # captures of a quick run


def wrong_values(name: str, sizes: Iterable[int]) -> list[str]:
    """The values of a capture that are not those of the whole, at each of some sizes."""
    wrong = [f"{size} bytes: {one}" for size in sorted(sizes) for one in wrong_at(name, size)]
    whole.cache_clear()
    return wrong


def drawn_sizes(source: random.Random) -> set[int]:
    return {source.randrange(SMALLEST, LARGEST + 1), source.choice(SHOWN)}


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", EVERY)
def test_a_capture_cut_at_any_size_makes_nothing_up(name: str) -> None:
    assert wrong_values(name, drawn_sizes(random.Random(f"{SEED} {name}"))) == [], f"seed {SEED}"


def test_drawn_captures_cut_at_drawn_sizes_make_nothing_up() -> None:
    source = random.Random(SEED)
    for name in source.sample(EVERY, DRAWN):
        assert wrong_values(name, drawn_sizes(source)) == [], f"{name}, seed {SEED}"


@pytest.mark.parametrize(("name", "size"), WRONG_ONCE)
def test_former_snaplen_errors_stay_fixed(name: str, size: int) -> None:
    assert wrong_values(name, [size]) == []
