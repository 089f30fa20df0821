"""Primitive types of the Kafka protocol: bytes at an offset → value and next offset.

Integers are big-endian two's complement. Every function raises Truncated if the value exceeds the
bytes that are left, and InvalidValue if the bytes cannot be such a value. A length -1 (0 in compact
forms) is null and returned as None everywhere: old clients wrote null where the schema forbids it.
"""

from binascii import b2a_base64
from typing import Final

from librt.strings import read_f64_be, read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from kdissect.errors import DecodeError, InvalidValue, Truncated

UINT32_MAX: Final = 0xFFFFFFFF
URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


def truncated(data: bytes, offset: i64, size: i64, what: str) -> DecodeError:
    """Error for `size` missing bytes of `what`."""
    left = max(len(data) - offset, 0)
    text = f"{what} takes {size} bytes, only {left} left"
    return Truncated(text, offset=offset, data=data, needed=offset + size)


def check_offset(data: bytes, offset: i64, size: i64, what: str) -> None:
    """Raise Truncated unless `size` bytes are left at `offset`, which must not be negative."""
    # Negative: would count from the end of `data`. Too large: a slice would be truncated silently.
    if offset < 0 or offset + size > len(data):
        raise truncated(data, offset, size, what)


def read_bool(data: bytes, offset: i64) -> tuple[bool, i64]:
    r"""A byte; any value other than 0 is True.

    >>> read_bool(b"\x02", 0)
    (True, 1)
    """
    check_offset(data, offset, 1, "bool")
    return data[offset] != 0, offset + 1


def read_int8(data: bytes, offset: i64) -> tuple[i64, i64]:
    r"""A signed byte.

    >>> read_int8(b"\xff", 0)
    (-1, 1)
    """
    check_offset(data, offset, 1, "int8")
    value: i64 = data[offset]
    return value - 256 if value > 127 else value, offset + 1


def read_int16(data: bytes, offset: i64) -> tuple[i64, i64]:
    r"""Two bytes, signed.

    >>> read_int16(b"\x80\x00", 0)
    (-32768, 2)
    """
    check_offset(data, offset, 2, "int16")
    return i64(read_i16_be(data, offset)), offset + 2


def read_uint16(data: bytes, offset: i64) -> tuple[i64, i64]:
    r"""Two bytes, unsigned.

    >>> read_uint16(b"\x80\x00", 0)
    (32768, 2)
    """
    check_offset(data, offset, 2, "uint16")
    return i64(read_i16_be(data, offset)) & 0xFFFF, offset + 2


def read_int32(data: bytes, offset: i64) -> tuple[i64, i64]:
    r"""Four bytes, signed.

    >>> read_int32(b"\xff\xff\xff\xfe", 0)
    (-2, 4)
    """
    check_offset(data, offset, 4, "int32")
    return i64(read_i32_be(data, offset)), offset + 4


def read_uint32(data: bytes, offset: i64) -> tuple[i64, i64]:
    r"""Four bytes, unsigned.

    >>> read_uint32(b"\xff\xff\xff\xfe", 0)
    (4294967294, 4)
    """
    check_offset(data, offset, 4, "uint32")
    return i64(read_i32_be(data, offset)) & 0xFFFFFFFF, offset + 4


def read_int64(data: bytes, offset: i64) -> tuple[i64, i64]:
    r"""Eight bytes, signed.

    >>> read_int64(b"\x80" + bytes(7), 0)
    (-9223372036854775808, 8)
    """
    check_offset(data, offset, 8, "int64")
    return read_i64_be(data, offset), offset + 8


def read_float64(data: bytes, offset: i64) -> tuple[float, i64]:
    """IEEE 754, eight bytes.

    >>> read_float64(bytes.fromhex("3ff8000000000000"), 0)
    (1.5, 8)
    """
    check_offset(data, offset, 8, "float64")
    return read_f64_be(data, offset), offset + 8


def read_uuid(data: bytes, offset: i64) -> tuple[str, i64]:
    """Kafka's text form: base64 with ``-`` and ``_``, 22 characters.

    >>> read_uuid(bytes(16), 0)
    ('AAAAAAAAAAAAAAAAAAAAAA', 16)
    """
    check_offset(data, offset, 16, "uuid")
    return uuid_text(data[offset : offset + 16]), offset + 16


def uuid_text(data: bytes) -> str:
    """The text form of a uuid, whose 16 bytes these are."""
    # What base64.urlsafe_b64encode does, which is Python in two calls.
    return b2a_base64(data, newline=False).translate(URL_SAFE).rstrip(b"=").decode("ascii")


