"""Unused memory of the process: allocators keep freed memory in pools."""

import ctypes
import gc

import pyarrow as pa


def give_back() -> None:
    """Return unused memory to the system, as far as possible."""
    gc.collect()
    trim()


def trim() -> None:
    """Release freed memory that the allocators keep."""
    pa.default_memory_pool().release_unused()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return  # another C library, without malloc_trim
    trim(0)
