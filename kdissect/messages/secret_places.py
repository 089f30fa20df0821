"""Locates credentials in the bytes of a frame, as `redaction` removes them from values.

A layout is read again, field by field, so that each has its place; `redaction` decides which are
credentials.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kdissect.errors import DecodeError
from kdissect.messages.headers import (
    read_request_header,
    response_body_offset,
    response_layout_version,
)
from kdissect.messages.layout_choice import REQUEST, RESPONSE, Layout, api_readers
from kdissect.messages.redaction import (
    BROKER_LOGGER,
    UNKNOWN_TAGS,
    Secrets,
    is_hidden,
    is_secret_struct,
    listed,
)
from kdissect.protocol.apis import find_api
from kdissect.protocol.primitives import (
    read_compact_length,
    read_length16,
    read_length32,
    read_unsigned_varint,
)
from kdissect.protocol.readers import BytesReader, CompactReader, Reader, StringReader
from kdissect.protocol.structures import (
    ArrayReader,
    NullableStructReader,
    StructReader,
    is_null_struct,
    read_count,
    read_tag,
)

RESPONSE_HEADER: Final = 4


class Place(NamedTuple):
    """Bytes from `start` to `end` of a frame; `field` is the name of their field."""

    start: int
    end: int
    field: str


def secret_places(key: int, version: int, data: bytes, is_response: bool) -> list[Place]:
    """Contents of all fields of a frame that are, or may be, credentials.

    Embedded messages and records of the metadata log are places as a whole. Raises DecodeError if
    the frame fits no known layout to its last byte.
    """
    side = RESPONSE if is_response else REQUEST
    secrets = listed().get((find_api(key).name, side))
    if secrets is None:
        return []
    if is_response:
        offset = int(response_body_offset(key, version, data))
        version = int(response_layout_version(key, version, data))
    else:
        offset = int(read_request_header(data).body_offset)
    layout = fitting(api_readers(key, version, side, data), data, offset)
    return list(_Walk(data).struct(layout.reader, secrets, offset, False, False))


def header_size(data: bytes, is_response: bool) -> int:
    """Number of bytes of a frame that are certainly its header, without credentials."""
    if is_response:
        return RESPONSE_HEADER
    try:
        header = read_request_header(data)
    except DecodeError:
        return 0
    # A wrong length of the client id reaches into the body.
    client_id = data[header.client_id_start :][: max(0, header.client_id_size)]
    is_name = client_id.isascii() and client_id.decode("latin-1").isprintable()
    start = int(header.client_id_start)
    return start + len(client_id) if is_name and b"=" not in client_id else start - 2


def fitting(layouts: tuple[Layout, ...], data: bytes, offset: int) -> Layout:
    """The first layout that ends where the data does; raises DecodeError."""
    for layout in layouts:
        try:
            if layout.reader.skip(data, offset) == len(data):
                return layout
        except DecodeError:
            continue
    raise DecodeError("no layout fits")


class _Walk:
    """Reads one frame again."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def struct(
        self, reader: StructReader, secrets: Secrets, offset: int, is_secret: bool, is_logger: bool
    ) -> Iterator[Place]:
        """Places in a struct; see `redaction` for the flags."""
        data = self.data
        starts: dict[str, tuple[Reader, int]] = {}
        values: dict[str, Any] = {}
        for name, field in zip(reader.names, reader.fields, strict=True):
            starts[name] = field, offset
            values[name], offset = field.read(data, offset)
        if reader.is_flexible:
            yield from self.tags(reader, offset, starts, values)
        is_logger = is_logger or values.get("resource_type") == BROKER_LOGGER
        is_secret = is_secret or is_secret_struct(secrets, values, is_logger)
        for name, kind in secrets.kinds.items():
            if name in starts and is_hidden(kind, values[name], is_secret, False):
                yield from self.content(*starts[name], name)
        for name, inner in secrets.structs.items():
            if name in starts:
                yield from self.inside(*starts[name], inner, is_secret, is_logger)

    def tags(
        self,
        reader: StructReader,
        offset: int,
        starts: dict[str, tuple[Reader, int]],
        values: dict[str, Any],
    ) -> Iterator[Place]:
        """Note fields in tags; unknown tags are places."""
        count, offset = read_unsigned_varint(self.data, offset)
        for _ in range(count):
            tag, start, offset = read_tag(self.data, offset)
            field = reader.tag_fields.get(tag)
            if field is None:
                yield Place(start, offset, UNKNOWN_TAGS)
            else:
                name = reader.tag_names[tag]
                starts[name] = field, start
                values[name], _ = field.read(self.data, start)

    def inside(
        self, reader: Reader, offset: int, secrets: Secrets, is_secret: bool, is_logger: bool
    ) -> Iterator[Place]:
        """Places in a struct, which may be null, or in an array of them."""
        if isinstance(reader, NullableStructReader):
            is_null, offset = is_null_struct(self.data, offset, reader.is_tagged)
            if not is_null:
                yield from self.inside(reader.struct, offset, secrets, is_secret, is_logger)
        elif isinstance(reader, ArrayReader):
            element = reader.element
            count, offset = read_count(self.data, offset, reader.is_compact, element.min_size)
            for _ in range(count):
                yield from self.inside(element, offset, secrets, is_secret, is_logger)
                offset = element.skip(self.data, offset)
        elif isinstance(reader, StructReader):
            yield from self.struct(reader, secrets, offset, is_secret, is_logger)

    def content(self, reader: Reader, offset: int, name: str) -> Iterator[Place]:
        """Content of a string or bytes, behind its length."""
        if isinstance(reader, CompactReader):
            length, start = read_compact_length(self.data, offset)
        elif isinstance(reader, StringReader):
            length, start = read_length16(self.data, offset)
        elif isinstance(reader, BytesReader):
            length, start = read_length32(self.data, offset)
        else:
            raise DecodeError(f"{name} is neither a string nor bytes")
        if length > 0:
            yield Place(start, start + length, name)
