"""Reads metadata of snappy, LZ4 and zstd frames without decompressing them.

All numbers are little-endian; both formats have skippable frames: 5x 2A 4D 18, u32 size, bytes.

    lz4   04 22 4D 18, FLG, BD, [u64 content size], [u32 dictionary], header checksum,
          { u32 size (bit 31: stored), block, [u32 checksum] }, u32 0, [u32 checksum]
    zstd  28 B5 2F FD, descriptor, [window], [dictionary], [content size],
          { u24 last:1 type:2 size:21, block }, [u32 checksum]

Longer than other modules: one walk over frames for each codec.
"""

from typing import Final

from librt.strings import read_i16_le, read_i32_be, read_i32_le, read_i64_le
from mypy_extensions import i64

from kdissect.errors import CorruptRecords

SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

UINT32: Final = 0xFFFF_FFFF
LZ4_MAGIC: Final = 0x184D_2204
ZSTD_MAGIC: Final = 0xFD2F_B528
SKIPPABLE_MAGIC: Final = 0x184D_2A50
XERIAL_START: Final = 0x8253_4E41  # 82 "SNA"
XERIAL_HEADER_SIZE: Final = 16

# A three-byte copy yields at most 64 bytes, the maximum of raw snappy.
SNAPPY_COPY_SIZE: Final = 3
SNAPPY_COPY_OUTPUT: Final = 64

# The longest LZ4 header: magic, FLG, BD, content size, dictionary, checksum.
LZ4_FRAME_MIN: Final = 7
MIB4: Final = 4 << 20
LZ4_BLOCK_CHECKSUM: Final = 0x10
LZ4_CONTENT_SIZE: Final = 0x08
LZ4_CONTENT_CHECKSUM: Final = 0x04
LZ4_DICTIONARY: Final = 0x01
# By 3 bits of BD; the first four are reserved, and no reader accepts them: as large as the largest.
LZ4_BLOCK_SIZES: Final = (MIB4, MIB4, MIB4, MIB4, 64 << 10, 256 << 10, 1 << 20, MIB4)

ZSTD_CHECKSUM: Final = 0x04
ZSTD_SINGLE_SEGMENT: Final = 0x20
ZSTD_RLE: Final = 1
ZSTD_RESERVED: Final = 3

# xxHash32's primes.
PRIME_1: Final = 2654435761
PRIME_2: Final = 2246822519
PRIME_3: Final = 3266489917
PRIME_4: Final = 668265263
PRIME_5: Final = 374761393


def claimed_size(codec: i64, data: bytes, start: i64, end: i64) -> i64:
    """Uncompressed size declared in ``data[start:end]``; -1 if not declared, or not valid."""
    try:
        if codec == SNAPPY:
            return claimed_xerial_size(data, start, end)
        if codec == LZ4:
            return claimed_lz4_size(data, start, end)
        if codec == ZSTD:
            return check_zstd_frames(data, start, end)
    except CorruptRecords:
        return -1
    return -1


def claimed_snappy_size(data: bytes, start: i64, end: i64) -> i64:
    """The size before a raw block; -1 if missing, or more than the block can produce."""
    size: i64 = 0
    shift: i64 = 0
    position = start
    while position < end and shift <= 28:
        byte: i64 = data[position]
        position += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            # size < 2**35, end - start < 2**63 / 64: neither product wraps.
            if size * SNAPPY_COPY_SIZE > (end - position) * SNAPPY_COPY_OUTPUT:
                return -1
            return size
        shift += 7
    return -1


def claimed_xerial_size(data: bytes, start: i64, end: i64) -> i64:
    """Sum over the blocks of a xerial stream, or the size of one raw block."""
    if end - start < XERIAL_HEADER_SIZE or uint32_be(data, start) != XERIAL_START:
        return claimed_snappy_size(data, start, end)
    total: i64 = 0
    position = start
    while end - position >= 4:
        size = uint32_be(data, position)
        if size == XERIAL_START:
            position += XERIAL_HEADER_SIZE
            continue
        position += 4
        if size > end - position:
            return -1
        block = claimed_snappy_size(data, position, position + size)
        if block < 0:
            return -1
        total += block
        position += size
    if position != end:
        return -1
    return total


