"""Build the readers of all fields of a spec in one version."""

from functools import cache

from kdissect.errors import SchemaError, no_layout
from kdissect.protocol.readers import (
    BoolReader,
    BytesReader,
    CompactBytesReader,
    CompactStringReader,
    Float64Reader,
    Int8Reader,
    Int16Reader,
    Int32Reader,
    Int64Reader,
    Reader,
    StringReader,
    Uint16Reader,
    Uint32Reader,
    UuidReader,
)
from kdissect.protocol.specs import FieldSpec, MessageSpec, snake_case
from kdissect.protocol.structures import ArrayReader, NullableStructReader, StructReader

# Readers have no state, and a projection asks for that of a struct once for each struct around it.
# By the identity of the fields, which an entry keeps alive: comparing them would take as long.
_known_structs: dict[tuple[int, int, bool], tuple[tuple[FieldSpec, ...], StructReader]] = {}


def build_reader(spec: MessageSpec, version: int) -> StructReader:
    """The readers of all fields of one version."""
    if version not in spec.versions:
        raise no_layout(spec.name, version)
    return struct_reader(spec.fields, version, version in spec.flexible)


@cache
def primitive_reader(type_name: str, is_compact: bool) -> Reader:
    """Reader of a type of `PRIMITIVES`, which has no state: one for all fields of this type."""
    if type_name == "string":
        return CompactStringReader(1) if is_compact else StringReader(2)
    if type_name in ("bytes", "records"):
        return CompactBytesReader(1) if is_compact else BytesReader(4)
    if type_name == "bool":
        return BoolReader(1)
    if type_name == "int8":
        return Int8Reader(1)
    if type_name == "int16":
        return Int16Reader(2)
    if type_name == "uint16":
        return Uint16Reader(2)
    if type_name == "int32":
        return Int32Reader(4)
    if type_name == "uint32":
        return Uint32Reader(4)
    if type_name == "int64":
        return Int64Reader(8)
    if type_name == "float64":
        return Float64Reader(8)
    return UuidReader(16)


def field_reader(field: FieldSpec, version: int, is_flexible: bool) -> Reader:
    """Reader of any field."""
    if field.is_array:
        return array_reader(field, version, is_flexible)
    if not field.is_struct:
        return primitive_reader(field.type, is_flexible and not field.is_inflexible)
    struct = struct_reader(field.fields, version, is_flexible)
    if version in field.nullable:
        return NullableStructReader(struct, version in field.tagged)
    return struct


def array_reader(field: FieldSpec, version: int, is_flexible: bool) -> ArrayReader:
    """Reader of an array field."""
    element = (
        struct_reader(field.fields, version, is_flexible)
        if field.is_struct
        else primitive_reader(field.type, is_flexible and not field.is_inflexible)
    )
    # The count of such elements would be unbounded.
    if element.min_size == 0:
        raise SchemaError(f"elements of {field.name} v{version} take no bytes")
    return ArrayReader(element, is_flexible and not field.is_inflexible)


def struct_reader(fields: tuple[FieldSpec, ...], version: int, is_flexible: bool) -> StructReader:
    """Reader of a struct of these fields, the same one for the same fields."""
    key = (id(fields), version, is_flexible)
    known = _known_structs.get(key)
    if known is None:
        known = fields, new_struct_reader(fields, version, is_flexible)
        _known_structs[key] = known
    return known[1]


def new_struct_reader(
    fields: tuple[FieldSpec, ...], version: int, is_flexible: bool
) -> StructReader:
    """Make a reader of a struct of these fields."""
    names: list[str] = []
    readers: list[Reader] = []
    tag_names: dict[int, str] = {}
    tag_fields: dict[int, Reader] = {}
    for field in fields:
        if version not in field.versions:
            continue
        reader = field_reader(field, version, is_flexible)
        if version in field.tagged:
            tag_names[field.tag] = snake_case(field.name)
            tag_fields[field.tag] = reader
        else:
            names.append(snake_case(field.name))
            readers.append(reader)
    return StructReader(names, readers, is_flexible, tag_names, tag_fields)
