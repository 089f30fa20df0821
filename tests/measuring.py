"""Measures time and memory of code."""

import tracemalloc
from collections.abc import Callable
from typing import Any


def peak_memory(work: Callable[[], Any]) -> int:
    """The peak memory that Python holds while it runs, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
