"""CPU time of a process tree, against what the kernel counts for children that were waited for."""

import os
import subprocess
import sys
import time

import pytest

from benchmarks import spark_run

# Some more than the 0.4 s that are expected: the kernel's counts are rounded down to ticks.
BUSY = (
    "import time, sys\nwhile time.process_time() < 0.45: pass\nprint(flush=True)\nsys.stdin.read()"
)


def of_children() -> float:
    return sum(os.times()[2:4])


def test_time_of_a_process_that_has_ended_is_kept() -> None:
    begun, own, kernel = spark_run.cpu_seconds(), time.process_time(), of_children()
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        looked = spark_run.cpu_seconds()
    ended = spark_run.cpu_seconds()
    assert looked <= ended
    used = of_children() - kernel + time.process_time() - own
    assert used >= 0.4
    assert ended - begun == pytest.approx(used, abs=0.1)
