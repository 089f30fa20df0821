"""Compressed capture files: gzip, zstd, LZ4 frames, xz and bzip2, detected by their first bytes.

In: the bytes of a file. Out: the uncompressed bytes, in pieces of a bounded size. Several
consecutive compressed members are one file, as for their own tools. A truncated or damaged file
yields the data before that point, and a `Problem`.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Final, Protocol

import lz4.frame
import zstandard

from kdissect.errors import Problem

# Compressed bytes taken at a time.
INPUT_SIZE: Final = 1 << 16
# Uncompressed bytes requested at a time: the amount lost before the place where a file is damaged.
OUTPUT_SIZE: Final = 1 << 16
# zstandard returns all output of its input, so the input size bounds the output: a block of 128 KiB
# may be written in 4 bytes, 512 bytes make 16 MiB at worst.
ZSTD_INPUT_SIZE: Final = 1 << 9
# Memory that a zstd frame may request: enough for `zstd --ultra --long=27`, and no more.
ZSTD_WINDOW_SIZE: Final = 1 << 27
# The same for xz, whose dictionary may have 4 GiB: `xz -9` needs 65 MiB.
XZ_MEMORY: Final = 1 << 27
GZIP_WBITS: Final = 31  # 15 bits of window, plus 16 for a gzip header

FAILURES: Final = (zlib.error, OSError, EOFError, lzma.LZMAError, zstandard.ZstdError, RuntimeError)


class Decoder(Protocol):
    """Common interface of `bz2`, `lzma` and `lz4.frame`: one compressed member, fed in pieces."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class GzipDecoder:
    """A gzip member."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(GZIP_WBITS)
        self._is_full = False

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def needs_input(self) -> bool:
        return not self._is_full

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        taken = self._member.decompress(self._member.unconsumed_tail + data, max_length)
        # zlib may still hold output even when all input was consumed.
        self._is_full = len(taken) == max_length and not self._member.eof
        return taken


class ZstdDecoder:
    """A zstd frame."""

    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_SIZE).decompressobj()
        self._input = b""

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def needs_input(self) -> bool:
        return not self._input

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data + self._input

    def decompress(self, data: bytes, max_length: int) -> bytes:
        data = self._input + data
        parts = []
        used = size = 0
        while used < len(data) and size < max_length and not self._frame.eof:
            parts.append(self._frame.decompress(data[used : used + ZSTD_INPUT_SIZE]))
            size += len(parts[-1])
            used += ZSTD_INPUT_SIZE
        self._input = data[used:]
        return b"".join(parts)


GZIP_MAGIC: Final = b"\x1f\x8b"
LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
# The first four bytes of a skippable zstd or LZ4 frame; pzstd starts its files with one.
SKIPPABLE_MAGICS: Final = frozenset(bytes((kind, 0x2A, 0x4D, 0x18)) for kind in range(0x50, 0x60))
XZ_MAGIC: Final = b"\xfd7zXZ\x00"
BZIP2_MAGIC: Final = b"BZh"


def find_decoder(first: bytes) -> Callable[[], Decoder] | None:
    """Decoder of a file that starts with `first`; None if it is not compressed."""
    if first.startswith(GZIP_MAGIC):
        return GzipDecoder
    if first.startswith(ZSTD_MAGIC) or first[:4] in SKIPPABLE_MAGICS:
        return ZstdDecoder
    if first.startswith(LZ4_MAGIC):
        return _make_lz4_decoder
    if first.startswith(XZ_MAGIC):
        return _make_xz_decoder
    if first.startswith(BZIP2_MAGIC):
        return bz2.BZ2Decompressor
    return None


def _make_xz_decoder() -> Decoder:
    return lzma.LZMADecompressor(memlimit=XZ_MEMORY)


def _make_lz4_decoder() -> Decoder:
    decoder: Decoder = lz4.frame.LZ4FrameDecompressor()
    return decoder


class CompressedReader:
    """Uncompressed bytes of a file that starts with `first`; `read` supplies the rest.

    While `is_growing`, an empty read is not the end of the file.
    """

    def __init__(
        self, read: Callable[[int], bytes], first: bytes, make_decoder: Callable[[], Decoder]
    ) -> None:
        self.problems: list[Problem] = []
        self.is_growing = False
        self._read_compressed = read
        self._input = first
        self._decoder = make_decoder()
        self._is_over = False
        self._is_between = False
        self._waits = False
        self._compressed_size = len(first)

    def read(self, size: int) -> bytes:
        """At least `size` bytes (and not many more), fewer only at the end of the data."""
        parts: list[bytes] = []
        got = 0
        self._waits = False
        while got < size and not self._is_over and not self._waits:
            part = self._read_part(min(size - got, OUTPUT_SIZE))
            parts.append(part)
            got += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_part(self, size: int) -> bytes:
        if self._decoder.eof and not self._start_next_member():
            self._is_over = not self._waits
            return b""
        if self._decoder.needs_input and not self._input and not self._fill():
            if not self._waits:
                self._stop("truncated-file", "the compressed file ends early")
            return b""
        data, self._input = self._input, b""
        try:
            return self._decoder.decompress(data, size)
        except FAILURES as error:
            self._stop("corrupt-file", f"the compressed file is damaged: {error}")
            return b""

    def _fill(self) -> bool:
        """Add to the input; False at the end of the file, or when no more is available yet."""
        more = self._read_compressed(INPUT_SIZE)
        self._waits = self.is_growing and not more
        self._input += more
        self._compressed_size += len(more)
        return bool(more)

    def _start_next_member(self) -> bool:
        """Return whether another member follows; zeros after the last one are padding."""
        if not self._is_between:
            self._input = (self._decoder.unused_data or b"") + self._input
            self._is_between = True
        self._input = self._input.lstrip(b"\x00")
        while len(self._input) < len(XZ_MAGIC) and self._fill():
            self._input = self._input.lstrip(b"\x00")
        if not self._input or self._waits:
            return False
        make_decoder = find_decoder(self._input)
        if make_decoder is None:
            self._stop("corrupt-file", "something else follows the compressed data")
            return False
        self._decoder = make_decoder()
        self._is_between = False
        return True

    def _stop(self, kind: str, message: str) -> None:
        self._is_over = True
        left = len(self._input)
        self.problems.append(
            Problem("capture", kind, f"{message}, byte {self._compressed_size - left}", bytes=left)
        )
