"""Readers of message bodies: a tree of them is one layout (see `plans`), built once and kept.

    read(data, offset)           → value, next offset     every field, as plain Python values
    skip(data, offset)           → next offset            bounds checked, nothing built
    project(data, offset, sink)  → next offset            only fields somebody asked for

All three end at the same offset; `skip` and `project` do not look into tags nobody asked for, so
they may pass what `read` refuses. Offsets count from the start of `data`, whose end is the end of
the message. Errors get their path while they unwind.

    struct   = field*, tags in flexible versions
    tags     = varint count, count * { varint tag, varint size, size bytes }
    array    = int32 count, element*      compact: varint count + 1        -1 or 0: null
"""

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

from kdissect.errors import DecodeError, InvalidValue, Truncated
from kdissect.protocol.primitives import (
    check_offset,
    read_bool,
    read_bytes,
    read_compact_bytes,
    read_compact_length,
    read_compact_string,
    read_float64,
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    read_length16,
    read_length32,
    read_string,
    read_uint16,
    read_uint32,
    read_unsigned_varint,
    read_uuid,
    truncated,
)

NULL: Final[i64] = -(1 << 63)
VARIABLE: Final = -1  # fixed_size of what has none
FIRST_SLOTS: Final = 64


class Shape:
    """A struct of a layout that gives rows: what `Sink.row` is told.

    `path` is like ``responses[].partitions[]``, "" for the body. `slots` and `names` are indexed by
    role number: the slot of the role's value and the snake_case name of the field, 0 and "" for
    roles that the struct does not have.
    """

    __slots__ = ("kind", "path", "slots", "names")

    def __init__(self, kind: i64, path: str, slots: list[int], names: list[str]) -> None:
        self.kind = kind
        self.path = path
        self.slots = slots
        self.names = names


@mypyc_attr(allow_interpreted_subclasses=True)
class Sink:
    """Receives a projected decode: values in `slots`, and a call of `row` at the end of structs.

    Slot 0 is always NULL. Integers and bools are stored as they are; strings, bytes and records as
    span ``offset << 32 | length``; uuid and float64 as their offset; counted arrays as their
    count. Null is NULL.
    """

    def __init__(self) -> None:
        self.slots: vec[i64] = vec[i64]([NULL] * FIRST_SLOTS)

    def row(self, shape: Shape, data: bytes) -> None:
        """The struct of `shape` has been read; its values are in the slots. Ignored here."""


class Reader:
    """Reads one type. `min_size` bytes at least, always `fixed_size` unless that is VARIABLE.

    This one is of a type that takes no bytes and has no value.
    """

    def __init__(self, min_size: i64 = 0, fixed_size: i64 = VARIABLE) -> None:
        self.min_size = min_size
        self.fixed_size = fixed_size

    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        """The value at `offset` and the offset behind it."""
        return None, offset

    def skip(self, data: bytes, offset: i64) -> i64:
        """The offset behind the value at `offset`."""
        return offset

    def project(self, data: bytes, offset: i64, sink: Sink) -> i64:
        """As `skip`, after giving what was asked for to `sink`; nothing unless overridden."""
        return self.skip(data, offset)


class FixedReader(Reader):
    """A type of one size, whatever its value."""

    def __init__(self, size: i64) -> None:
        super().__init__(size, size)

    def skip(self, data: bytes, offset: i64) -> i64:
        check_offset(data, offset, self.fixed_size, "value")
        return offset + self.fixed_size


class BoolReader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_bool(data, offset)


class Int8Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_int8(data, offset)


class Int16Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_int16(data, offset)


class Uint16Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_uint16(data, offset)


class Int32Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_int32(data, offset)


class Uint32Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_uint32(data, offset)


class Int64Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_int64(data, offset)


class Float64Reader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_float64(data, offset)


