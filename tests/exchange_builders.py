"""Builds requests and responses of any API and version from values, and dissects them.

Bodies are encoded from the schema by names in snake_case; omitted fields get their defaults.
"""

import struct
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kdissect.capture.packet import Packet
from kdissect.dissection.dissector import Dissector
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.pairing import Exchanges
from kdissect.protocol.apis import find_api, request_header_version, response_header_version
from kdissect.protocol.specs import FieldSpec, snake_case
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.schemas import TABLES
from tests.conversation import Conversation

Row = dict[str, Any]

INTEGERS = {"bool": ">?", "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i",
            "uint32": ">I", "int64": ">q", "float64": ">d"}  # fmt: skip
ORDERS = uuid.UUID(int=0x7232381436D16A12BA3C5FC76CE39E90)
PAYMENTS = uuid.UUID(int=0xE65797239FC3C40289F24CBEA5B053D9)


def request(
    api: str | int,
    version: int,
    correlation_id: int,
    client_id: str | None = "shop",
    body: bytes | None = None,
    **values: Any,
) -> bytes:
    """A request frame with its size field; `body` instead of values as it is."""
    known = find_api(api)
    header = struct.pack(">hhi", known.key, version, correlation_id)
    header_version = request_header_version(known.key, version)
    if header_version > 0:
        header += string16(client_id)
    if header_version > 1:
        header += b"\x00"
    return sized(header + (make_body(api, version, "request", values) if body is None else body))


def response(
    api: str | int, version: int, correlation_id: int, body: bytes | None = None, **values: Any
) -> bytes:
    """A response frame with its size field; `body` instead of values as it is."""
    header = struct.pack(">i", correlation_id)
    if response_header_version(find_api(api).key, version) == 1:
        header += b"\x00"
    return sized(header + (make_body(api, version, "response", values) if body is None else body))


def raw_request(api_key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    """A request with header v1 of the client "shop"."""
    return sized(struct.pack(">hhi", api_key, version, correlation_id) + string16("shop") + body)


def raw_response(correlation_id: int, body: bytes = b"") -> bytes:
    return sized(struct.pack(">i", correlation_id) + body)


def sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def make_body(api: str | int, version: int, side: str, values: Row) -> bytes:
    spec = find_api(api).definition().layouts[side]
    return make_struct(spec.fields, version, version in spec.flexible, values)


def make_struct(fields: Iterable[FieldSpec], version: int, is_flexible: bool, values: Row) -> bytes:
    present = [field for field in fields if version in field.versions]
    unknown = set(values) - {snake_case(field.name) for field in present}
    assert not unknown, f"no {sorted(unknown)} in v{version}"
    plain = [field for field in present if version not in field.tagged]
    body = b"".join(make_field(field, version, is_flexible, values) for field in plain)
    if not is_flexible:
        return body
    tagged = sorted(
        (field.tag, make_field(field, version, is_flexible, values))
        for field in present
        if version in field.tagged and snake_case(field.name) in values
    )
    body += make_unsigned_varint(len(tagged))
    for tag, content in tagged:
        body += make_unsigned_varint(tag) + make_unsigned_varint(len(content)) + content
    return body


def make_field(field: FieldSpec, version: int, is_flexible: bool, values: Row) -> bytes:
    is_compact = is_flexible and not field.is_inflexible
    value = values.get(snake_case(field.name), ...)
    if field.is_array:
        value = [] if value is ... else value
        if value is None:
            return make_length(None, is_compact, ">i")
        elements = b"".join(make_value(field, version, is_flexible, item) for item in value)
        return make_length(len(value), is_compact, ">i") + elements
    if field.is_struct:
        content = {} if value is ... else value
        is_nullable = version in field.nullable
        if content is None:
            assert is_nullable
            return b"\x00" if version in field.tagged else b"\xff"
        mark = b"\x01" if is_nullable else b""
        return mark + make_value(field, version, is_flexible, content)
    if value is ...:
        value = default_of(field)
    return make_value(field, version, is_flexible, value)


def make_value(field: FieldSpec, version: int, is_flexible: bool, value: Any) -> bytes:
    if field.is_struct:
        return make_struct(field.fields, version, is_flexible, value)
    if field.type in INTEGERS:
        return struct.pack(INTEGERS[field.type], value)
    if field.type == "uuid":
        raw: bytes = value.bytes
        return raw
    is_compact = is_flexible and not field.is_inflexible
    content = value.encode() if isinstance(value, str) else value
    width = ">h" if field.type == "string" else ">i"
    length = make_length(None if content is None else len(content), is_compact, width)
    return length + (content or b"")


def default_of(field: FieldSpec) -> Any:
    if field.type in INTEGERS:
        words = {"true": True, "false": False, "": 0}
        return words[field.default] if field.default in words else int(field.default, 0)
    if field.type == "uuid":
        return uuid.UUID(int=0)
    if field.default == "null":
        return None
    return field.default if field.type == "string" else b""


def make_length(length: int | None, is_compact: bool, width: str) -> bytes:
    if is_compact:
        return make_unsigned_varint(0 if length is None else length + 1)
    return struct.pack(width, -1 if length is None else length)


def make_unsigned_varint(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    return bytes(group | 0x80 for group in groups[:-1]) + bytes(groups[-1:])


def string16(text: str | None) -> bytes:
    raw = (text or "").encode()
    return struct.pack(">h", -1 if text is None else len(raw)) + raw


class Found(NamedTuple):
    """Output of a dissector: exchanges of the stage, and the rows of every table."""

    exchanges: list[Exchange]
    tables: dict[str, list[Row]]

    @property
    def rows(self) -> list[Row]:
        """The rows of `exchanges`."""
        return self.tables["exchanges"]

    def column(self, name: str, table: str = "exchanges") -> list[Any]:
        return [row[name] for row in self.tables[table]]

    def columns(self, *names: str, table: str = "exchanges") -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in names) for row in self.tables[table]]


def found_in(
    talk: Conversation | Sequence[Packet],
    exchanges: Exchanges | None = None,
    has_payload: bool = False,
    verifies_crc: bool = False,
) -> Found:
    """The exchanges and all tables of a conversation."""
    packets = list(talk.packets() if isinstance(talk, Conversation) else talk)
    stage = exchanges or Exchanges()
    stage.bodies.sink.keeps_records = True
    stage.keeps_frames = True
    dissector = Dissector(
        stage, frozenset(TABLES), has_payload=has_payload, verifies_crc=verifies_crc, collects=True
    )
    dissector.feed(packets)
    dissector.finish()
    assert (stage.memory_budget.frame_bytes, stage.memory_budget.request_bytes) == (0, 0)
    tables: dict[str, list[Row]] = {}
    for name, table in TABLES.items():
        builder = BatchBuilder(table, ["test.pcap"], stage.names)
        batches = [builder.batch(dissector.take_rows(name)), *builder.finish()]
        tables[name] = [row for batch in batches for row in batch.to_pylist()]
    return Found(dissector.take_exchanges(), tables)
