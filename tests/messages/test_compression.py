"""The codecs: what they unpack and refuse, and how little memory a bomb gets."""

import contextlib
import struct
import threading
import tracemalloc

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import CorruptRecords, DecompressionLimit
from kdissect.messages.compressed_frames import (
    claimed_size,
    correct_lz4_checksum,
    largest_lz4_output,
    xxhash32,
)
from kdissect.messages.compression import STREAM_LIMIT, decompress
from tests.messages.record_builders import (
    GZIP,
    LZ4,
    SNAPPY,
    XERIAL_HEADER,
    ZSTD,
    compress,
    compress_lz4,
    compress_snappy_block,
    compress_xerial,
    compress_zstd_stream,
    spoil_header_checksum,
)

CODECS = (GZIP, SNAPPY, LZ4, ZSTD)
MIB = 1 << 20
PLAIN = b"".join(b'{"id": %d, "state": "ok"}\n' % number for number in range(20_000))
SKIPPABLE = b"\x52\x2a\x4d\x18" + struct.pack("<I", 5) + b"notes"

# Written by kafka-python 3.0.12 for a 0.8 broker: the checksum byte 1a has the magic number in it.
OLD_KAFKA_LZ4 = bytes.fromhex("04224d1860401a0d0000804b61666b612d3331363021212100000000")


@pytest.mark.parametrize("codec", CODECS)
def test_each_codec_round_trips(codec: int) -> None:
    for plain in (b"", b"a", PLAIN[:1000], PLAIN):
        assert decompress(codec, compress(codec, plain), len(plain), 2) == plain


def test_no_codec_gives_the_bytes_themselves() -> None:
    assert decompress(0, b"plain", 1, 2) == b"plain"


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_without_a_name_are_corrupt(codec: int) -> None:
    with pytest.raises(CorruptRecords, match=f"unknown codec {codec}"):
        decompress(codec, b"", 10, 2)


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_corrupt_in_the_old_formats(magic: int) -> None:
    with pytest.raises(CorruptRecords, match=f"zstd in message format {magic}"):
        decompress(ZSTD, compress(ZSTD, b"a"), 10, magic)


@pytest.mark.parametrize("codec", CODECS)
def test_streams_that_follow_each_other_are_one(codec: int) -> None:
    packed = compress(codec, PLAIN) + compress(codec, b"") + compress(codec, b"the rest")
    assert decompress(codec, packed, MIB, 2) == PLAIN + b"the rest"


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_skippable_frames_are_skipped(codec: int) -> None:
    packed = SKIPPABLE + compress(codec, b"one") + SKIPPABLE + compress(codec, b"two") + SKIPPABLE
    assert decompress(codec, packed, MIB, 2) == b"onetwo"


def test_snappy_without_a_header_is_one_raw_block() -> None:
    assert decompress(SNAPPY, compress_snappy_block(PLAIN), MIB, 2) == PLAIN


def test_a_xerial_header_that_ends_early_is_corrupt() -> None:
    with pytest.raises(CorruptRecords, match="xerial header ends early"):
        decompress(SNAPPY, XERIAL_HEADER[:12], MIB, 2)


@pytest.mark.parametrize("size", [-1, 4, 0x7FFFFFFF])
def test_xerial_block_larger_than_the_rest_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecords, match="xerial block ends early"):
        decompress(SNAPPY, XERIAL_HEADER + struct.pack(">i", size) + b"abc", MIB, 2)


def test_a_snappy_block_that_could_not_fill_its_size_is_corrupt_before_memory_is_spent() -> None:
    with pytest.raises(CorruptRecords, match="claims a size it cannot have"):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"a" * 20, 1 << 40, 2)


