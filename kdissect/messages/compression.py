"""The four codecs of record batches: bytes → bytes, up to a limit.

    gzip    RFC 1952, several members may follow each other
    snappy  one raw block, or the xerial stream of the Java clients:
            82 "SNAPPY" 00, int32 version, int32 compatible version, { int32 size, raw block }
    lz4     LZ4 frames; in magic 0 with a header checksum that may be wrong, KAFKA-3160
    zstd    RFC 8878 frames, mostly without a content size

Memory: the output is produced in steps and refused at the limit, so at most twice `limit` is held
(the pieces and their sum), plus a zstd window of at most 128 MiB if a frame requires one.
"""

import threading
import zlib
from typing import Any, Final

import lz4.frame
import snappy
import zstandard
from librt.strings import read_i32_be
from mypy_extensions import i64

from kdissect.errors import CorruptRecords, DecompressionLimit
from kdissect.messages.compressed_frames import (
    LZ4,
    SNAPPY,
    XERIAL_HEADER_SIZE,
    ZSTD,
    check_zstd_frames,
    claimed_snappy_size,
    correct_lz4_checksum,
    find_lz4_frame_end,
    largest_lz4_output,
)
from kdissect.system.extras import fast_inflate

NONE: Final = 0
GZIP: Final = 1
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

# The largest request a broker takes by default (socket.request.max.bytes, 100 MiB): a batch that
# decompresses to more could not have been sent uncompressed.
DECOMPRESSED_LIMIT: Final = 104_857_600

# gzip members or LZ4 frames in one batch. Writers produce only a few; each costs a decompressor (2
# to 3 µs) but only 11 to 20 bytes on the wire.
STREAM_LIMIT: Final = 1_000

FIRST_STEP: Final = 32_768  # minimum output of one step: most batches need one step
STEP_RATIO: Final = 8  # or this many times the input
GZIP_STEP: Final = 65_536  # input of one step: the bytes behind a member are copied once a member
GZIP_WINDOW: Final = 31  # zlib: 15 bits of window, +16 for the gzip header and trailer
GZIP_FLAGS_AT: Final = 3
GZIP_RESERVED: Final = 0xE0  # flags that zlib refuses, and ISA-L does not look at
ZSTD_WINDOW_LIMIT: Final = 1 << 27  # required of every reader, and used by level 22

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"

thread = threading.local()  # a zstd context is 3 times the price of unpacking a small batch


def decompress(codec: i64, data: bytes, limit: i64 = DECOMPRESSED_LIMIT, magic: i64 = 2) -> bytes:
    """Decompress `data`; raise CorruptRecords, or DecompressionLimit for over `limit` bytes.

    `magic` is that of the message format: 0 has a deviating LZ4 header checksum, and zstd was
    introduced with 2.
    """
    if codec == NONE:
        return data
    output = Output(limit)
    if codec == GZIP:
        decompress_gzip(data, output)
    elif codec == SNAPPY:
        decompress_snappy(data, output)
    elif codec == LZ4:
        decompress_lz4(data, output, magic)
    elif codec == ZSTD and magic == 2:
        decompress_zstd(data, output)
    elif codec == ZSTD:
        raise CorruptRecords(f"zstd in message format {magic}, which does not know it")
    else:
        raise CorruptRecords(f"unknown codec {codec}")
    return output.concatenated()


