"""Makes records fields of every magic and codec from scratch, sharing nothing with the package."""

import gzip
import struct
import zlib
from collections.abc import Sequence

import lz4.frame
import snappy
import zstandard

from kdissect.errors import DecodeError

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024

Headers = Sequence[tuple[bytes, bytes | None]]


def make_varint(value: int) -> bytes:
    unsigned = value * 2 if value >= 0 else -value * 2 - 1
    groups = [unsigned & 0x7F]
    while unsigned := unsigned >> 7:
        groups.append(unsigned & 0x7F)
    return bytes(group | 0x80 for group in groups[:-1]) + bytes(groups[-1:])


def make_sized(value: bytes | None) -> bytes:
    return make_varint(-1) if value is None else make_varint(len(value)) + value


def make_record(
    key: bytes | None = None,
    value: bytes | None = None,
    *,
    offset_delta: int = 0,
    time_delta: int = 0,
    headers: Headers = (),
    extra: bytes = b"",
) -> bytes:
    body = b"\x00" + make_varint(time_delta) + make_varint(offset_delta)
    body += make_sized(key) + make_sized(value) + make_varint(len(headers))
    body += b"".join(make_sized(name) + make_sized(content) for name, content in headers)
    body += extra
    return make_varint(len(body)) + body


def make_batch(
    records: Sequence[bytes],
    *,
    codec: int = 0,
    base_offset: int = 0,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    record_count: int | None = None,
    base_time: int = 1_700_000_000_000,
    max_time: int = 1_700_000_000_999,
    producer: tuple[int, int, int] = (-1, -1, -1),
    leader_epoch: int = -1,
    packed: bytes | None = None,
) -> bytes:
    body = compress(codec, b"".join(records)) if packed is None else packed
    delta = len(records) - 1 if last_offset_delta is None else last_offset_delta
    count = len(records) if record_count is None else record_count
    covered = struct.pack(
        ">hiqqqhii", attributes | codec, delta, base_time, max_time, *producer, count
    )
    covered += body
    rest = struct.pack(">ibI", leader_epoch, 2, crc32c(covered)) + covered
    return struct.pack(">qi", base_offset, len(rest)) + rest


def make_message(
    magic: int,
    value: bytes | None,
    *,
    key: bytes | None = None,
    offset: int = 0,
    attributes: int = 0,
    time: int = 1_400_000_000_000,
) -> bytes:
    covered = struct.pack(">bb", magic, attributes)
    if magic == 1:
        covered += struct.pack(">q", time)
    for part in (key, value):
        covered += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    rest = struct.pack(">I", zlib.crc32(covered)) + covered
    return struct.pack(">qi", offset, len(rest)) + rest


def make_wrapper(
    magic: int,
    codec: int,
    messages: Sequence[bytes],
    *,
    offset: int,
    attributes: int = 0,
    time: int = 1_400_000_000_000,
) -> bytes:
    packed = compress(codec, b"".join(messages))
    if magic == 0 and codec == LZ4:
        packed = spoil_header_checksum(packed)
    return make_message(magic, packed, offset=offset, attributes=attributes | codec, time=time)


def compress(codec: int, plain: bytes) -> bytes:
    """As the Java clients do it."""
    if codec == GZIP:
        return gzip.compress(plain, mtime=0)
    if codec == SNAPPY:
        return compress_xerial(plain)
    if codec == LZ4:
        return compress_lz4(plain)
    if codec == ZSTD:
        return compress_zstd_stream(plain)
    return plain


def compress_snappy_block(plain: bytes) -> bytes:
    return bytes(snappy.compress(plain))


def compress_xerial(plain: bytes) -> bytes:
    stream = XERIAL_HEADER
    for start in range(0, len(plain), XERIAL_BLOCK):
        block = compress_snappy_block(plain[start : start + XERIAL_BLOCK])
        stream += struct.pack(">i", len(block)) + block
    return stream


def compress_lz4(plain: bytes, *, store_size: bool = False) -> bytes:
    return lz4.frame.compress(
        plain,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=store_size,
    )


def spoil_header_checksum(frame: bytes) -> bytes:
    """KAFKA-3160: some other byte where the checksum of a 7-byte header belongs."""
    return frame[:6] + bytes([frame[6] ^ 0x5A]) + frame[7:]


def compress_zstd_stream(plain: bytes) -> bytes:
    """Without a content size, as streaming writers leave it."""
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(plain) + compressor.flush()


def crc32c(data: bytes) -> int:
    """Bit by bit, polynomial 0x1EDC6F41 reflected."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def text_of(error: DecodeError | None) -> str:
    return "" if error is None else error.message