def claimed_lz4_size(data: bytes, start: i64, end: i64) -> i64:
    """Sum of the frames' content sizes; -1 if one is not declared."""
    total: i64 = 0
    position = start
    while position < end:
        after = find_lz4_frame_end(data, position, end)
        if uint32_le(data, position) == LZ4_MAGIC:
            flags: i64 = data[position + 4]
            if not flags & LZ4_CONTENT_SIZE:
                return -1
            size = read_i64_le(data, position + 6)
            if size < 0 or size > UINT32:
                return -1
            total += size
        position = after
    return total


def find_lz4_frame_end(data: bytes, start: i64, end: i64) -> i64:
    """Position after the frame at `start`; CorruptRecords if it is incomplete."""
    if end - start < LZ4_FRAME_MIN:
        raise ends_early("lz4", data, end)
    magic = uint32_le(data, start)
    if is_skippable(magic):
        return find_skippable_end(data, start, end)
    if magic != LZ4_MAGIC:
        raise CorruptRecords("not an lz4 frame", offset=start, data=data, length=4)
    flags: i64 = data[start + 4]
    position = start + lz4_header_size(flags)
    block_extra: i64 = 4 if flags & LZ4_BLOCK_CHECKSUM else 0
    while end - position >= 4:
        size = uint32_le(data, position)
        position += 4
        if size == 0:
            position += 4 if flags & LZ4_CONTENT_CHECKSUM else 0
            break
        position += (size & 0x7FFF_FFFF) + block_extra
    else:
        raise ends_early("lz4", data, end)
    if position > end:
        raise ends_early("lz4", data, end)
    return position


def largest_lz4_output(frame: bytes) -> i64:
    """Maximum output of a frame that `find_lz4_frame_end` found: all its blocks full."""
    end: i64 = len(frame)
    if uint32_le(frame, 0) != LZ4_MAGIC:
        return 0
    flags: i64 = frame[4]
    block_size: i64 = LZ4_BLOCK_SIZES[frame[5] >> 4 & 7]
    block_extra: i64 = 4 if flags & LZ4_BLOCK_CHECKSUM else 0
    total: i64 = 0
    position = lz4_header_size(flags)
    while end - position >= 4:
        size = uint32_le(frame, position)
        if size == 0:
            break
        total += block_size
        position += 4 + (size & 0x7FFF_FFFF) + block_extra
    return total


def lz4_header_size(flags: i64) -> i64:
    """Bytes before the first block, from the magic number to the header checksum."""
    size: i64 = LZ4_FRAME_MIN
    if flags & LZ4_CONTENT_SIZE:
        size += 8
    if flags & LZ4_DICTIONARY:
        size += 4
    return size


def correct_lz4_checksum(frame: bytes) -> bytes:
    """Return `frame` with the header checksum that the LZ4 format requires.

    Java clients of 0.8.2 and 0.9, and all later ones in message format 0, included the magic number
    in it (KAFKA-3160); readers of that format ignore the byte.
    """
    if uint32_le(frame, 0) != LZ4_MAGIC:
        return frame
    at = lz4_header_size(frame[4]) - 1
    checksum = (xxhash32(frame[4:at]) >> 8) & 0xFF
    return frame[:at] + bytes((checksum,)) + frame[at + 1 :]


def xxhash32(data: bytes) -> int:
    """xxHash32, seed 0, of fewer than 16 bytes: an LZ4 frame descriptor has 2 to 14.

    >>> hex(xxhash32(b"abc"))
    '0x32d153ff'
    """
    value = PRIME_5 + len(data)
    lanes = len(data) // 4 * 4
    for at in range(0, lanes, 4):
        value += int.from_bytes(data[at : at + 4], "little") * PRIME_3
        value = rotate32(value, 17) * PRIME_4
    for byte in data[lanes:]:
        value = rotate32(value + byte * PRIME_5, 11) * PRIME_1
    value &= UINT32
    value = (value ^ (value >> 15)) * PRIME_2 & UINT32
    value = (value ^ (value >> 13)) * PRIME_3 & UINT32
    return value ^ (value >> 16)


