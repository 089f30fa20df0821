"""Messages with pseudonyms, in as many bytes: the frame of an exchange → the frame to be written.

What is written is chosen, not what is left out. Numbers stay. Every text becomes its pseudonym,
every id of 16 bytes, too. Bytes become zeros, unless they are known: records (see `blanking`), SASL
tokens, subscriptions and assignments of consumers and Connect workers, forwarded requests. Tags and
messages with no known layout raise DecodeError, or are zeros.
"""

from collections.abc import Callable
from typing import Final

from kdissect.errors import DecodeError
from kdissect.exchanges.sasl_masking import masked_token
from kdissect.messages.embedded import ADDRESS_SIZES, ENVELOPE
from kdissect.messages.group_protocols import CONNECT, CONSUMER, NEWEST_CONSUMER
from kdissect.messages.headers import (
    FIXED_HEADER_SIZE,
    read_request_header,
    response_body_offset,
    response_layout_version,
)
from kdissect.messages.layout_choice import REQUEST, RESPONSE, Layout, api_readers, body_readers
from kdissect.messages.opened_records import RECORDS_FIELDS
from kdissect.messages.secret_places import header_size
from kdissect.protocol.primitives import (
    read_compact_length,
    read_int16,
    read_length16,
    read_length32,
    read_unsigned_varint,
)
from kdissect.protocol.readers import (
    BytesReader,
    CompactBytesReader,
    CompactStringReader,
    Reader,
    StringReader,
    UuidReader,
)
from kdissect.protocol.structures import (
    ArrayReader,
    NullableStructReader,
    StructReader,
    is_null_struct,
    read_count,
    read_tag,
)
from kdissect.slicing.blanking import Blanking, blanked
from kdissect.slicing.redacting import SASL_FIELD
from kdissect.tables.pseudonyms import Pseudonyms

VERSION_SIZE: Final = 2
SUBSCRIPTIONS: Final = frozenset({"metadata", "member_metadata"})
ASSIGNMENTS: Final = frozenset({"assignment", "member_assignment", "allocation"})
ADDRESS: Final = "client_host_address"
FORWARDED: Final = "request_data"
# What a field's name says of which texts stay: see `pseudonyms.is_public`.
KINDS: Final = {"client_id": "client", "client_software_version": "version"}
KAFKA_CONFIGS: Final = "name"
MASKED_BYTE: Final = b"x"

Change = Callable[[str, bytes], bytes]


class Renaming:
    """Writes frames with pseudonyms."""

    def __init__(self, names: Pseudonyms) -> None:
        self.names = names
        self.records = Blanking(names.cipher)

    def frame(self, key: int, version: int, data: bytes, is_response: bool) -> bytes:
        """A whole message; raises DecodeError if it fits no known layout to its last byte."""
        if is_response:
            start = int(response_body_offset(key, version, data))
            version = int(response_layout_version(key, version, data))
            layouts = api_readers(key, version, RESPONSE, data)
            head = data[:4] + b"\0" if start > 4 else data[:4]
        else:
            header = read_request_header(data)
            start = int(header.body_offset)
            layouts = api_readers(key, version, REQUEST, data)
            end = max(int(header.client_id_start) + int(header.client_id_size), 0)
            end = end if header.client_id_size >= 0 else int(header.client_id_start)
            head = self.client(data, int(header.client_id_start), int(header.client_id_size))
            head += b"\0" if start > end else b""
        if len(head) != start:
            raise DecodeError("a header with tags")
        return head + self.first(layouts, data, start, key)

    def client(self, data: bytes, start: int, size: int) -> bytes:
        """The header of a request up to its client id."""
        name = data[start : start + max(0, size)]
        return data[:start] + self.names.wire("client", name)

    def head(self, data: bytes, is_response: bool) -> bytes:
        """Of a message that cannot be read, what is certainly its header."""
        size = min(len(data), header_size(data, is_response))
        if is_response or size <= FIXED_HEADER_SIZE + 2:
            return data[:size]
        start = FIXED_HEADER_SIZE + 2
        return data[:start] + self.names.wire("client", data[start:size])

    def token(self, token: bytes) -> bytes:
        """A SASL token without credentials, and with pseudonyms of its users."""
        token = masked_token(token)
        parts = token.split(b"\0")
        if len(parts) == 3:
            users = [self.names.wire("user", part) for part in parts[:2]]
            return b"\0".join([*users, parts[2]])
        attributes = token.split(b",")
        return b",".join(map(self.attribute, attributes)) if len(attributes) > 1 else token

    def attribute(self, attribute: bytes) -> bytes:
        """A SCRAM attribute, or of the header of GS2: those that are names are `a` and `n`."""
        if attribute[:2] in (b"a=", b"n=") and len(attribute) > 2:
            return attribute[:2] + self.names.wire("user", attribute[2:])
        return attribute

    def first(self, layouts: tuple[Layout, ...], data: bytes, start: int, key: int = -1) -> bytes:
        """The body by the first layout that fits."""
        for layout in layouts:
            walk = _Walk(self, data, start, key)
            try:
                walk.struct(layout.reader)
            except DecodeError:
                continue
            if walk.at == len(data):
                return b"".join(walk.made)
        raise DecodeError("no layout fits")

    def member(self, data: bytes, part: str) -> bytes:
        """A subscription or an assignment; zeros if it is neither a consumer's nor a worker's."""
        for kind in (CONSUMER, CONNECT):
            try:
                return self.member_of(data, part, kind)
            except DecodeError:
                continue
        return bytes(len(data))

    def member_of(self, data: bytes, part: str, kind: str) -> bytes:
        version = int(read_int16(data, 0)[0])
        if kind == CONNECT:
            layouts = body_readers("messages/connect", f"Connect{part}", "layout", version)
            return data[:VERSION_SIZE] + self.first(layouts, data, VERSION_SIZE)
        known = min(version, NEWEST_CONSUMER)
        if version < 0:
            raise DecodeError("a negative version")
        (layout, *_) = body_readers("messages/embedded", f"ConsumerProtocol{part}", "layout", known)
        walk = _Walk(self, data, VERSION_SIZE)
        for name, field in zip(layout.reader.names, layout.reader.fields, strict=True):
            # Some clients leave out the fields behind the topics.
            if walk.at == len(data) and walk.made:
                break
            walk.field(name, field)
        rest = len(data) - walk.at
        if rest and version <= NEWEST_CONSUMER:
            raise DecodeError("bytes behind the last field")
        return data[:VERSION_SIZE] + b"".join(walk.made) + bytes(rest)

    def forwarded(self, data: bytes) -> bytes:
        """A request in an Envelope; zeros behind its header if it cannot be read."""
        try:
            header = read_request_header(data)
            if header.api_key != ENVELOPE:
                return self.frame(int(header.api_key), int(header.api_version), data, False)
        except DecodeError:
            pass
        head = self.head(data, is_response=False)
        return head + bytes(len(data) - len(head))


