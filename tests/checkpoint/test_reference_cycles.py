"""Runs pause the cycle collector: what is left of a split must not stay in memory."""

import gc
import random
from collections import Counter

import pytest

from kdissect.capture.splits import plan
from kdissect.checkpoint.jobs import Shared
from kdissect.checkpoint.merged_run import MergedRun
from kdissect.checkpoint.worker_pool import WorkerPool
from tests.checkpoint.law import CAPTURES, OPTIONS
from tests.seeds import SEED

ALL = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.glob("**/*.pcap*"))


@pytest.mark.sweep
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("workers", [0, 1])
def test_splits_leave_no_reference_cycles(name: str, workers: int) -> None:
    paths = [str(CAPTURES / name)]
    size = (CAPTURES / name).stat().st_size
    count = random.Random(f"{SEED} {name}").choice((2, 3, 5, 9))
    left: Counter[str] = Counter()
    for _ in range(2):  # what is imported and cached once is not of interest
        splits = plan(paths, max(256, size // count))
        run = MergedRun(Shared(splits, OPTIONS, paths, WorkerPool(workers), dict), OPTIONS, paths)
        gc.collect()
        gc.disable()
        try:
            rows = sum(batch.num_rows for _, batch in run)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = Counter(type(one).__name__ for one in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert rows or size < 1_000
    # Of connections that a split has replaced, the two directions may be left.
    assert not {"ConnectionState", "InsideEnded", "SplitDissector", "_Step", "frame"} & {*left}, (
        left
    )