def rotate32(value: int, bits: int) -> int:
    """The low 32 bits of `value`, rotated left."""
    value &= UINT32
    return ((value << bits) | (value >> (32 - bits))) & UINT32


def check_zstd_frames(data: bytes, start: i64, end: i64) -> i64:
    """Sum of the frames' content sizes, -1 if one is not declared.

    CorruptRecords if ``data[start:end]`` is not whole frames.
    """
    total: i64 = 0
    position = start
    while position < end:
        if end - position >= 4 and is_skippable(uint32_le(data, position)):
            position = find_skippable_end(data, position, end)
            continue
        position, size = read_zstd_frame(data, position, end)
        if size < 0 or total < 0:
            total = -1
        else:
            total += size
    return total


def read_zstd_frame(data: bytes, start: i64, end: i64) -> tuple[i64, i64]:
    """Position after the frame at `start`, and its content size or -1."""
    # The magic number, the longest header (14 bytes) and a block may be cut anywhere.
    if end - start < 6 or uint32_le(data, start) != ZSTD_MAGIC:
        raise CorruptRecords("not a zstd frame", offset=start, data=data, length=4)
    descriptor: i64 = data[start + 4]
    is_single: i64 = 1 if descriptor & ZSTD_SINGLE_SEGMENT else 0
    dictionary_size = descriptor & 3
    if dictionary_size == 3:
        dictionary_size = 4
    at = start + 6 - is_single + dictionary_size
    width: i64 = 1 << (descriptor >> 6)
    if width == 1:
        width = is_single
    if end - at < width:
        raise ends_early("zstd", data, end)
    size = read_zstd_size(data, at, width)
    position = find_zstd_blocks_end(data, at + width, end)
    position += 4 if descriptor & ZSTD_CHECKSUM else 0
    if position > end:
        raise ends_early("zstd", data, end)
    return position, size


def read_zstd_size(data: bytes, at: i64, width: i64) -> i64:
    """Content size of `width` bytes at `at`; -1 if absent, or implausibly large."""
    if width == 0:
        return -1
    if width == 1:
        return data[at]
    if width == 2:
        return (i64(read_i16_le(data, at)) & 0xFFFF) + 256
    if width == 4:
        return uint32_le(data, at)
    size = read_i64_le(data, at)
    return size if 0 <= size <= UINT32 else -1


def find_zstd_blocks_end(data: bytes, start: i64, end: i64) -> i64:
    """Position after the last block."""
    position = start
    while end - position >= 3:
        header = i64(data[position]) | i64(data[position + 1]) << 8 | i64(data[position + 2]) << 16
        kind = (header >> 1) & 3
        if kind == ZSTD_RESERVED:
            raise CorruptRecords("zstd block of a reserved type", offset=position, data=data)
        position += 3
        if kind == ZSTD_RLE:
            position += 1
        else:
            position += header >> 3
        if header & 1:
            return position
    raise ends_early("zstd", data, end)


def is_skippable(magic: i64) -> bool:
    """Return whether it is one of the sixteen magic numbers of frames without data."""
    return magic & 0xFFFF_FFF0 == SKIPPABLE_MAGIC


def find_skippable_end(data: bytes, start: i64, end: i64) -> i64:
    """Position after a skippable frame."""
    if end - start < 8 or uint32_le(data, start + 4) > end - start - 8:
        raise ends_early("skippable", data, end)
    return start + 8 + uint32_le(data, start + 4)


def uint32_le(data: bytes, position: i64) -> i64:
    """The unsigned little-endian number at `position`."""
    return i64(read_i32_le(data, position)) & UINT32


def uint32_be(data: bytes, position: i64) -> i64:
    """The unsigned big-endian number at `position`."""
    return i64(read_i32_be(data, position)) & UINT32


def ends_early(codec: str, data: bytes, end: i64) -> CorruptRecords:
    """Error for a truncated frame."""
    return CorruptRecords(f"{codec} frame ends early", offset=end, data=data)