def test_magic_0_takes_any_lz4_header_checksum() -> None:
    right = compress_lz4(PLAIN)
    wrong = spoil_header_checksum(right)
    for frame in (right, wrong, right + wrong, wrong + right):
        assert decompress(LZ4, frame, 2 * MIB, 0) == PLAIN * (len(frame) // len(right))


def test_magic_0_reads_batches_of_a_0_8_client() -> None:
    assert decompress(LZ4, OLD_KAFKA_LZ4, MIB, 0) == b"Kafka-3160!!!"


def test_a_frame_is_unpacked_after_a_damaged_one_and_after_one_over_the_limit() -> None:
    right = compress_lz4(PLAIN * 9)
    damaged = bytearray(right)
    damaged[30:60] = bytes(30)
    for _ in range(2):
        with pytest.raises(CorruptRecords, match="lz4"):
            decompress(LZ4, bytes(damaged))
        assert decompress(LZ4, right) == PLAIN * 9
        with pytest.raises(DecompressionLimit):
            decompress(LZ4, right, len(PLAIN) * 9 - 1)
        assert decompress(LZ4, right, len(PLAIN) * 9) == PLAIN * 9


def test_the_content_size_of_a_damaged_lz4_frame_is_forgotten() -> None:
    damaged = bytearray(lz4.frame.compress(PLAIN * 9, store_size=True))
    damaged[30:60] = bytes(30)
    right = lz4.frame.compress(PLAIN, store_size=False)
    for _ in range(2):
        with pytest.raises(CorruptRecords, match="lz4"):
            decompress(LZ4, bytes(damaged))
        assert decompress(LZ4, right) == PLAIN
        assert decompress(LZ4, right) == PLAIN


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("is_linked", [True, False])
def test_lz4_frames_of_full_blocks(block_size: int, is_linked: bool) -> None:
    for size in (0, 1, 65_535, 65_536, 65_537, 5 * MIB):
        whole = PLAIN * (size // len(PLAIN)) + PLAIN[: size % len(PLAIN)]
        frame = lz4.frame.compress(whole, block_size=block_size, block_linked=is_linked)
        assert largest_lz4_output(frame) >= size
        assert decompress(LZ4, frame, 6 * MIB) == whole


@pytest.mark.parametrize("magic", [1, 2])
def test_later_formats_want_the_right_lz4_header_checksum(magic: int) -> None:
    with pytest.raises(CorruptRecords, match="lz4"):
        decompress(LZ4, spoil_header_checksum(compress_lz4(PLAIN)), MIB, magic)


@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("block_checksum", [False, True])
@pytest.mark.parametrize("content_checksum", [False, True])
def test_the_corrected_lz4_checksum_is_the_one_that_the_format_wants(
    store_size: bool, block_checksum: bool, content_checksum: bool
) -> None:
    frame = lz4.frame.compress(
        PLAIN,
        store_size=store_size,
        block_checksum=block_checksum,
        content_checksum=content_checksum,
    )
    assert correct_lz4_checksum(frame) == frame
    assert decompress(LZ4, frame, MIB, 2) == PLAIN


def test_xxhash32_of_known_texts() -> None:
    assert xxhash32(b"") == 0x02CC5D05
    assert xxhash32(b"a") == 0x550D7456
    assert xxhash32(b"abc") == 0x32D153FF


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_reached_with_one_byte_more(codec: int) -> None:
    packed = compress(codec, PLAIN)
    assert decompress(codec, packed, len(PLAIN), 2) == PLAIN
    with pytest.raises(DecompressionLimit, match=f"the limit of {len(PLAIN) - 1} bytes"):
        decompress(codec, packed, len(PLAIN) - 1, 2)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_gets_no_more_memory_than_the_limit_allows(codec: int) -> None:
    packed = compress(codec, bytes(64 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionLimit):
            decompress(codec, packed, MIB, 2)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB + len(packed)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [GZIP, LZ4])
def test_members_and_frames_have_a_limit(codec: int) -> None:
    stream = compress(codec, b"")
    assert decompress(codec, stream * STREAM_LIMIT, 1, 2) == b""
    with pytest.raises(DecompressionLimit, match="more than 1000"):
        decompress(codec, stream * (STREAM_LIMIT + 1), 1, 2)


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_cut_anywhere_is_corrupt(codec: int) -> None:
    packed = compress(codec, PLAIN[:300])
    # Nothing, or the header alone, is a stream of nothing in the formats that have no end mark.
    whole = {LZ4: {0}, ZSTD: {0}, SNAPPY: {len(XERIAL_HEADER)}}.get(codec, set())
    for size in set(range(len(packed))) - whole:
        with pytest.raises(CorruptRecords):
            decompress(codec, packed[:size], MIB, 2)


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_after_the_last_stream_must_be_another_stream(codec: int) -> None:
    with pytest.raises(CorruptRecords):
        decompress(codec, compress(codec, PLAIN) + b"what is this?", MIB, 2)


def test_threads_do_not_disturb_each_other() -> None:
    packed = [compress_zstd_stream(bytes([number]) * MIB) for number in range(4)]
    wrong: list[int] = []

    def unpack(number: int) -> None:
        for _ in range(20):
            if decompress(ZSTD, packed[number], MIB, 2) != bytes([number]) * MIB:
                wrong.append(number)

    threads = [threading.Thread(target=unpack, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("codec", "packed", "size"),
    [
        (GZIP, compress(GZIP, PLAIN), -1),
        (SNAPPY, compress_snappy_block(PLAIN), len(PLAIN)),
        (SNAPPY, compress_xerial(PLAIN), len(PLAIN)),
        (SNAPPY, compress_xerial(PLAIN) * 2, 2 * len(PLAIN)),
        (SNAPPY, compress_xerial(PLAIN)[:-1], -1),
        (LZ4, compress_lz4(PLAIN), -1),
        (LZ4, compress_lz4(PLAIN, store_size=True) * 2, 2 * len(PLAIN)),
        (LZ4, SKIPPABLE + compress_lz4(b"ab", store_size=True), 2),
        (ZSTD, compress_zstd_stream(PLAIN), -1),
        (ZSTD, zstandard.ZstdCompressor().compress(b"ab"), 2),
        (ZSTD, zstandard.ZstdCompressor().compress(PLAIN[:300]), 300),
        (ZSTD, zstandard.ZstdCompressor().compress(PLAIN) * 2, 2 * len(PLAIN)),
        (ZSTD, zstandard.ZstdCompressor().compress(PLAIN)[:-1], -1),
        (7, b"", -1),
    ],
)
def test_declared_size_comes_from_the_headers(codec: int, packed: bytes, size: int) -> None:
    assert claimed_size(codec, b"ab" + packed + b"cd", 2, 2 + len(packed)) == size


@given(st.sampled_from(CODECS), st.binary(max_size=3000), st.integers(0, 4000))
def test_any_bytes_packed_come_back_or_pass_the_limit(codec: int, plain: bytes, limit: int) -> None:
    packed = compress(codec, plain)
    if len(plain) <= limit:
        assert decompress(codec, packed, limit, 2) == plain
    else:
        with pytest.raises(DecompressionLimit):
            decompress(codec, packed, limit, 2)


@given(st.sampled_from(CODECS), st.binary(max_size=100), st.integers(0, 2), st.data())
def test_any_bytes_unpack_within_the_limit_or_are_corrupt(
    codec: int, noise: bytes, magic: int, data: st.DataObject
) -> None:
    whole = compress(codec, PLAIN[:200])
    at = data.draw(st.integers(0, len(whole)))
    for packed in (noise, whole[:at] + noise + whole[at:], whole[:at] + noise):
        claimed_size(codec, packed, 0, len(packed))
        with contextlib.suppress(CorruptRecords):
            assert len(decompress(codec, packed, 500, magic)) <= 500
