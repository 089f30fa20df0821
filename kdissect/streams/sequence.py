"""32-bit TCP sequence numbers, which wrap around, and the distance between two of them.

A 64-bit stream position is a known position plus the distance from its sequence number; that is
right while the two are less than 2**31 bytes apart, and TCP windows are at most 2**30 (RFC 7323).
"""

from typing import Final

from mypy_extensions import i64

MODULUS: Final = 0x1_0000_0000
MASK: Final = 0xFFFF_FFFF
HALF: Final = 0x8000_0000


def advance(sequence: i64, count: i64) -> i64:
    """Sequence number `count` bytes after `sequence`.

    >>> advance(0xFFFFFFFF, 2)
    1
    """
    return (sequence + count) & MASK


def distance(sequence: i64, origin: i64) -> i64:
    """Distance of `sequence` from `origin` in bytes, negative if before: -2**31 to 2**31 - 1.

    >>> distance(1, 0xFFFFFFFF), distance(0xFFFFFFFF, 1)
    (2, -2)
    """
    return ((sequence - origin + HALF) & MASK) - HALF
