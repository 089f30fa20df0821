import bz2
import gzip
import io
import lzma
import random
from collections.abc import Callable
from functools import partial

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kdissect.capture.compressed import CompressedReader, find_decoder
from kdissect.errors import Problem

Compress = Callable[[bytes], bytes]

# With a checksum as the zstd command writes it, and without content size as when it streams.
STREAMED_ZSTD = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True)
COMPRESSIONS = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
    "zstd, streamed": STREAMED_ZSTD.compress,
    "lz4": lz4.frame.compress,
    "xz": partial(lzma.compress, preset=1),
    "bzip2": bz2.compress,
}
each_compression = pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)

CONTENT = random.Random(1).randbytes(200_000) + bytes(3_000_000) + b"the end"


def read_all(compressed: bytes, size: int = 1 << 20) -> tuple[bytes, list[Problem]]:
    file = io.BytesIO(compressed)
    first = file.read(100)
    decoder = find_decoder(first)
    assert decoder is not None
    reader = CompressedReader(file.read, first, decoder)
    parts = []
    while part := reader.read(size):
        assert len(part) <= size + (64 << 20)
        parts.append(part)
    return b"".join(parts), reader.problems


@each_compression
@pytest.mark.parametrize("size", [1000, 1 << 20, 1 << 24])
def test_the_content_comes_out_in_pieces_of_any_size(compress: Compress, size: int) -> None:
    assert read_all(compress(CONTENT), size) == (CONTENT, [])


@each_compression
def test_an_empty_content_comes_out(compress: Compress) -> None:
    assert read_all(compress(b"")) == (b"", [])


@each_compression
def test_members_in_a_row_are_one_file(compress: Compress) -> None:
    compressed = compress(b"first ") + compress(b"") + compress(b"second")
    assert read_all(compressed) == (b"first second", [])


@each_compression
def test_zeros_at_the_end_are_padding(compress: Compress) -> None:
    assert read_all(compress(b"content") + bytes(200_000)) == (b"content", [])


@each_compression
def test_something_else_at_the_end_is_a_problem(compress: Compress) -> None:
    whole = compress(b"content")
    message = f"something else follows the compressed data, byte {len(whole)}"
    problem = Problem("capture", "corrupt-file", message, bytes=7)
    assert read_all(whole + b"rubbish") == (b"content", [problem])


@each_compression
def test_truncated_file_yields_its_complete_part(compress: Compress) -> None:
    content = random.Random(2).randbytes(3_000_000)
    whole = compress(content)
    cut = whole[: len(whole) // 2]
    got, problems = read_all(cut)
    message = f"the compressed file ends early, byte {len(cut)}"
    assert problems == [Problem("capture", "truncated-file", message)]
    assert content.startswith(got)
    assert len(got) > 500_000


@each_compression
def test_damaged_file_yields_the_bytes_before_the_damage(compress: Compress) -> None:
    # Compressible, or zstd and LZ4 would store it as it is, without a checksum.
    content = b"".join(b"%d " % number for number in range(300_000))
    whole = bytearray(compress(content))
    at = len(whole) * 3 // 4
    whole[at : at + 3000] = b"\xff" * 3000
    got, problems = read_all(bytes(whole))
    assert got[:100_000] == content[:100_000]
    assert [problem.kind for problem in problems] == ["corrupt-file"]


def test_a_zstd_file_may_start_with_a_skippable_frame() -> None:
    compressed = b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip" + zstandard.compress(b"content")
    assert read_all(compressed) == (b"content", [])


def test_a_zstd_bomb_comes_out_in_bounded_pieces() -> None:
    content = bytes(150 << 20)
    reader_input = zstandard.compress(content)
    file = io.BytesIO(reader_input)
    first = file.read(6)
    decoder = find_decoder(first)
    assert decoder is not None
    reader = CompressedReader(file.read, first, decoder)
    sizes = []
    while part := reader.read(1 << 20):
        sizes.append(len(part))
    assert sum(sizes) == len(content)
    assert max(sizes) <= 17 << 20


def test_uncompressed_files_have_no_decoder() -> None:
    assert find_decoder(b"\xd4\xc3\xb2\xa1") is None
    assert find_decoder(b"") is None


@given(st.sampled_from(sorted(COMPRESSIONS)), st.data())
def test_changed_bytes_raise_nothing(name: str, data: st.DataObject) -> None:
    whole = bytearray(COMPRESSIONS[name](b"some content " * 20))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(6, len(whole) - 1))] = data.draw(st.integers(0, 255))
    content, _ = read_all(bytes(whole[: data.draw(st.integers(6, len(whole)))]))
    assert len(content) < 1 << 20
