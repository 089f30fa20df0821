"""Nulls in non-nullable fields: written by old clients, accepted by decoders, found here.

`has_null` checks decoded values, which is cheap and mostly sufficient; `null_places` walks the
bytes again for paths and offsets, only if there is a null.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from mypy_extensions import i64

from kdissect.errors import DecodeError
from kdissect.protocol.layouts import primitive_reader
from kdissect.protocol.primitives import read_unsigned_varint
from kdissect.protocol.specs import FieldSpec, snake_case
from kdissect.protocol.structures import is_null_struct, read_count, read_tag

PLACES_LIMIT: Final = 100  # per body: hostile ones may have a null in every other byte


class Required(NamedTuple):
    """Non-nullable parts of a struct of one version: fields, elements of arrays, inner structs.

    Structs in which everything is nullable are not in `structs`.
    """

    fields: tuple[str, ...]
    arrays: tuple[str, ...]
    structs: tuple[tuple[str, "Required"], ...]


def has_null(required: Required, values: dict[str, Any]) -> bool:
    """Return whether the decoded struct `values` has a null in a non-nullable place."""
    for name in required.fields:
        if values.get(name, 0) is None:
            return True
    for name in required.arrays:
        if None in (values.get(name) or ()):
            return True
    for name, inner in required.structs:
        value = values.get(name)
        if isinstance(value, list):
            for item in value:
                if item is not None and has_null(inner, item):
                    return True
        elif value is not None and has_null(inner, value):
            return True
    return False


def required_of(fields: tuple[FieldSpec, ...], version: int) -> Required:
    """Non-nullable parts of a struct of these fields."""
    names: list[str] = []
    arrays: list[str] = []
    structs: list[tuple[str, Required]] = []
    for field in fields:
        if version not in field.versions:
            continue
        name = snake_case(field.name)
        if version not in field.nullable and (field.is_array or is_text(field)):
            names.append(name)
        if field.is_array and is_text(field):
            arrays.append(name)
        if field.is_struct:
            inner = required_of(field.fields, version)
            if any(inner):
                structs.append((name, inner))
    return Required(tuple(names), tuple(arrays), tuple(structs))


def null_places(
    fields: tuple[FieldSpec, ...], version: int, is_flexible: bool, data: bytes, offset: int
) -> list[dict[str, Any]]:
    """``{"path": "topics[0].name", "offset": 12}`` of each unexpected null of a struct at `offset`.

    Stops where the bytes are not such a struct; at most PLACES_LIMIT.
    """
    finder = _NullFinder(version, is_flexible, data)
    with suppress(DecodeError):
        finder.struct(fields, offset, "")
    return finder.places


def is_text(field: FieldSpec) -> bool:
    """Return whether a field or its elements have a length, so null can be encoded."""
    return field.type in ("string", "bytes", "records")


class _NullFinder:
    """Walks the bytes of one layout; every method returns the offset after its value."""

    def __init__(self, version: int, is_flexible: bool, data: bytes) -> None:
        self.version = version
        self.is_flexible = is_flexible
        self.data = data
        self.places: list[dict[str, Any]] = []

    def struct(self, fields: tuple[FieldSpec, ...], offset: int, path: str) -> int:
        tagged: dict[int, FieldSpec] = {}
        for field in fields:
            if self.version in field.tagged:
                tagged[field.tag] = field
            elif self.version in field.versions:
                offset = self.field(field, offset, path)
        if self.is_flexible:
            for tag, start, end in self.tags(offset):
                if tag in tagged:
                    self.field(tagged[tag], start, path)
                offset = end
        return offset

    def tags(self, offset: int) -> Iterator[tuple[int, int, int]]:
        """Number, start and end of each tag; finally an invalid tag for the end of the section."""
        count, offset = read_unsigned_varint(self.data, offset)
        for _ in range(count):
            tag, start, offset = read_tag(self.data, offset)
            yield int(tag), int(start), int(offset)
        yield -1, int(offset), int(offset)

    def field(self, field: FieldSpec, offset: int, path: str) -> int:
        path = f"{path}.{snake_case(field.name)}" if path else snake_case(field.name)
        may_be_null = self.version in field.nullable
        if field.is_array:
            return self.array(field, offset, path, may_be_null)
        if not field.is_struct:
            return self.primitive(field, offset, path, may_be_null)
        if may_be_null:
            is_null, offset = is_null_struct(self.data, offset, self.version in field.tagged)
            if is_null:
                return offset
        return self.struct(field.fields, offset, path)

    def array(self, field: FieldSpec, offset: int, path: str, may_be_null: bool) -> int:
        is_compact = self.is_flexible and not field.is_inflexible
        count, start = read_count(self.data, offset, is_compact, 1)
        if count < 0 and not may_be_null:
            self.found(path, offset)
        for index in range(count):
            element = f"{path}[{index}]"
            if field.is_struct:
                start = self.struct(field.fields, start, element)
            else:
                start = self.primitive(field, start, element, False)
        return start

    def primitive(self, field: FieldSpec, offset: int, path: str, may_be_null: bool) -> int:
        reader = primitive_reader(field.type, self.is_flexible and not field.is_inflexible)
        value, end = reader.read(self.data, offset)
        if value is None and not may_be_null:
            self.found(path, offset)
        return end

    def found(self, path: str, offset: i64) -> None:
        if len(self.places) < PLACES_LIMIT:
            self.places.append({"path": path, "offset": int(offset)})
