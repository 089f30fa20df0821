"""Writers of values as JSON text, straight from bytes: a tree of them is one layout.

They write what `json.dumps` makes of the values that `readers` give, without the values. Only
regular input is written: at anything else a writer returns FAILED, and the body is decoded.
Irregular is what is damaged or needs an escape, a null where the layout has none, an unknown tag,
and a message for which the budget is not enough.
"""

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64, u8

from kdissect.protocol.primitives import (
    read_compact_length,
    read_length16,
    read_length32,
    read_unsigned_varint,
)
from kdissect.protocol.readers import FAILED, NO_LIMIT, TEXT_BYTES, VALUE_BYTES
from kdissect.protocol.structures import LIST_BYTES, is_null_struct, read_count, read_tag

QUOTE: Final[u8] = 0x22
BACKSLASH: Final[u8] = 0x5C
SPACE: Final[u8] = 0x20  # below it are control characters
END_OF_ASCII: Final[u8] = 0x80
DIGIT: Final[i64] = 0x30
MINUS: Final[u8] = 0x2D
COMMA: Final[u8] = 0x2C
BRACKET: Final[u8] = 0x5B
BRACKET_END: Final[u8] = 0x5D
BRACE: Final[u8] = 0x7B
BRACE_END: Final[u8] = 0x7D
LOWEST: Final[i64] = -(1 << 63)
URL_SAFE: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
UUID_SIZE: Final[i64] = 16
NAME_OF_TOPIC: Final = 1
ID_OF_TOPIC: Final = 2


class JsonOutput:
    """The text so far, the budget of values, and where the last topic was."""

    def __init__(self, left: i64 = NO_LIMIT) -> None:
        self.text = BytesWriter()
        self.left: i64 = left
        # Span of a name, or the offset of an id; -1 for none.
        self.topic_at: i64 = -1
        self.topic_end: i64 = -1
        self.topic_id_at: i64 = -1

    def records(self, data: bytes, start: i64, end: i64) -> bool:
        """Write the batches of a records field; false where they cannot be. Never here."""
        return False


def write_integer(text: BytesWriter, value: i64) -> None:
    """Append a decimal number."""
    if 0 <= value < 10:
        text.append(u8(DIGIT + value))
        return
    if value < 0:
        if value == LOWEST:
            text.write(b"-9223372036854775808")
            return
        text.append(MINUS)
        value = -value
    first = len(text)
    while value > 0:
        rest = value // 10
        text.append(u8(DIGIT + value - rest * 10))
        value = rest
    last = len(text) - 1
    while first < last:
        digit = text[first]
        text[first] = text[last]
        text[last] = digit
        first += 1
        last -= 1


def write_plain(text: BytesWriter, data: bytes, at: i64, end: i64) -> bool:
    """Append bytes in quotes; false if one is not ASCII, or has to be escaped."""
    text.append(QUOTE)
    while at < end:
        byte = u8(data[at])
        if byte < SPACE or byte >= END_OF_ASCII or byte in (QUOTE, BACKSLASH):
            return False
        text.append(byte)
        at += 1
    text.append(QUOTE)
    return True


def write_null(out: JsonOutput, may_be_null: bool, end: i64) -> i64:
    """Append a null that ends at `end`; FAILED where the layout has none."""
    out.left -= VALUE_BYTES
    out.text.write(b"null")
    return end if may_be_null else FAILED


class JsonWriter:
    """Writes the value of one type."""

    def write(self, data: bytes, at: i64, out: JsonOutput) -> i64:
        """Append the value at `at`; the offset behind it, or FAILED. Raises DecodeError."""
        return FAILED


class BoolWriter(JsonWriter):
    def write(self, data: bytes, at: i64, out: JsonOutput) -> i64:
        if at >= len(data):
            return FAILED
        out.left -= VALUE_BYTES
        out.text.write(b"true" if data[at] != 0 else b"false")
        return at + 1


class IntegerWriter(JsonWriter):
    """An integer of 1, 2, 4 or 8 bytes; with `names` a field for its name follows."""

    def __init__(self, size: i64, is_signed: bool, names: dict[int, bytes] | None = None) -> None:
        self.size = size
        self.is_signed = is_signed
        self.names = names

    def write(self, data: bytes, at: i64, out: JsonOutput) -> i64:
        size = self.size
        if at + size > len(data):
            return FAILED
        value: i64
        if size == 4:
            value = i64(read_i32_be(data, at))
            if not self.is_signed:
                value &= 0xFFFFFFFF
        elif size == 2:
            value = i64(read_i16_be(data, at))
            if not self.is_signed:
                value &= 0xFFFF
        elif size == 8:
            value = read_i64_be(data, at)
        else:
            value = (i64(data[at]) ^ 0x80) - 0x80
        out.left -= VALUE_BYTES
        write_integer(out.text, value)
        if self.names is not None:
            name = self.names.get(int(value))
            if name is not None:
                out.text.write(name)
        return at + size


class BitsWriter(JsonWriter):
    """An integer of bits that have names, as long as it has none: any other is left to others."""

    def __init__(self, inner: IntegerWriter) -> None:
        self.inner = inner

    def write(self, data: bytes, at: i64, out: JsonOutput) -> i64:
        # Negative: the names were not requested.
        if at >= len(data) or i64(data[at]) < 0x80:
            return FAILED
        return self.inner.write(data, at, out)


