"""The first packets of a capture give the values of the whole, or null, in every column.

A prefix ends where a capture program was stopped. Columns that by their meaning depend on where it
ends are declared in `relations`, each with its reason.
"""

import random

import pytest

from tests.recovery.captures import EVERY, packets_in, whole, wrong_in_capture
from tests.recovery.talks import dissect
from tests.seeds import SEED

DRAWN = 4  # captures of a quick run


def wrong_in_prefix(name: str, source: random.Random) -> list[str]:
    """The values of a drawn prefix of a capture that are not those of the whole."""
    packets = packets_in(name)
    count = source.randrange(1, len(packets) + 1)
    found = dissect(packets[:count])
    wrong = wrong_in_capture(found, whole(name), is_prefix=True)
    whole.cache_clear()
    return [f"{count} packets: {one}" for one in wrong]


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", EVERY)
def test_a_prefix_of_any_capture_never_contradicts_the_whole(name: str) -> None:
    assert wrong_in_prefix(name, random.Random(f"{SEED} {name}")) == [], f"seed {SEED}"


def test_drawn_prefixes_of_drawn_captures_never_contradict_the_whole() -> None:
    source = random.Random(SEED)
    for name in source.sample(EVERY, DRAWN):
        assert wrong_in_prefix(name, source) == [], f"{name}, seed {SEED}"