class _Walk:
    """Reads a message field by field, and writes each one."""

    def __init__(self, renaming: Renaming, data: bytes, at: int, key: int = -1) -> None:
        self.renaming = renaming
        self.data = data
        self.at = at
        self.key = key
        self.made: list[bytes] = []

    def struct(self, reader: StructReader) -> None:
        for name, field in zip(reader.names, reader.fields, strict=True):
            self.field(name, field)
        if reader.is_flexible:
            self.tags(reader)

    def tags(self, reader: StructReader) -> None:
        count, at = read_unsigned_varint(self.data, self.at)
        self.keep(int(at))
        for _ in range(count):
            tag, start, end = map(int, read_tag(self.data, self.at))
            self.keep(start)
            field = reader.tag_fields.get(tag)
            if field is None:
                self.write(end, bytes(end - start))
                continue
            self.field(reader.tag_names[tag], field)
            if self.at != end:
                raise DecodeError("a tag of another size")

    def field(self, name: str, reader: Reader) -> None:
        if isinstance(reader, StructReader):
            self.struct(reader)
        elif isinstance(reader, NullableStructReader):
            is_null, at = is_null_struct(self.data, self.at, reader.is_tagged)
            self.keep(int(at))
            if not is_null:
                self.field(name, reader.struct)
        elif isinstance(reader, ArrayReader):
            element = reader.element
            count, at = read_count(self.data, self.at, reader.is_compact, element.min_size)
            self.keep(int(at))
            if element.fixed_size >= 0 and not isinstance(element, (StructReader, UuidReader)):
                self.keep(self.at + max(0, int(count)) * int(element.fixed_size))
                return
            for _ in range(count):
                self.field(name, element)
        elif isinstance(reader, UuidReader):
            end = int(reader.skip(self.data, self.at))
            self.write(end, self.renaming.names.cipher.uuid(self.data[self.at : end]))
        elif isinstance(reader, (CompactStringReader, StringReader)):
            is_compact = isinstance(reader, CompactStringReader)
            read = read_compact_length if is_compact else read_length16
            kind = KINDS.get(name, "")
            self.sized(read, lambda content: self.renaming.names.wire(kind, content))
        elif isinstance(reader, (CompactBytesReader, BytesReader)):
            is_compact = isinstance(reader, CompactBytesReader)
            read = read_compact_length if is_compact else read_length32
            self.sized(read, lambda content: self.content(name, content))
        elif reader.fixed_size >= 0:
            self.keep(int(reader.skip(self.data, self.at)))
        else:
            raise DecodeError(f"{name} is of no known type")

    def sized(self, read: Callable[..., tuple[int, int]], change: Callable[[bytes], bytes]) -> None:
        """Content behind its length."""
        length, start = read(self.data, self.at)
        self.keep(int(start))
        if length > 0:
            end = int(start) + int(length)
            self.write(end, change(self.data[int(start) : end]))

    def content(self, name: str, content: bytes) -> bytes:
        """What is written in place of a field of bytes."""
        renaming = self.renaming
        if name in RECORDS_FIELDS:
            return blanked(content, renaming.records)
        if name == SASL_FIELD:
            return renaming.token(content)
        if name in SUBSCRIPTIONS:
            return renaming.member(content, "Subscription")
        if name in ASSIGNMENTS:
            return renaming.member(content, "Assignment")
        if self.key == ENVELOPE and name == FORWARDED:
            return renaming.forwarded(content)
        if name == ADDRESS and len(content) in ADDRESS_SIZES:
            return renaming.names.cipher.address(content)
        return bytes(len(content))

    def keep(self, end: int) -> None:
        """The bytes up to `end` as they are: lengths and numbers."""
        if end > len(self.data):
            raise DecodeError("a message that ends early")
        self.made.append(self.data[self.at : end])
        self.at = end

    def write(self, end: int, content: bytes) -> None:
        """Other bytes in place of those up to `end`."""
        if len(content) != end - self.at:
            raise DecodeError("content of another size")
        self.made.append(content)
        self.at = end
