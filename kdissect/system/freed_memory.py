"""Keeps what is freed for the next allocation: memory from the system has to be cleared first."""

import ctypes
from contextlib import suppress
from typing import Final

# Options of glibc's mallopt.
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
# Blocks up to this size, the most that glibc takes, come from the heap, not from the system.
LARGEST_BLOCK: Final = 32 << 20
# Free memory at the end of the heap that is kept. `unused_memory.trim` returns it all the same.
KEPT: Final = 256 << 20


def keep_freed_memory() -> None:
    """Have the C library keep memory. For a process that reads captures and then ends."""
    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGEST_BLOCK)
        mallopt(M_TRIM_THRESHOLD, KEPT)
