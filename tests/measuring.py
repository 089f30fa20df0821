"""Measures time and memory of code, and of processes."""

import os
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

DEADLINE_S: Final = 120


def peak_memory(work: Callable[[], Any]) -> int:
    """The peak memory that Python holds while it runs, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def cpu_s(process: int) -> float:
    """CPU seconds of a process so far (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_cpu(process: subprocess.Popen[Any], until_s: float) -> None:
    """Wait until a process that goes on has had so many CPU seconds."""
    deadline = time.monotonic() + DEADLINE_S
    while cpu_s(process.pid) < until_s:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
