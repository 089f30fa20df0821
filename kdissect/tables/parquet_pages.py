"""Columns of integers → the encodings of Parquet's data pages, whole arrays at a time.

    hybrid  of small numbers of one width: runs { varint count << 1, the value } and packed ones
            { varint groups << 1 | 1, the values }, eight a group
    delta   DELTA_BINARY_PACKED: varint values a block, varint miniblocks a block, varint count,
            zig-zag first value, and for each block: zig-zag least difference, a byte for each
            miniblock: the bits of a value in it, the differences less the least, packed

Widths are whole bytes, so that packing is a cast: what that wastes, compression finds. The widths
of 8, 16, 32 and 64 bits are those that every processor has.
"""

from typing import Any, Final

import numpy as np

from kdissect.tables.thrift import varint, zigzag

Array = np.ndarray[Any, Any]

# Four miniblocks of 256 values: one that is far off costs its miniblock only, and 32 768 values
# are 128 casts.
BLOCK_VALUES: Final = 1024
MINIBLOCKS: Final = 4
MINIBLOCK_VALUES: Final = BLOCK_VALUES // MINIBLOCKS
DELTA_HEAD: Final = varint(BLOCK_VALUES) + varint(MINIBLOCKS)
LARGEST: Final = (0, 0xFF, 0xFFFF, 0xFFFF_FFFF)  # of each width
WIDTHS: Final = (0, 8, 16, 32, 64)

GROUP: Final = 8  # the values of a packed run come in these
FEW_RUNS: Final = 64  # one by one they take less time than all at once


def run_starts(values: Array) -> Array:
    """Where the runs of equal values start; `values` has one at least."""
    return np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))


def one_run(count: int, value: int) -> bytes:
    r"""Levels or places that are all the same and fit a byte.

    >>> one_run(100, 1)
    b'\xc8\x01\x01'
    """
    return varint(count << 1) + bytes([value])


def packed_flags(flags: Array) -> bytes:
    """Levels of one bit."""
    return varint(groups_of(len(flags)) << 1 | 1) + np.packbits(flags, bitorder="little").tobytes()


def packed_places(places: Array) -> bytes:
    """Places of 8 or 16 bits, as wide as the array's."""
    rest = -len(places) % GROUP
    return (
        varint(groups_of(len(places)) << 1 | 1) + places.tobytes() + bytes(rest * places.itemsize)
    )


def groups_of(count: int) -> int:
    """How many groups hold so many values."""
    return (count + GROUP - 1) // GROUP


def runs_of_places(places: Array, counts: Array) -> bytes:
    """Runs of places of 8 or 16 bits, `counts` of each."""
    width = places.itemsize
    if len(places) <= FEW_RUNS:
        pairs = zip(counts.tolist(), places.tolist(), strict=True)
        return b"".join([varint(n << 1) + place.to_bytes(width, "little") for n, place in pairs])
    # All headers at once: a row of a matrix is a header as long as the longest, and the place; what
    # it does not need is left out.
    headers = counts.astype(np.uint32) << np.uint32(1)
    longest = len(varint(int(headers.max())))
    rows = np.empty((len(places), longest + width), np.uint8)
    needed = np.ones(rows.shape, bool)
    for i in range(longest):
        left = headers >> np.uint32(7 * i)
        rows[:, i] = (left & np.uint32(0x7F)) | ((left > 0x7F).astype(np.uint32) << np.uint32(7))
        if i:
            needed[:, i] = left > 0
    rows[:, longest:] = places.view(np.uint8).reshape(-1, width)
    return rows[needed].tobytes()


def deltas(values: Array) -> bytes:
    """Integers of 32 or 64 bits, one at least, as DELTA_BINARY_PACKED.

    Differences wrap, as the reader's sums do.
    """
    head = DELTA_HEAD + varint(len(values)) + zigzag(int(values[0]))
    if len(values) == 1:
        return head
    differences = np.diff(values)
    count = len(differences)
    blocks = np.empty((-(-count // BLOCK_VALUES), BLOCK_VALUES), differences.dtype)
    flat = blocks.reshape(-1)
    flat[:count] = differences
    flat[count:] = differences[-1]  # a miniblock without a value of ours is left out below
    least = blocks.min(axis=1)
    over = (blocks - least[:, None]).view(f"u{blocks.itemsize}").reshape(-1, MINIBLOCK_VALUES)
    sizes = np.searchsorted(np.array(LARGEST, over.dtype), over.max(axis=1))
    sizes[-(-count // MINIBLOCK_VALUES) :] = 0
    return head + b"".join(_blocks(least.tolist(), over, sizes.tolist()))


def _blocks(least: list[int], over: Array, sizes: list[int]) -> list[bytes]:
    casts = {size: over.astype(f"<u{WIDTHS[size] // 8}") for size in set(sizes) if size}
    parts: list[bytes] = []
    for block, value in enumerate(least):
        first = block * MINIBLOCKS
        mine = sizes[first : first + MINIBLOCKS]
        parts.append(zigzag(value) + bytes([WIDTHS[size] for size in mine]))
        parts += [casts[size][first + i].tobytes() for i, size in enumerate(mine) if size]
    return parts