def read_unsigned_varint(data: bytes, offset: i64) -> tuple[i64, i64]:
    r"""32 bits, 7 a byte, least significant first, at most 5 bytes.

    >>> read_unsigned_varint(b"\x96\x01", 0)
    (150, 2)
    """
    end: i64 = len(data)
    start = offset
    if offset < 0 or offset >= end:
        raise truncated(data, offset, 1, "varint")
    byte: i64 = data[offset]
    offset += 1
    if byte < 128:
        return byte, offset
    value = byte & 127
    shift: i64 = 7
    while True:
        if offset >= end:
            raise truncated(data, start, offset - start + 1, "varint")
        byte = data[offset]
        offset += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise InvalidValue(
                "varint longer than 5 bytes", offset=start, data=data, length=offset - start
            )
    # A fifth byte above 15 would need more than 32 bits.
    if value > UINT32_MAX:
        raise InvalidValue(f"varint {value} above 2^32", offset=start, data=data, length=5)
    return value, offset


def read_varint(data: bytes, offset: i64) -> tuple[i64, i64]:
    r"""Zig-zag, 32 bits, at most 5 bytes.

    >>> read_varint(b"\x03", 0)
    (-2, 1)
    """
    value, offset = read_unsigned_varint(data, offset)
    return (value >> 1) ^ -(value & 1), offset


def read_varlong(data: bytes, offset: i64) -> tuple[i64, i64]:
    r"""Zig-zag, 64 bits, at most 10 bytes.

    >>> read_varlong(b"\xff" * 9 + b"\x01", 0)
    (-9223372036854775808, 10)
    """
    start = offset
    end: i64 = len(data)
    value: i64 = 0
    shift: i64 = 0
    while True:
        if offset < 0 or offset >= end:
            raise truncated(data, start, offset - start + 1, "varlong")
        byte: i64 = data[offset]
        offset += 1
        # The tenth byte has room for one bit; more would be lost.
        if shift == 63 and byte > 1:
            raise InvalidValue(
                "varlong longer than 64 bits", offset=start, data=data, length=offset - start
            )
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    # In compiled code bit 63 made `value` negative: the mask makes the shift a logical one.
    return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), offset


def read_length16(data: bytes, offset: i64) -> tuple[i64, i64]:
    """An int16 length, checked against the bytes that are left; -1 is null."""
    check_offset(data, offset, 2, "length")
    return checked_length(data, offset, i64(read_i16_be(data, offset)), offset + 2)


def read_length32(data: bytes, offset: i64) -> tuple[i64, i64]:
    """An int32 length, checked against the bytes that are left; -1 is null."""
    check_offset(data, offset, 4, "length")
    return checked_length(data, offset, i64(read_i32_be(data, offset)), offset + 4)


def read_compact_length(data: bytes, offset: i64) -> tuple[i64, i64]:
    """An unsigned varint of length + 1, checked against the bytes that are left; -1 is null."""
    raw, start = read_unsigned_varint(data, offset)
    return checked_length(data, offset, raw - 1, start)


def checked_length(data: bytes, at: i64, length: i64, start: i64) -> tuple[i64, i64]:
    """`length` and `start` if it is null or that many bytes are left from `start` on.

    A length from the wire may be up to 2^32 - 2, while a slice would be truncated silently.
    """
    if length < -1:
        raise InvalidValue(f"length {length}", offset=at, data=data, length=start - at)
    left = len(data) - start
    if length > left:
        raise Truncated(
            f"length {length}, only {left} bytes left",
            offset=at,
            data=data,
            length=start - at,
            needed=start + length,
        )
    return length, start


def text_of(data: bytes, start: i64, end: i64) -> str:
    r"""UTF-8; invalid bytes are written with backslash escapes.

    >>> text_of(b"a\xffb", 0, 3)
    'a\\xffb'
    """
    return data[start:end].decode("utf-8", "backslashreplace")


def read_string(data: bytes, offset: i64) -> tuple[str | None, i64]:
    r"""An int16 length and that many bytes of UTF-8.

    >>> read_string(b"\x00\x02hi", 0), read_string(b"\xff\xff", 0)
    (('hi', 4), (None, 2))
    """
    length, start = read_length16(data, offset)
    if length < 0:
        return None, start
    return text_of(data, start, start + length), start + length


def read_compact_string(data: bytes, offset: i64) -> tuple[str | None, i64]:
    r"""A varint of length + 1 and that many bytes of UTF-8.

    >>> read_compact_string(b"\x03hi", 0), read_compact_string(b"\x00", 0)
    (('hi', 3), (None, 1))
    """
    length, start = read_compact_length(data, offset)
    if length < 0:
        return None, start
    return text_of(data, start, start + length), start + length


def read_bytes(data: bytes, offset: i64) -> tuple[bytes | None, i64]:
    r"""An int32 length and that many bytes.

    >>> read_bytes(b"\x00\x00\x00\x01!", 0)
    (b'!', 5)
    """
    length, start = read_length32(data, offset)
    if length < 0:
        return None, start
    return data[start : start + length], start + length


def read_compact_bytes(data: bytes, offset: i64) -> tuple[bytes | None, i64]:
    r"""A varint of length + 1 and that many bytes.

    >>> read_compact_bytes(b"\x02!", 0)
    (b'!', 2)
    """
    length, start = read_compact_length(data, offset)
    if length < 0:
        return None, start
    return data[start : start + length], start + length
