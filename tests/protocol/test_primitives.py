import contextlib
import doctest
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import DecodeError, InvalidValue, Truncated
from kdissect.protocol import primitives

INTEGERS = [
    (primitives.read_int8, 1, True),
    (primitives.read_int16, 2, True),
    (primitives.read_uint16, 2, False),
    (primitives.read_int32, 4, True),
    (primitives.read_uint32, 4, False),
    (primitives.read_int64, 8, True),
]
ALL = [
    primitives.read_bool, primitives.read_int8, primitives.read_int16, primitives.read_uint16,
    primitives.read_int32, primitives.read_uint32, primitives.read_int64, primitives.read_float64,
    primitives.read_uuid, primitives.read_unsigned_varint, primitives.read_varint,
    primitives.read_varlong, primitives.read_string, primitives.read_compact_string,
    primitives.read_bytes, primitives.read_compact_bytes,
]  # fmt: skip
Read = Callable[[bytes, int], tuple[object, int]]


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def zigzag(value: int, bits: int) -> bytes:
    return unsigned_varint((value << 1 ^ value >> (bits - 1)) & ((1 << bits) - 1))


def test_doctests_hold() -> None:
    assert doctest.testmod(primitives).failed == 0


@pytest.mark.parametrize(("read", "size", "is_signed"), INTEGERS)
def test_integers_are_read_at_their_bounds(read: Read, size: int, is_signed: bool) -> None:
    low = -(1 << size * 8 - 1) if is_signed else 0
    for value in (low, low + 1, -1 if is_signed else 0, 0, 1, low + (1 << size * 8) - 1):
        raw = value.to_bytes(size, "big", signed=is_signed)
        assert read(b"?" + raw + b"?", 1) == (value, size + 1)


@pytest.mark.parametrize(
    "value", [0, 1, 127, 128, 16383, 16384, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
)
def test_unsigned_varints_are_read_up_to_32_bits(value: int) -> None:
    raw = unsigned_varint(value)
    assert primitives.read_unsigned_varint(raw + b"\xff", 0) == (value, len(raw))


@pytest.mark.parametrize("value", [0, -1, 1, -64, 64, (1 << 31) - 1, -(1 << 31)])
def test_varints_are_read_up_to_32_bits(value: int) -> None:
    raw = zigzag(value, 32)
    assert primitives.read_varint(raw, 0) == (value, len(raw))


@pytest.mark.parametrize(
    "value", [0, -1, 1, 1 << 31, -(1 << 31), 1 << 62, (1 << 63) - 1, -(1 << 63)]
)
def test_varlongs_are_read_up_to_64_bits(value: int) -> None:
    raw = zigzag(value, 64)
    assert primitives.read_varlong(raw, 0) == (value, len(raw))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_every_varlong_is_read(value: int) -> None:
    raw = zigzag(value, 64)
    assert primitives.read_varlong(raw, 0) == (value, len(raw))


def test_a_varint_that_is_padded_with_zeros_is_read() -> None:
    assert primitives.read_unsigned_varint(b"\x81\x80\x80\x80\x00", 0) == (1, 5)
    assert primitives.read_varlong(b"\x82" + b"\x80" * 8 + b"\x00", 0) == (1, 10)


@pytest.mark.parametrize(
    ("read", "raw", "message"),
    [
        (primitives.read_unsigned_varint, b"\xff" * 5, "varint longer than 5 bytes"),
        (primitives.read_unsigned_varint, b"\xff" * 4 + b"\x10", "varint 4563402751 above 2^32"),
        (primitives.read_varint, b"\x80" * 5 + b"\x00", "varint longer than 5 bytes"),
        (primitives.read_varlong, b"\xff" * 9 + b"\x02", "varlong longer than 64 bits"),
        (primitives.read_varlong, b"\x80" * 10 + b"\x00", "varlong longer than 64 bits"),
        (primitives.read_string, b"\xff\xfe", "length -2"),
        (primitives.read_bytes, b"\x80\x00\x00\x00", "length -2147483648"),
    ],
)
def test_impossible_values_raise_invalid_value(read: Read, raw: bytes, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read(b"?" + raw, 1)
    assert (caught.value.message, caught.value.offset) == (message, 1)


@pytest.mark.parametrize(
    ("read", "raw", "message"),
    [
        (primitives.read_int32, b"\x00\x00\x00", "int32 takes 4 bytes, only 3 left"),
        (primitives.read_uuid, bytes(15), "uuid takes 16 bytes, only 15 left"),
        (primitives.read_unsigned_varint, b"", "varint takes 1 bytes, only 0 left"),
        (primitives.read_unsigned_varint, b"\x80\x80", "varint takes 3 bytes, only 2 left"),
        (primitives.read_varlong, b"\x80", "varlong takes 2 bytes, only 1 left"),
        (primitives.read_string, b"\x7f\xffab", "length 32767, only 2 bytes left"),
        (primitives.read_bytes, b"\x7f\xff\xff\xff", "length 2147483647, only 0 bytes left"),
        (
            primitives.read_compact_bytes,
            b"\xff\xff\xff\xff\x0f",
            "length 4294967294, only 0 bytes left",
        ),
    ],
)
def test_values_longer_than_the_data_raise_truncated(read: Read, raw: bytes, message: str) -> None:
    with pytest.raises(Truncated) as caught:
        read(b"?" + raw, 1)
    assert (caught.value.message, caught.value.offset) == (message, 1)


@pytest.mark.parametrize("read", ALL)
def test_an_offset_outside_of_the_data_is_truncated(read: Read) -> None:
    for offset in (-1, -100, 33, 1 << 40):
        with pytest.raises(Truncated):
            read(bytes(32), offset)


def test_null_is_none_in_every_form() -> None:
    assert primitives.read_string(b"\xff\xff", 0) == (None, 2)
    assert primitives.read_bytes(b"\xff\xff\xff\xff", 0) == (None, 4)
    assert primitives.read_compact_string(b"\x00", 0) == (None, 1)
    assert primitives.read_compact_bytes(b"\x00", 0) == (None, 1)


def test_empty_is_not_null() -> None:
    assert primitives.read_string(b"\x00\x00", 0) == ("", 2)
    assert primitives.read_compact_bytes(b"\x01", 0) == (b"", 1)


def test_a_uuid_is_url_safe_base64_without_padding() -> None:
    assert primitives.read_uuid(b"\xfb\xff" * 8, 0) == ("-__7__v_-__7__v_-__7_w", 16)


@given(st.sampled_from(ALL), st.binary(max_size=40), st.integers(0, 41))
def test_any_bytes_are_a_value_within_the_data_or_a_decode_error(
    read: Read, data: bytes, offset: int
) -> None:
    with contextlib.suppress(DecodeError):
        _, end = read(data, offset)
        assert offset < end <= len(data)
