"""Every input that fuzzing kept (tools/fuzz) still keeps the promises, within bounded memory."""

import importlib
import tracemalloc

import pytest

from tools.fuzz.corpus import CORPUS, read_corpus
from tools.fuzz.targets import TARGETS, UNPACKED_LIMIT

SIZE_LIMIT = 1_500_000
# Python values take more than bytes: a struct of two bytes is a dict of some hundred.
MEMORY_RATIO = 500
# Costs that do not depend on the input: readers of a layout, the buffers of tables and codecs.
MEMORY_BASE = 4 << 20


def test_the_corpus_is_small_and_has_every_target() -> None:
    assert CORPUS.stat().st_size < SIZE_LIMIT
    assert {target for target, _ in read_corpus()} == set(TARGETS)


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("target", TARGETS)
def test_the_promises_hold_for_the_corpus(target: str) -> None:
    check = TARGETS[target]
    inputs = [raw for name, raw in read_corpus() if name == target]
    importlib.import_module("pandas")  # 25 MB, which the first table that needs it would take
    tracemalloc.start()
    try:
        for raw in inputs:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            check(raw)
            spent = tracemalloc.get_traced_memory()[1] - before
            assert spent < MEMORY_BASE + MEMORY_RATIO * len(raw) + 4 * UNPACKED_LIMIT, raw.hex()
    finally:
        tracemalloc.stop()