class UuidWriter(JsonWriter):
    """16 bytes as base64 without padding."""

    def __init__(self, role: i64) -> None:
        self.role = role

    def write(self, data: bytes, at: i64, out: JsonOutput) -> i64:
        end = at + UUID_SIZE
        if end > len(data):
            return FAILED
        if self.role == ID_OF_TOPIC:
            out.topic_id_at = at
            out.topic_at = -1
        out.left -= VALUE_BYTES
        text = out.text
        text.append(QUOTE)
        while at + 3 <= end:
            bits: i64 = i64(data[at]) << 16 | i64(data[at + 1]) << 8 | i64(data[at + 2])
            text.append(u8(URL_SAFE[bits >> 18]))
            text.append(u8(URL_SAFE[bits >> 12 & 63]))
            text.append(u8(URL_SAFE[bits >> 6 & 63]))
            text.append(u8(URL_SAFE[bits & 63]))
            at += 3
        rest: i64 = data[at]
        text.append(u8(URL_SAFE[rest >> 2]))
        text.append(u8(URL_SAFE[(rest & 3) << 4]))
        text.append(QUOTE)
        return end


class TextWriter(JsonWriter):
    """A string."""

    def __init__(self, is_compact: bool, may_be_null: bool, role: i64) -> None:
        self.is_compact = is_compact
        self.may_be_null = may_be_null
        self.role = role

    def write(self, data: bytes, at: i64, out: JsonOutput) -> i64:
        if self.is_compact:
            length, start = read_compact_length(data, at)
        else:
            length, start = read_length16(data, at)
        if length < 0:
            return write_null(out, self.may_be_null, start)
        end = start + length
        if self.role == NAME_OF_TOPIC:
            out.topic_at = start
            out.topic_end = end
        out.left -= TEXT_BYTES + length
        return end if write_plain(out.text, data, start, end) else FAILED


class BlobWriter(JsonWriter):
    """Bytes, of which only none, as `empty`, and null are regular, or the batches of records."""

    def __init__(
        self, is_compact: bool, may_be_null: bool, empty: bytes, has_records: bool
    ) -> None:
        self.is_compact = is_compact
        self.may_be_null = may_be_null
        self.empty = empty
        self.has_records = has_records

    def write(self, data: bytes, at: i64, out: JsonOutput) -> i64:
        if self.is_compact:
            length, start = read_compact_length(data, at)
        else:
            length, start = read_length32(data, at)
        if length < 0:
            return write_null(out, self.may_be_null, start)
        out.left -= VALUE_BYTES
        if length == 0:
            out.text.write(self.empty)
            return start
        end = start + length
        if self.has_records and out.records(data, start, end):
            return end
        return FAILED


class ArrayWriter(JsonWriter):
    """An array, whose elements take at least `least` bytes each."""

    def __init__(
        self, element: JsonWriter, least: i64, is_compact: bool, may_be_null: bool
    ) -> None:
        self.element = element
        self.least = least
        self.is_compact = is_compact
        self.may_be_null = may_be_null

    def write(self, data: bytes, at: i64, out: JsonOutput) -> i64:
        count, at = read_count(data, at, self.is_compact, self.least)
        text = out.text
        if count < 0:
            return write_null(out, self.may_be_null, at)
        out.left -= LIST_BYTES
        element = self.element
        text.append(BRACKET)
        index: i64 = 0
        while index < count:
            if out.left < 0:
                return FAILED
            if index > 0:
                text.append(COMMA)
                text.append(SPACE)
            at = element.write(data, at, out)
            if at < 0:
                return FAILED
            index += 1
        text.append(BRACKET_END)
        return at


class StructWriter(JsonWriter):
    """A struct; `starts` are what precedes each value: its name, after a comma but in the first.

    Those of tagged fields have the comma always.
    """

    def __init__(
        self,
        starts: list[bytes],
        fields: list[JsonWriter],
        is_flexible: bool,
        tag_starts: dict[int, bytes],
        tag_fields: dict[int, JsonWriter],
        size_of_dict: i64,
    ) -> None:
        self.starts = starts
        self.fields = fields
        self.is_flexible = is_flexible
        self.tag_starts = tag_starts
        self.tag_fields = tag_fields
        self.size_of_dict = size_of_dict

    def write(self, data: bytes, at: i64, out: JsonOutput) -> i64:
        out.left -= self.size_of_dict
        text = out.text
        text.append(BRACE)
        for index, field in enumerate(self.fields):
            text.write(self.starts[index])
            at = field.write(data, at, out)
            if at < 0:
                return FAILED
        if self.is_flexible:
            if at < len(data) and data[at] == 0:
                at += 1
            else:
                at = self._write_tags(data, at, out)
                if at < 0:
                    return FAILED
        text.append(BRACE_END)
        return at

    def _write_tags(self, data: bytes, at: i64, out: JsonOutput) -> i64:
        count, at = read_unsigned_varint(data, at)
        before: i64 = -1
        while count > 0:
            tag, at, end = read_tag(data, at)
            field = self.tag_fields.get(int(tag))
            # In order they are written once each; without other fields there is no comma.
            if field is None or tag <= before or not self.fields:
                return FAILED
            out.text.write(self.tag_starts[int(tag)])
            at = field.write(data, at, out)
            if at != end:
                return FAILED
            before = tag
            count -= 1
        return at


class NullableStructWriter(JsonWriter):
    """A struct that may be null."""

    def __init__(self, struct: JsonWriter, is_tagged: bool) -> None:
        self.struct = struct
        self.is_tagged = is_tagged

    def write(self, data: bytes, at: i64, out: JsonOutput) -> i64:
        is_null, at = is_null_struct(data, at, self.is_tagged)
        if is_null:
            out.text.write(b"null")
            return at
        return self.struct.write(data, at, out)
