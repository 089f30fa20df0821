"""Zig-zag varints at every boundary; the same in both builds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import CorruptRecords
from kdissect.messages.varints import read_varint, read_varlong
from tests.messages.record_builders import make_varint

INT32 = [0, -1, 1, 63, -64, 64, -65, 8191, -8192, 8192, 2**31 - 1, -(2**31)]
INT64 = [*INT32, 2**31, -(2**31) - 1, 2**62 - 1, -(2**62), 2**62, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("value", INT32)
def test_a_varint_holds_32_bits(value: int) -> None:
    data = make_varint(value)
    assert read_varint(b"?" + data + b"?", 1, len(data) + 1) == (value, len(data) + 1)


@pytest.mark.parametrize("value", INT64)
def test_a_varlong_holds_64_bits(value: int) -> None:
    data = make_varint(value)
    assert read_varlong(b"?" + data + b"?", 1, len(data) + 1) == (value, len(data) + 1)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**34, 2**63 - 1, -(2**63)])
def test_a_varint_of_more_than_32_bits_is_corrupt(value: int) -> None:
    with pytest.raises(CorruptRecords, match="varint does not fit 32 bits"):
        read_varint(make_varint(value), 0, 10)


@pytest.mark.parametrize("size", [2, 5])
def test_a_varint_may_be_written_longer_than_needed(size: int) -> None:
    data = b"\x82" + b"\x80" * (size - 2) + b"\x00"
    assert read_varint(data, 0, size) == (1, size)


def test_a_varint_of_six_bytes_is_always_corrupt() -> None:
    with pytest.raises(CorruptRecords, match="varint does not fit 32 bits"):
        read_varint(b"\x82\x80\x80\x80\x80\x00", 0, 6)


@pytest.mark.parametrize("last", [b"\x02", b"\x7f", b"\x80\x00", b"\x81\x00", b"\xff\xff\x01"])
def test_a_varlong_of_more_than_64_bits_is_corrupt(last: bytes) -> None:
    with pytest.raises(CorruptRecords, match="varlong of more than 64 bits"):
        read_varlong(b"\xff" * 9 + last, 0, 12)


@pytest.mark.parametrize("value", INT64)
def test_the_end_cuts_a_varint_short(value: int) -> None:
    data = make_varint(value)
    for end in range(len(data)):
        with pytest.raises(CorruptRecords, match="goes on past the end"):
            read_varlong(data, 0, end)


@given(st.binary(max_size=12), st.integers(0, 12))
def test_any_bytes_give_a_value_or_are_corrupt(data: bytes, end: int) -> None:
    end = min(end, len(data))
    for read, bits in ((read_varint, 31), (read_varlong, 63)):
        try:
            value, after = read(data, 0, end)
        except CorruptRecords:
            continue
        assert -(1 << bits) <= value < 1 << bits
        assert 0 < after <= end