class UuidReader(FixedReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_uuid(data, offset)


class FixedRun(FixedReader):
    """Fields of fixed size one after the other, skipped with one bounds check."""

    def __init__(self, names: list[str], sizes: list[int]) -> None:
        total: i64 = 0
        for size in sizes:
            total += i64(size)
        super().__init__(total)
        self.names = names
        self.sizes = sizes

    def skip(self, data: bytes, offset: i64) -> i64:
        end = offset + self.fixed_size
        if end > len(data):
            raise self.truncated(data, offset)
        return end

    def truncated(self, data: bytes, offset: i64) -> DecodeError:
        """The error at the first field that does not fit."""
        index = 0
        while index < len(self.sizes) - 1 and offset + i64(self.sizes[index]) <= len(data):
            offset += i64(self.sizes[index])
            index += 1
        return truncated(data, offset, i64(self.sizes[index]), "value").within(self.names[index])


class StringReader(Reader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_string(data, offset)

    def skip(self, data: bytes, offset: i64) -> i64:
        length, start = read_length16(data, offset)
        return start + length if length > 0 else start


class BytesReader(Reader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_bytes(data, offset)

    def skip(self, data: bytes, offset: i64) -> i64:
        length, start = read_length32(data, offset)
        return start + length if length > 0 else start


class CompactReader(Reader):
    """Compact strings, bytes and records, as far as only their extent matters."""

    def skip(self, data: bytes, offset: i64) -> i64:
        length, start = read_compact_length(data, offset)
        return start + length if length > 0 else start


class CompactStringReader(CompactReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_compact_string(data, offset)


class CompactBytesReader(CompactReader):
    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return read_compact_bytes(data, offset)


def read_count(data: bytes, offset: i64, is_compact: bool, min_size: i64) -> tuple[i64, i64]:
    """The count of an array, -1 for null, and the offset of its first element.

    The count may say up to 2^32 - 2 elements; it is believed only when as many of `min_size` bytes
    are left, before anything is allocated.
    """
    if is_compact:
        raw, start = read_unsigned_varint(data, offset)
        count = raw - 1
    else:
        count, start = read_int32(data, offset)
        if count < -1:
            raise InvalidValue(f"count {count}", offset=offset, data=data, length=4)
    left = len(data) - start
    # At most 2^32 * 2^31: no overflow.
    if count > 0 and count * min_size > left:
        raise Truncated(
            f"{count} elements take at least {count * min_size} bytes, only {left} left",
            offset=offset,
            data=data,
            length=start - offset,
        )
    return count, start


class ArrayReader(Reader):
    """An array; its elements take at least one byte each."""

    def __init__(self, element: Reader, is_compact: bool) -> None:
        super().__init__(1 if is_compact else 4)
        self.element = element
        self.is_compact = is_compact

    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        count, offset = read_count(data, offset, self.is_compact, self.element.min_size)
        if count < 0:
            return None, offset
        element = self.element
        values: list[object] = []
        index: i64 = 0
        try:
            while index < count:
                value, offset = element.read(data, offset)
                values.append(value)
                index += 1
        except DecodeError as error:
            error.within(f"[{index}]")
            raise
        return values, offset

    def skip(self, data: bytes, offset: i64) -> i64:
        element = self.element
        count, offset = read_count(data, offset, self.is_compact, element.min_size)
        if count <= 0:
            return offset
        if element.fixed_size >= 0:
            return offset + count * element.fixed_size
        index: i64 = 0
        try:
            while index < count:
                offset = element.skip(data, offset)
                index += 1
        except DecodeError as error:
            error.within(f"[{index}]")
            raise
        return offset


def read_tag(data: bytes, offset: i64) -> tuple[i64, i64, i64]:
    """Tag number, offset of its bytes and offset behind them, which is not past the end."""
    tag, at = read_unsigned_varint(data, offset)
    size, start = read_unsigned_varint(data, at)
    if size > len(data) - start:
        raise Truncated(
            f"tag {tag} takes {size} bytes, only {len(data) - start} left",
            offset=at,
            data=data,
            length=start - at,
        )
    return tag, start, start + size


def check_tag_end(data: bytes, tag: i64, offset: i64, end: i64) -> None:
    """Raise InvalidValue unless a tag's field ended where its size says."""
    if offset != end:
        raise InvalidValue(
            f"tag {tag} ends at byte {end}, its field at byte {offset}", offset=offset, data=data
        )


def skip_tags(data: bytes, offset: i64) -> i64:
    """The offset behind a tag section; no tag is looked into."""
    # Nearly always there are no tags at all.
    if 0 <= offset < len(data) and data[offset] == 0:
        return offset + 1
    count, offset = read_unsigned_varint(data, offset)
    while count > 0:
        _, _, offset = read_tag(data, offset)
        count -= 1
    return offset


class StructReader(Reader):
    """A struct: `fields` by `names` in wire order, then, when flexible, a tag section.

    A tag that is not in `tag_fields` is kept as bytes under ``unknown_tags``, by its number.
    """

    def __init__(
        self,
        names: list[str],
        fields: list[Reader],
        is_flexible: bool,
        tag_names: dict[int, str],
        tag_fields: dict[int, Reader],
    ) -> None:
        min_size: i64 = 1 if is_flexible else 0
        is_fixed = not is_flexible
        for field in fields:
            min_size += field.min_size
            is_fixed = is_fixed and field.fixed_size >= 0
        super().__init__(min_size, min_size if is_fixed else VARIABLE)
        self.names = names
        self.fields = fields
        self.is_flexible = is_flexible
        self.tag_names = tag_names
        self.tag_fields = tag_fields
        # What `skip` walks: runs of fixed fields merged. The name of a run is in the run.
        self.step_names, self.steps = merge_runs(names, fields)

    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        values: dict[str, object] = {}
        index = 0
        try:
            for field in self.fields:
                value, offset = field.read(data, offset)
                values[self.names[index]] = value
                index += 1
        except DecodeError as error:
            error.within(self.names[index])
            raise
        if self.is_flexible:
            offset = self._read_tags(data, offset, values)
        return values, offset

    def _read_tags(self, data: bytes, offset: i64, values: dict[str, object]) -> i64:
        count, offset = read_unsigned_varint(data, offset)
        unknown: dict[int, bytes] = {}
        while count > 0:
            tag, offset, end = read_tag(data, offset)
            field = self.tag_fields.get(tag)
            if field is None:
                unknown[tag] = data[offset:end]
            else:
                name = self.tag_names[tag]
                try:
                    value, offset = field.read(data, offset)
                    check_tag_end(data, tag, offset, end)
                except DecodeError as error:
                    error.within(name)
                    raise
                values[name] = value
            offset = end
            count -= 1
        if unknown:
            values["unknown_tags"] = unknown
        return offset

    def skip(self, data: bytes, offset: i64) -> i64:
        index = 0
        try:
            for step in self.steps:
                offset = step.skip(data, offset)
                index += 1
        except DecodeError as error:
            if self.step_names[index]:
                error.within(self.step_names[index])
            raise
        return skip_tags(data, offset) if self.is_flexible else offset


def merge_runs(names: list[str], fields: list[Reader]) -> tuple[list[str], list[Reader]]:
    """The fields with neighbours of fixed size merged into runs, which are named ""."""
    step_names: list[str] = []
    steps: list[Reader] = []
    run_names: list[str] = []
    run_sizes: list[int] = []
    for index in range(len(fields)):
        field = fields[index]
        if field.fixed_size >= 0:
            run_names.append(names[index])
            run_sizes.append(field.fixed_size)
            continue
        if run_names:
            step_names.append("")
            steps.append(FixedRun(run_names, run_sizes))
            run_names, run_sizes = [], []
        step_names.append(names[index])
        steps.append(field)
    if run_names:
        step_names.append("")
        steps.append(FixedRun(run_names, run_sizes))
    return step_names, steps


def is_null_struct(data: bytes, offset: i64, is_tagged: bool) -> tuple[bool, i64]:
    """Whether a nullable struct is null: an int8 below 0, in a tag a varint 0."""
    if is_tagged:
        flag, offset = read_unsigned_varint(data, offset)
        return flag == 0, offset
    flag, offset = read_int8(data, offset)
    return flag < 0, offset


class NullableStructReader(Reader):
    """A struct that may be null, told by what stands before it."""

    def __init__(self, struct: Reader, is_tagged: bool) -> None:
        super().__init__(1)
        self.struct = struct
        self.is_tagged = is_tagged

    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        is_null, offset = is_null_struct(data, offset, self.is_tagged)
        if is_null:
            return None, offset
        return self.struct.read(data, offset)

    def skip(self, data: bytes, offset: i64) -> i64:
        is_null, offset = is_null_struct(data, offset, self.is_tagged)
        return offset if is_null else self.struct.skip(data, offset)
