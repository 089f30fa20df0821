"""Frames → bodies as JSON text, without values in between, where a body is regular.

What is regular: see `json_writers`. Messages with credentials, or with other messages in them, are
left to `full_bodies`, which gives the same text of others.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final

from mypy_extensions import i64

from kdissect.errors import DecodeError
from kdissect.messages.batch_texts import write_batches
from kdissect.messages.decompression_budget import Unpacking
from kdissect.messages.embedded import DESCRIBE_GROUPS, ENVELOPE, PUSH_TELEMETRY
from kdissect.messages.headers import (
    read_request_header,
    response_body_offset,
    response_layout_version,
)
from kdissect.messages.internal_topics import is_opened
from kdissect.messages.layout_choice import REQUEST, RESPONSE, api_readers
from kdissect.messages.memberships import JOIN_GROUP, SYNC_GROUP
from kdissect.messages.opened_records import (
    RECORDS,
    RECORDS_FIELDS,
    WITH_RECORDS,
    Opener,
    with_sizes,
)
from kdissect.messages.redaction import listed, only_records
from kdissect.messages.value_budget import spending
from kdissect.protocol.apis import find_api
from kdissect.protocol.enums import BITS, EnumFields, enum_fields, enum_values
from kdissect.protocol.json_writers import (
    ID_OF_TOPIC,
    NAME_OF_TOPIC,
    ArrayWriter,
    BitsWriter,
    BlobWriter,
    BoolWriter,
    IntegerWriter,
    JsonOutput,
    JsonWriter,
    NullableStructWriter,
    StructWriter,
    TextWriter,
    UuidWriter,
)
from kdissect.protocol.primitives import read_uuid
from kdissect.protocol.readers import ValueBudget
from kdissect.protocol.specs import FieldSpec, snake_case
from kdissect.protocol.structures import ArrayReader, NullableStructReader, StructReader

# Bodies that contain other messages.
OPENED: Final = frozenset({JOIN_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, ENVELOPE, PUSH_TELEMETRY})
INTEGERS: Final = {
    "int8": (1, True), "int16": (2, True), "uint16": (2, False), "int32": (4, True),
    "uint32": (4, False), "int64": (8, True),
}  # fmt: skip
NO_ENUMS: Final = EnumFields({}, {})

Names = Callable[[], Mapping[str, str]]

_known: dict[tuple[int, int, bool], StructWriter | None] = {}


class BodyOutput(JsonOutput):
    """Writes records, too: as `full_bodies` shows them without payload."""

    def __init__(self, opener: Opener, names: Names, value_budget: ValueBudget) -> None:
        super().__init__(value_budget.left)
        self.opener = opener
        self._names = names
        self._by_id: Mapping[str, str] | None = None
        self.value_budget = value_budget

    def records(self, data: bytes, start: i64, end: i64) -> bool:
        """Write batches with their records; false if they have bytes, or take too much memory."""
        opener = self.opener
        self.value_budget.left = self.left
        budget, before = opener.budget, len(self.text)
        size, count = budget.size, budget.count
        topic = self._topic(data)
        if topic is None or not is_opened(topic):
            if write_batches(self.text, data, start, end, opener.limit, budget, self.value_budget):
                self.left = self.value_budget.left
                return True
            self.text.truncate(before)
            budget.size, budget.count = size, count
            self.value_budget.left = self.left
        batches = opener.batches(data[start:end], topic)
        self.left = self.value_budget.left
        # With less memory, as after the other values, a batch may have lost more.
        if self.value_budget.left_out or any("error" in batch for batch in batches):
            return False
        try:
            text = json.dumps(batches, ensure_ascii=False, allow_nan=False, check_circular=False)
            self.text.write(text.encode())
        except (TypeError, ValueError):  # bytes; numbers that JSON has not, and lone surrogates
            return False
        return True

    def _topic(self, data: bytes) -> str | None:
        """The topic that the records are in; None for an unknown one."""
        if self.topic_at >= 0:
            return data[self.topic_at : self.topic_end].decode("ascii")
        if self.topic_id_at < 0:
            return None
        if self._by_id is None:
            self._by_id = self._names()
        return self._by_id.get(read_uuid(data, self.topic_id_at)[0])


def regular_text(
    key: int,
    version: int,
    data: bytes,
    is_response: bool,
    names: Names,
    limit: i64,
    unpacking: Unpacking,
) -> str | None:
    """A body as JSON text, as `body_json` of `full_body` gives it without payload.

    None where it is not regular, and nothing is spent. The arguments are those of `full_body`;
    `names` returns its names, and is called once, if there are records in a topic with an id.
    """
    try:
        offset: i64
        if is_response:
            offset = response_body_offset(key, version, data)
            version = response_layout_version(key, version, data)
        else:
            header = read_request_header(data)
            key, version, offset = header.api_key, header.api_version, header.body_offset
        writer = writer_of(key, version, is_response)
        if writer is None:
            return None
        if key not in WITH_RECORDS:
            out = JsonOutput(limit)
            return text_of(out) if writer.write(data, offset, out) == len(data) else None
        # Decoders of records spend the open budget.
        with spending(limit) as value_budget:
            budget = unpacking.shown_budget(len(data))
            opener = Opener({}, budget, unpacking.limit, with_sizes)
            out = BodyOutput(opener, names, value_budget)
            text = text_of(out) if writer.write(data, offset, out) == len(data) else None
        if text is not None:
            unpacking.settle(budget)
    except DecodeError:
        return None
    return text


def text_of(out: JsonOutput) -> str | None:
    """The text; None where its values would not have had room.

    They are spent in another order than where they are decoded.
    """
    return out.text.getvalue().decode() if out.left >= 0 else None


def writer_of(key: int, version: int, is_response: bool) -> StructWriter | None:
    """The writer of a layout; None for one whose bodies are never regular. Raises UnknownApi."""
    asked = (key, version, is_response)
    if asked not in _known:
        _known[asked] = _made(key, version, is_response)
    return _known[asked]


def _made(key: int, version: int, is_response: bool) -> StructWriter | None:
    side = RESPONSE if is_response else REQUEST
    layout = api_readers(key, version, side, b"")[0]
    place = (find_api(key).name, side)
    has_secrets = place in listed() and place not in only_records()
    if key in OPENED or has_secrets or layout.releases:
        return None
    maker = _Maker(version, version in layout.spec.flexible, key in WITH_RECORDS)
    enums = enum_fields().get(place, NO_ENUMS)
    made = maker.struct(layout.spec.fields, layout.reader, enums)
    return made if maker.is_regular else None


class _Maker:
    """Makes the writers of a layout, beside its readers; not `is_regular` where one is missing."""

    def __init__(self, version: int, is_flexible: bool, has_records: bool) -> None:
        self.version = version
        self.is_flexible = is_flexible
        self.has_records = has_records
        self.is_regular = True

    def struct(
        self, fields: tuple[FieldSpec, ...], reader: StructReader, enums: EnumFields
    ) -> StructWriter:
        starts: list[bytes] = []
        writers: list[JsonWriter] = []
        tag_starts: dict[int, bytes] = {}
        tag_fields: dict[int, JsonWriter] = {}
        for field in fields:
            if self.version not in field.versions:
                continue
            name = snake_case(field.name)
            start = f'"{name}": '.encode()
            if self.version in field.tagged:
                tag_starts[field.tag] = b", " + start
                tag_fields[field.tag] = self.field(field, reader.tag_fields[field.tag], enums)
            else:
                starts.append(b", " + start if starts else start)
                writers.append(self.field(field, reader.fields[len(writers)], enums))
        return StructWriter(
            starts, writers, self.is_flexible, tag_starts, tag_fields, reader.size_of_dict
        )

    def field(self, field: FieldSpec, reader: object, enums: EnumFields) -> JsonWriter:
        """The writer of any field, as `layouts.field_reader` has its reader."""
        name = snake_case(field.name)
        enum = enums.enums.get(name, "")
        inner = enums.structs.get(name, NO_ENUMS)
        may_be_null = self.version in field.nullable
        is_compact = self.is_flexible and not field.is_inflexible
        if field.is_array:
            assert isinstance(reader, ArrayReader)  # noqa: S101
            self.is_regular &= not enum
            if field.is_struct:
                assert isinstance(reader.element, StructReader)  # noqa: S101
                element: JsonWriter = self.struct(field.fields, reader.element, inner)
            else:
                element = self.primitive(field.type, name, "", False, is_compact)
            return ArrayWriter(element, reader.element.min_size, is_compact, may_be_null)
        if not field.is_struct:
            return self.primitive(field.type, name, enum, may_be_null, is_compact)
        struct = reader.struct if isinstance(reader, NullableStructReader) else reader
        assert isinstance(struct, StructReader)  # noqa: S101
        made = self.struct(field.fields, struct, inner)
        if may_be_null:
            return NullableStructWriter(made, self.version in field.tagged)
        return made

    def primitive(
        self, kind: str, name: str, enum: str, may_be_null: bool, is_compact: bool
    ) -> JsonWriter:
        if kind in INTEGERS:
            size, is_signed = INTEGERS[kind]
            if enum.endswith(BITS):
                return BitsWriter(IntegerWriter(size, is_signed))
            return IntegerWriter(size, is_signed, name_texts(name, enum) if enum else None)
        self.is_regular &= not enum
        if kind == "bool":
            return BoolWriter()
        if kind == "uuid":
            return UuidWriter(ID_OF_TOPIC if name == "topic_id" else 0)
        if kind == "string":
            role = NAME_OF_TOPIC if name in ("topic", "name") else 0
            return TextWriter(is_compact, may_be_null, role)
        if kind == "float64":
            self.is_regular = False
            return JsonWriter()
        is_opened_field = self.has_records and name in RECORDS_FIELDS
        empty = b"[]" if is_opened_field else b'""'
        # Those of snapshots depend on where they begin.
        return BlobWriter(is_compact, may_be_null, empty, is_opened_field and name == RECORDS)


def name_texts(name: str, enum: str) -> dict[int, bytes]:
    """The field that follows an enumerated number, by its value."""
    names = enum_values(enum).items()
    return {value: f', "{name}_name": {json.dumps(text)}'.encode() for value, text in names}
