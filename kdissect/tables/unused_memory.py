"""Memory that the process holds and does not use: pools keep what was freed for themselves."""

import ctypes
import gc

import pyarrow as pa


def give_back() -> None:
    """Return unused memory to the system, as far as possible."""
    gc.collect()
    trim()


def trim() -> None:
    """Return what was freed and is kept by the allocators."""
    pa.default_memory_pool().release_unused()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return  # another C library, without malloc_trim
    trim(0)
