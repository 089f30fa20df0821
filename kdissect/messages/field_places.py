"""Fields of a frame with the bytes where each lies, for a hex dump.

A layout is read again, field by field. The place of a text or of bytes begins with its length, that
of an array is its count, and its elements follow; header fields come first. Bytes behind the last
field, and those after a field that cannot be read, are one place at the end, SURPLUS or UNREAD.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kdissect.errors import DecodeError, InvalidValue
from kdissect.messages.headers import (
    read_request_header,
    response_body_offset,
    response_layout_version,
)
from kdissect.messages.layout_choice import REQUEST, RESPONSE, api_readers, read_whole
from kdissect.protocol.primitives import read_unsigned_varint
from kdissect.protocol.readers import Reader
from kdissect.protocol.structures import (
    ArrayReader,
    NullableStructReader,
    StructReader,
    is_null_struct,
    read_count,
    read_tag,
)

SURPLUS: Final = "behind the last field"
UNREAD: Final = "not decoded"
TAGS: Final = "tagged fields"
HEADER_TAGS: Final = f"header {TAGS}"


class FieldPlace(NamedTuple):
    """Bytes from `start` to `end` of a frame, with the path of their field and its value.

    Instead of a value an array has the number of its `elements`.
    """

    start: int
    end: int
    path: str
    value: Any = None
    elements: int | None = None


def field_places(key: int, version: int, data: bytes, is_response: bool) -> Iterator[FieldPlace]:
    """All fields of a frame without its size field, in order and without holes between them."""
    end = 0
    try:
        for place in _places(key, version, data, is_response):
            yield place
            end = place.end
    except DecodeError as error:
        if end < len(data):
            yield FieldPlace(end, len(data), UNREAD, error.message)
        return
    if end < len(data):
        yield FieldPlace(end, len(data), SURPLUS)


def _places(key: int, version: int, data: bytes, is_response: bool) -> Iterator[FieldPlace]:
    if is_response:
        offset = response_body_offset(key, version, data)
        yield FieldPlace(0, 4, "correlation_id", int.from_bytes(data[:4], "big", signed=True))
        version = response_layout_version(key, version, data)
    else:
        header = read_request_header(data)
        offset = header.body_offset
        yield from _request_header(data)
    body = 4 if is_response else _header_end(data)
    if body < offset:
        yield FieldPlace(body, offset, HEADER_TAGS)
    yield from _of_struct(_reader(key, version, data, is_response, offset), data, offset, "")


def _request_header(data: bytes) -> Iterator[FieldPlace]:
    header = read_request_header(data)
    for start, end, name, value in (
        (0, 2, "api_key", header.api_key),
        (2, 4, "api_version", header.api_version),
        (4, 8, "correlation_id", header.correlation_id),
    ):
        yield FieldPlace(start, end, name, value)
    end = _header_end(data)
    if end > 8:
        raw = data[header.client_id_start : end] if header.client_id_size >= 0 else None
        text = None if raw is None else raw.decode("utf-8", "backslashreplace")
        yield FieldPlace(8, end, "client_id", text)


def _header_end(data: bytes) -> int:
    """Offset behind the client id of a request."""
    header = read_request_header(data)
    if header.header_version == 0:
        return int(header.body_offset)
    return int(header.client_id_start + max(0, header.client_id_size))


def _reader(key: int, version: int, data: bytes, is_response: bool, offset: int) -> StructReader:
    """The layout that fits the body, else the newest."""
    layouts = api_readers(key, version, RESPONSE if is_response else REQUEST, data)
    for layout in layouts:
        try:
            read_whole(layout.reader, data, offset)
        except DecodeError:
            continue
        return layout.reader
    return layouts[0].reader


def _of_struct(reader: StructReader, data: bytes, offset: int, path: str) -> Iterator[FieldPlace]:
    for name, field in zip(reader.names, reader.fields, strict=True):
        for place in _of_field(field, data, offset, f"{path}.{name}" if path else name):
            yield place
            offset = place.end
    if reader.is_flexible:
        yield from _of_tags(reader, data, offset, path)


def _of_field(reader: Reader, data: bytes, offset: int, path: str) -> Iterator[FieldPlace]:
    """The places of a field: the last one ends where the field does."""
    if isinstance(reader, StructReader):
        yield from _of_struct(reader, data, offset, path)
    elif isinstance(reader, NullableStructReader):
        is_null, start = is_null_struct(data, offset, reader.is_tagged)
        yield FieldPlace(offset, int(start), path, None if is_null else "present")
        if not is_null:
            yield from _of_field(reader.struct, data, int(start), path)
    elif isinstance(reader, ArrayReader):
        count, start = read_count(data, offset, reader.is_compact, reader.element.min_size)
        yield FieldPlace(offset, int(start), path, None, int(count) if count >= 0 else None)
        at = int(start)
        for index in range(count):
            for place in _of_field(reader.element, data, at, f"{path}[{index}]"):
                yield place
                at = place.end
    else:
        value, end = reader.read(data, offset)
        yield FieldPlace(offset, int(end), path, value)


def _of_tags(reader: StructReader, data: bytes, offset: int, path: str) -> Iterator[FieldPlace]:
    count, at = read_unsigned_varint(data, offset)
    yield FieldPlace(offset, int(at), f"{path}.{TAGS}" if path else TAGS, int(count))
    at = int(at)
    for _ in range(count):
        tag, start, end = read_tag(data, at)
        name = reader.tag_names.get(int(tag), f"unknown_tags[{tag}]")
        inner = f"{path}.{name}" if path else name
        yield FieldPlace(at, int(start), f"{inner} tag", int(tag))
        at = int(start)
        field = reader.tag_fields.get(int(tag))
        if field is None:
            yield FieldPlace(at, int(end), inner, data[at:end])
            at = int(end)
        else:
            for place in _of_field(field, data, at, inner):
                yield place
                at = place.end
            if at > end:
                raise InvalidValue("a field ends behind its tag", offset=int(end), data=data)
        if at < end:
            yield FieldPlace(at, int(end), inner, data[at:end])
        at = int(end)
