"""gzip by ISA-L and by zlib: the same bytes and the same errors, whatever the input."""

import random
import zlib

import pytest

from kdissect.errors import CorruptRecords, DecompressionLimit
from kdissect.messages.compression import decompress
from kdissect.system.extras import fast_inflate
from tests.measuring import peak_memory
from tests.messages.record_builders import GZIP, compress
from tests.seeds import SEED

isal_zlib = pytest.importorskip("isal.isal_zlib", reason="needs isal: the extra `isal`")

LIBRARY = "kdissect.messages.compression.fast_inflate"
MIB = 1 << 20


def unpacked(data: bytes, limit: int) -> bytes | str:
    """What a batch decompresses to, or its error as users read it."""
    try:
        return decompress(GZIP, data, limit)
    except (CorruptRecords, DecompressionLimit) as error:
        return f"{type(error).__name__} {error}"


def drawn(draw: random.Random) -> bytes:
    """A gzip stream of some members, most often damaged: in its header, anywhere, or cut."""
    alphabet = draw.choice([2, 8, 64, 256])
    size = draw.choice([0, 1, 30, 500, 5000, 200_000])
    plain = bytes(draw.randrange(alphabet) for _ in range(min(size, 3000))) * (1 + size // 3000)
    stream = bytearray()
    for _ in range(draw.choice([1, 1, 1, 3])):
        member = zlib.compressobj(
            draw.randrange(10), zlib.DEFLATED, 31, 9, draw.randrange(zlib.Z_FIXED + 1)
        )
        stream += member.compress(plain) + member.flush()
    for _ in range(draw.choice([0, 1, 1, 8])):
        first = draw.choice([12, 40, len(stream)])
        stream[draw.randrange(min(first, len(stream)))] = draw.randrange(256)
    if draw.random() < 0.2:
        del stream[draw.randrange(len(stream)) :]
    return bytes(stream)


def test_isa_l_is_used_where_it_is_installed() -> None:
    assert fast_inflate() is isal_zlib


@pytest.mark.parametrize("case", range(8))
def test_both_libraries_give_the_same_bytes_and_the_same_errors(
    case: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(f"{SEED} {case}")
    for _ in range(40):
        data = drawn(draw)
        limit = draw.choice([0, 10, 1000, MIB, 100 * MIB])
        with_isal = unpacked(data, limit)
        with monkeypatch.context() as patch:
            patch.setattr(LIBRARY, lambda: None)
            assert unpacked(data, limit) == with_isal


@pytest.mark.parametrize("flag", [0x20, 0x40, 0x80])
def test_a_header_with_a_flag_that_means_nothing_is_corrupt(flag: int) -> None:
    packed = bytearray(compress(GZIP, b"plain"))
    packed[3] |= flag
    with pytest.raises(CorruptRecords, match="unknown header flags"):
        decompress(GZIP, bytes(packed))


@pytest.mark.parametrize("damage", [8, 4], ids=["crc", "size"])
def test_a_damaged_bomb_takes_no_more_memory_than_the_limit_allows(damage: int) -> None:
    packed = bytearray(compress(GZIP, bytes(4 * MIB)))
    packed[-damage] ^= 1

    def unpack() -> None:
        with pytest.raises(CorruptRecords, match="gzip: Error -3"):
            decompress(GZIP, bytes(packed), 4 * MIB)

    assert peak_memory(unpack) < 8 * MIB + len(packed)


def test_a_damaged_member_that_ends_behind_the_limit_has_one_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = bytes.fromhex("1f8b08000000009b97036b0160feff008def02d2")
    with_isal = unpacked(packed, 0)
    monkeypatch.setattr(LIBRARY, lambda: None)
    assert unpacked(packed, 0) == with_isal


def test_each_member_may_be_read_by_another_library() -> None:
    packed = compress(GZIP, b"one") + compress(GZIP, b"two")
    assert decompress(GZIP, packed) == b"onetwo"
    spoiled = bytearray(packed)
    spoiled[len(packed) // 2 + 3] |= 0x80
    with pytest.raises(CorruptRecords, match="unknown header flags"):
        decompress(GZIP, bytes(spoiled))
