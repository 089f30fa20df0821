"""Freed memory is used again: the kernel counts the pages that it has to clear."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from kdissect.system.freed_memory import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
for _ in range(3):
    bytearray(8 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    # Of the kernel's size for a mapping each, in the order in which row groups come and go.
    blocks = [bytearray(size << 20) for size in (8, 16, 8)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(
    "CS_GNU_LIBC_VERSION" not in getattr(os, "confstr_names", {}), reason="glibc's options"
)
def test_pages_are_cleared_once() -> None:
    faults = {
        kept: int(
            subprocess.run(
                [sys.executable, "-c", PROGRAM, kept], check=True, capture_output=True, text=True
            ).stdout
        )
        for kept in ("kept", "returned")
    }
    pages = 32 * 1024 // 4
    assert faults["kept"] < 2 * pages, faults
    assert faults["returned"] > 10 * faults["kept"], faults