class Output:
    """Decompressed pieces so far, and the remaining budget."""

    __slots__ = ("parts", "size", "limit")

    def __init__(self, limit: i64) -> None:
        self.parts: list[bytes] = []
        self.size: i64 = 0
        self.limit = limit

    def room(self, packed_size: i64) -> i64:
        """Number of bytes to request next; one beyond the limit shows that it is exceeded."""
        step: i64 = max(FIRST_STEP, packed_size * STEP_RATIO)
        return min(step, self.limit - self.size + 1)

    def add(self, part: bytes) -> None:
        """Add a piece; raise DecompressionLimit if it exceeds the limit."""
        self.reserve(len(part))
        self.size += len(part)
        if part:
            self.parts.append(part)

    def reserve(self, size: i64) -> None:
        """Raise DecompressionLimit if `size` more bytes exceed the limit."""
        if size > self.limit - self.size:
            raise DecompressionLimit(f"unpacks to more than the limit of {self.limit} bytes")

    def go_back(self, count: i64, size: i64) -> None:
        """Drop all but the first `count` pieces, of `size` bytes."""
        del self.parts[count:]
        self.size = size

    def concatenated(self) -> bytes:
        """Return the whole output."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


def decompress_gzip(data: bytes, output: Output) -> None:
    """Decompress all members of a gzip stream."""
    position: i64 = 0
    for _ in range(STREAM_LIMIT):
        position = decompress_gzip_member(data, position, output)
        if position == len(data):
            return
    raise DecompressionLimit(f"gzip of more than {STREAM_LIMIT} members")


def decompress_gzip_member(data: bytes, start: i64, output: Output) -> i64:
    """Decompress the member at `start`; return the position after it.

    ISA-L reads it if the extra `isal` is installed. What it does not take is read again by zlib:
    so a member has the same output and the same error with either. So is what exceeds the limit:
    zlib checks the CRC of a member that ends one byte behind it, ISA-L does not.
    """
    quick = fast_inflate()
    if quick is not None and not has_reserved_flag(data, start):
        count: i64 = len(output.parts)
        size = output.size
        try:
            after = inflate(quick.decompressobj(GZIP_WINDOW), data, start, output)
        except (quick.error, DecompressionLimit):
            after = -1
        if after >= 0:
            return after
        output.go_back(count, size)
    try:
        after = inflate(zlib.decompressobj(GZIP_WINDOW), data, start, output)
    except zlib.error as error:
        raise CorruptRecords(f"gzip: {error}", offset=start, data=data) from error
    if after < 0:
        raise CorruptRecords("gzip stream ends early", offset=len(data), data=data)
    return after


def has_reserved_flag(data: bytes, start: i64) -> bool:
    """Return whether the header at `start` has a flag without a meaning, or ends before it."""
    at = start + GZIP_FLAGS_AT
    return at >= len(data) or data[at] & GZIP_RESERVED != 0


def inflate(member: Any, data: bytes, start: i64, output: Output) -> i64:
    """Decompress the member at `start` by zlib's object, or one like it.

    Returns the position after it, -1 if it ends early.
    """
    step = data[start : start + GZIP_STEP]
    position = start + len(step)
    while step:
        room = output.room(len(step))
        part = member.decompress(step, room)
        output.add(part)
        while not member.eof and len(part) == room:
            room = output.room(len(step))
            part = member.decompress(member.unconsumed_tail, room)
            output.add(part)
        if member.eof:
            return position - len(member.unused_data)
        step = data[position : position + GZIP_STEP]
        position += len(step)
    return -1


def decompress_snappy(data: bytes, output: Output) -> None:
    """Decompress a raw block, or a xerial stream of them."""
    if not data.startswith(XERIAL_MAGIC):
        decompress_snappy_block(data, output)
        return
    position: i64 = 0
    end: i64 = len(data)
    while position < end:
        # Streams that were appended to each other repeat the header in the middle.
        if data[position : position + len(XERIAL_MAGIC)] == XERIAL_MAGIC:
            position += XERIAL_HEADER_SIZE
            continue
        size: i64 = i64(read_i32_be(data, position)) if end - position >= 4 else -1
        if size < 0 or size > end - position - 4:
            raise CorruptRecords("xerial block ends early", offset=position, data=data, length=4)
        decompress_snappy_block(data[position + 4 : position + 4 + size], output)
        position += 4 + size
    if position > end:
        raise CorruptRecords("xerial header ends early", offset=end, data=data)


def decompress_snappy_block(block: bytes, output: Output) -> None:
    """Decompress a raw block; its size is in front, so it is checked before memory is allocated."""
    size = claimed_snappy_size(block, 0, len(block))
    if size < 0:
        raise CorruptRecords("snappy block claims a size it cannot have", offset=0, data=block)
    output.reserve(size)
    try:
        output.add(snappy.uncompress(block))
    except snappy.UncompressError as error:
        raise CorruptRecords(f"snappy: {error.__cause__}", offset=0, data=block) from error


def decompress_lz4(data: bytes, output: Output, magic: i64) -> None:
    """Decompress all LZ4 frames."""
    position: i64 = 0
    end: i64 = len(data)
    for _ in range(STREAM_LIMIT):
        if position == end:
            return
        after = find_lz4_frame_end(data, position, end)
        frame = data if after - position == end else data[position:after]
        if magic == 0:
            frame = correct_lz4_checksum(frame)
        decompress_lz4_frame(frame, output)
        position = after
    if position < end:
        raise DecompressionLimit(f"more than {STREAM_LIMIT} lz4 frames")


def decompress_lz4_frame(frame: bytes, output: Output) -> None:
    """Decompress one whole LZ4 frame."""
    decompressor = lz4_decompressor()
    most = largest_lz4_output(frame)
    step = frame
    try:
        while not decompressor.eof:
            room = min(output.room(len(frame)), most + 1)
            part = decompressor.decompress(step, max_length=room)
            output.add(part)
            if not part and not step and not decompressor.eof:
                raise CorruptRecords("lz4 frame ends early", offset=len(frame), data=frame)
            step = b""
    except (RuntimeError, EOFError, ValueError) as error:
        raise CorruptRecords(f"lz4: {error}", offset=0, data=frame) from error
    thread.lz4 = decompressor


def lz4_decompressor() -> lz4.frame.LZ4FrameDecompressor:
    """Return a fresh decompressor: that of the thread's last frame, to reuse its buffers.

    It is kept by the caller that reaches the end of a frame. After another frame a reset is not
    enough: the rest of its content size would be expected of the next one.
    """
    kept: lz4.frame.LZ4FrameDecompressor | None = getattr(thread, "lz4", None)
    if kept is None:
        return lz4.frame.LZ4FrameDecompressor()
    thread.lz4 = None
    kept.reset()
    return kept


def decompress_zstd(data: bytes, output: Output) -> None:
    """Decompress all zstd frames, checked first: the reader takes an early end for the end."""
    check_zstd_frames(data, 0, len(data))
    reader = zstd_decompressor().stream_reader(data, read_across_frames=True)
    try:
        while True:
            room = output.room(len(data))
            part = reader.read(room)
            output.add(part)
            if len(part) < room:
                return
    except zstandard.ZstdError as error:
        raise CorruptRecords(f"zstd: {error}", offset=0, data=data) from error


def zstd_decompressor() -> zstandard.ZstdDecompressor:
    """Decompressor of this thread; every reader made from it starts afresh."""
    decompressor: zstandard.ZstdDecompressor | None = getattr(thread, "zstd", None)
    if decompressor is None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_LIMIT)
        thread.zstd = decompressor
    return decompressor
