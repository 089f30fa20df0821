"""Machine instructions of hostile captures at doubling sizes, counted by valgrind."""

import shutil

import pytest

from tests.hostile.counting import GROWTH, IS_COMPILED
from tests.hostile.instructions import counted, growths
from tests.seeds import SEED

SIZES = (1 << 16, 1 << 17, 1 << 18)
# Those that were quadratic once, and those with loops inside C; `python -m
# tests.hostile.instructions` counts them all, which takes half an hour.
# Which bytes of a mutated capture have to be searched is chance, one of a hundred takes three times
# as much at a doubling: three of them together never took 2.3 times, in 5 000 draws.
COUNTED = {
    "api_versions": 1, "zeros_on_an_unknown_port": 1, "first_one_missing": 1, "mutated_captures": 3,
}  # fmt: skip
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed"),
    pytest.mark.skipif(not IS_COMPILED, reason="plain code is counted in lines: test_work"),
]


@pytest.mark.sweep(1)  # a minute each, most of it the start under valgrind
@pytest.mark.parametrize("name", COUNTED)
def test_instructions_grow_with_the_bytes_at_every_doubling(name: str) -> None:
    counts = counted([name] * COUNTED[name], SIZES, SEED)[name]
    assert max(growths(counts)) < GROWTH, f"KDISSECT_SEED={SEED}: {counts}"
