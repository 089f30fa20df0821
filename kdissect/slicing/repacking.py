"""Compresses blanked records to exactly the size that the records had.

So a batch keeps its length, and no other byte of its connection has to move. Blanked payload is
zeros, of which as many are replaced by bytes that do not compress as the size needs. These are the
same for any payload, so they tell nothing. gzip has a comment in its header instead; a literal of
snappy may write its size in more bytes than it needs.
"""

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Final

import lz4.frame
import snappy
import zstandard

from kdissect.messages.compressed_frames import (
    LZ4,
    LZ4_BLOCK_CHECKSUM,
    LZ4_CONTENT_CHECKSUM,
    LZ4_CONTENT_SIZE,
    SNAPPY,
    XERIAL_HEADER_SIZE,
    ZSTD,
    ZSTD_CHECKSUM,
    ZSTD_SINGLE_SEGMENT,
)
from kdissect.messages.compression import GZIP, XERIAL_MAGIC

Build = Callable[[bytes], bytes]  # fill bytes → records with them in the place of payload
Pack = Callable[[bytes], bytes]

GZIP_HEADER: Final = b"\x1f\x8b\x08"
GZIP_COMMENT: Final = 0x10
GZIP_FRAME: Final = 18  # header and trailer
TRIES: Final = 24  # of sizes of the fill bytes, for one choice of them
CHOICES: Final = 6
SKIPPABLE: Final = b"\x50\x2a\x4d\x18"
SKIPPABLE_FRAME: Final = 8
MOST_WIDENED: Final = 4
LONGEST_TAG: Final = 59
SNAPPY_COPIES: Final = {1: 2, 2: 3, 3: 5}  # kind → bytes
NEARBY: Final = 16
XERIAL_BLOCK: Final = 32_768
LZ4_INDEPENDENT: Final = 0x20
ZSTD_LEVELS: Final = (3, 1, 19)
ZSTD_SIZE: Final = 0xC0


def repacked(codec: int, packed: bytes, room: int, build: Build) -> bytes | None:
    """Records compressed to the size of `packed`; None if that cannot be met.

    `build` makes the records, in which up to `room` bytes may be any.
    """
    if codec == GZIP:
        return gzipped(build(b""), len(packed))
    for pack in packers(codec, packed):
        found = fitted(codec, pack, len(packed), room, build)
        if found is not None:
            return found
    return zstd_padded(packed, build(b"")) if codec == ZSTD else None


def fitted(codec: int, pack: Pack, size: int, room: int, build: Build) -> bytes | None:
    """Try numbers of fill bytes until the compressed records have the size.

    It nearly grows with their number: a search that takes it for so, then the numbers nearby.
    """
    for choice in range(CHOICES):
        fill = fill_bytes(choice)
        low, high, count = 0, room, 0
        tried: set[int] = set()
        for _ in range(TRIES):
            tried.add(count)
            made = pack(build(repeated(fill, count)))
            missing = size - len(made)
            made = widened(made, missing) if codec == SNAPPY and missing > 0 else made
            if len(made) == size:
                return made
            if missing < 0:
                high = count - 1
            else:
                low = count + 1
            if low > high:
                break
            count = min(max(count + missing, low), high)
        for near in range(max(0, count - NEARBY), min(room, count + NEARBY) + 1):
            made = b"" if near in tried else pack(build(repeated(fill, near)))
            if len(made) == size:
                return made
    return None


@cache
def fill_bytes(choice: int) -> bytes:
    """Bytes that do not compress, always the same."""
    return hashlib.shake_256(bytes([choice])).digest(1 << 17)


def repeated(fill: bytes, count: int) -> bytes:
    """The first `count` bytes; other ones if they are too few."""
    if count <= len(fill):
        return fill[:count]
    return hashlib.shake_256(fill[:1]).digest(count)


def gzipped(records: bytes, size: int) -> bytes | None:
    """A gzip member with a comment as long as the size needs."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(records) + packer.flush()
    padding = size - len(body) - GZIP_FRAME
    if padding < 0:
        return None
    flags = GZIP_COMMENT if padding else 0
    header = GZIP_HEADER + bytes([flags, 0, 0, 0, 0, 2, 0xFF])
    comment = b" " * (padding - 1) + b"\0" if padding else b""
    checks = struct.pack("<II", zlib.crc32(records), len(records) & 0xFFFFFFFF)
    return header + comment + body + checks


def packers(codec: int, packed: bytes) -> Iterator[Pack]:
    """Ways to compress, in a frame like that of `packed`."""
    if codec == SNAPPY and packed.startswith(XERIAL_MAGIC):
        yield lambda records: xerial(records, packed[:XERIAL_HEADER_SIZE])
    elif codec == SNAPPY:
        yield lambda records: bytes(snappy.compress(records))
    elif codec == LZ4:
        yield from lz4_packers(packed)
    elif codec == ZSTD:
        for level in ZSTD_LEVELS:
            yield zstd_packer(packed, level)


def xerial(records: bytes, header: bytes) -> bytes:
    """A xerial stream of raw blocks, as of the Java clients."""
    parts = [header]
    for start in range(0, len(records), XERIAL_BLOCK):
        block = bytes(snappy.compress(records[start : start + XERIAL_BLOCK]))
        parts += [len(block).to_bytes(4, "big"), block]
    return b"".join(parts)


def widened(packed: bytes, extra: int) -> bytes:
    """A raw block, or the first one of a stream, with longer sizes of its literals.

    Below 60 such a size is in the tag; from there on the tag says how many bytes it has, 4 at most.
    As it was if the literals are too few.
    """
    is_stream = packed.startswith(XERIAL_MAGIC)
    at = XERIAL_HEADER_SIZE + 4 if is_stream else 0
    end = at + int.from_bytes(packed[at - 4 : at], "big") if is_stream else len(packed)
    made = bytearray(packed[:at])
    place = at + next(n for n in range(end - at) if packed[at + n] < 0x80) + 1
    made += packed[at:place]
    left = extra
    while place < end:
        tag = packed[place]
        if tag & 3:
            size = SNAPPY_COPIES[tag & 3]
            made += packed[place : place + size]
            place += size
            continue
        known = max(0, (tag >> 2) - LONGEST_TAG)
        size = (
            int.from_bytes(packed[place + 1 : place + 1 + known], "little") if known else tag >> 2
        )
        more = min(left, MOST_WIDENED - known)
        left -= more
        if known + more:
            made.append(LONGEST_TAG + known + more << 2)
            made += size.to_bytes(known + more, "little")
        else:
            made.append(tag)
        made += packed[place + 1 + known : place + 2 + known + size]
        place += 2 + known + size
    if left:
        return packed
    if is_stream:
        made[at - 4 : at] = (end - at + extra).to_bytes(4, "big")
    return bytes(made) + packed[end:]


def lz4_packers(packed: bytes) -> Iterator[Pack]:
    flags, block = packed[4], packed[5] >> 4 & 7
    for level in (0, 9):
        yield partial(
            lz4.frame.compress,
            compression_level=level,
            block_size=block if block >= 4 else 0,
            block_linked=not flags & LZ4_INDEPENDENT,
            content_checksum=bool(flags & LZ4_CONTENT_CHECKSUM),
            block_checksum=bool(flags & LZ4_BLOCK_CHECKSUM),
            store_size=bool(flags & LZ4_CONTENT_SIZE),
        )


def zstd_packer(packed: bytes, level: int) -> Pack:
    flags = packed[4]
    has_size = bool(flags & (ZSTD_SIZE | ZSTD_SINGLE_SEGMENT))
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, write_content_size=has_size, write_checksum=bool(flags & ZSTD_CHECKSUM)
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compress


def zstd_padded(packed: bytes, records: bytes) -> bytes | None:
    """A frame that is smaller, behind one that is skipped."""
    made = zstd_packer(packed, 19)(records)
    padding = len(packed) - len(made) - SKIPPABLE_FRAME
    if padding < 0:
        return None
    return SKIPPABLE + padding.to_bytes(4, "little") + bytes(padding) + made
