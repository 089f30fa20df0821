"""Readers whose `project` passes fields to a Sink; `read` and `skip` are as in the plain reader.

One tree of these is the projected decode of one layout. Fields not requested are plain readers in
it, whose `project` is their `skip`.
"""

from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from librt.vecs import append, vec
from mypy_extensions import i64

from kdissect.errors import DecodeError
from kdissect.protocol.primitives import (
    read_compact_length,
    read_length16,
    read_length32,
    read_unsigned_varint,
)
from kdissect.protocol.readers import NULL, Reader, Shape, Sink, packed
from kdissect.protocol.structures import (
    ArrayReader,
    FixedRun,
    NullableStructReader,
    StructReader,
    check_tag_end,
    is_null_struct,
    read_count,
    read_tag,
    skip_tags,
)

# Conversions of a kept field of fixed size to an integer.
AS_BOOL: Final = 0
AS_INT8: Final = 1
AS_INT16: Final = 2
AS_UINT16: Final = 3
AS_INT32: Final = 4
AS_UINT32: Final = 5
AS_INT64: Final = 6
AS_OFFSET: Final = 7
HOW: Final = {
    "bool": AS_BOOL, "int8": AS_INT8, "int16": AS_INT16, "uint16": AS_UINT16, "int32": AS_INT32,
    "uint32": AS_UINT32, "int64": AS_INT64, "uuid": AS_OFFSET, "float64": AS_OFFSET,
}  # fmt: skip


class KeptRun(FixedRun):
    """Consecutive fields of fixed size, some of them kept."""

    def __init__(self, names: list[str], sizes: list[int]) -> None:
        super().__init__(names, sizes)
        self.places = vec[i64]()
        self.hows = vec[i64]()
        self.slots = vec[i64]()

    def keep(self, place: int, how: int, slot: int) -> None:
        """Keep the field `place` bytes from the start in `slot`; `how` is one of the AS_."""
        self.places = append(self.places, place)
        self.hows = append(self.hows, how)
        self.slots = append(self.slots, slot)

    def place_of(self, slot: i64) -> i64:
        """Bytes from the start to the field that is kept in `slot`; NULL if none is."""
        index: i64 = 0
        while index < len(self.slots):
            if self.slots[index] == slot:
                return self.places[index]
            index += 1
        return NULL

    def project(self, data: bytes, offset: i64, sink: Sink) -> i64:
        end = offset + self.fixed_size
        # After this no read below can exceed the data, and offsets are never negative.
        if end > len(data):
            raise self.truncated(data, offset)
        places = self.places
        hows = self.hows
        slots = self.slots
        kept = sink.slots
        index: i64 = 0
        while index < len(slots):
            kept[slots[index]] = fixed_value(data, offset + places[index], hows[index])
            index += 1
        return end


def fixed_value(data: bytes, offset: i64, how: i64) -> i64:
    """Bytes at `offset`, which must exist, as an integer; `how` is one of the AS_."""
    if how == AS_INT32:
        return i64(read_i32_be(data, offset))
    if how == AS_INT64:
        return read_i64_be(data, offset)
    if how == AS_INT16:
        return i64(read_i16_be(data, offset))
    if how == AS_OFFSET:
        return offset
    if how == AS_UINT32:
        return i64(read_i32_be(data, offset)) & 0xFFFFFFFF
    if how == AS_UINT16:
        return i64(read_i16_be(data, offset)) & 0xFFFF
    byte: i64 = data[offset]
    if how == AS_BOOL:
        return 1 if byte != 0 else 0
    return byte - 256 if byte > 127 else byte


class KeptReader(Reader):
    """Keeps the extent of a string, bytes or records; the plain reader reads and skips."""

    def __init__(self, plain: Reader, slot: i64) -> None:
        super().__init__(plain.min_size, plain.fixed_size)
        self.plain = plain
        self.slot = slot

    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return self.plain.read(data, offset)

    def skip(self, data: bytes, offset: i64) -> i64:
        return self.plain.skip(data, offset)


def keep_span(sink: Sink, slot: i64, start: i64, length: i64) -> i64:
    """Store a span, or NULL for the length -1; return the offset after it."""
    if length < 0:
        sink.slots[slot] = NULL
        return start
    # start is below 2^31, as frames are not longer: the shift cannot overflow.
    sink.slots[slot] = start << 32 | length
    return start + length


class KeptString(KeptReader):
    def project(self, data: bytes, offset: i64, sink: Sink) -> i64:
        length, start = read_length16(data, offset)
        return keep_span(sink, self.slot, start, length)


class KeptBytes(KeptReader):
    def project(self, data: bytes, offset: i64, sink: Sink) -> i64:
        length, start = read_length32(data, offset)
        return keep_span(sink, self.slot, start, length)


class KeptCompact(KeptReader):
    def project(self, data: bytes, offset: i64, sink: Sink) -> i64:
        length, start = read_compact_length(data, offset)
        return keep_span(sink, self.slot, start, length)


class ProjectedArray(ArrayReader):
    """Array whose count is kept in `count_slot` (0: not), or whose elements are projected."""

    def __init__(self, plain: ArrayReader, element: Reader, count_slot: i64) -> None:
        super().__init__(plain.element, plain.is_compact)
        self.projected = element
        self.count_slot = count_slot

    def project(self, data: bytes, offset: i64, sink: Sink) -> i64:
        element = self.projected
        count, offset = read_count(data, offset, self.is_compact, element.min_size)
        if self.count_slot != 0:
            sink.slots[self.count_slot] = NULL if count < 0 else count
        index: i64 = 0
        try:
            while index < count:
                offset = element.project(data, offset, sink)
                index += 1
        except DecodeError as error:
            error.within(f"[{index}]")
            raise
        return offset


class CountedArray(ArrayReader):
    """Array that is only counted."""

    def __init__(self, plain: ArrayReader, count_slot: i64) -> None:
        super().__init__(plain.element, plain.is_compact)
        self.count_slot = count_slot

    def project(self, data: bytes, offset: i64, sink: Sink) -> i64:
        count, _ = read_count(data, offset, self.is_compact, self.element.min_size)
        sink.slots[self.count_slot] = NULL if count < 0 else count
        return self.skip(data, offset)


class RowElement(KeptReader):
    """Element of an array of primitives that is kept, with a row for each."""

    def __init__(self, plain: Reader, kept: Reader, shape: Shape) -> None:
        super().__init__(plain, 0)
        self.kept = kept
        self.shape = shape

    def project(self, data: bytes, offset: i64, sink: Sink) -> i64:
        offset = self.kept.project(data, offset, sink)
        sink.row(self.shape, data)
        return offset


class ProjectedStruct(Reader):
    """Struct with requested fields inside; calls `row` at its end if it has a shape.

    `resets` are the slots of values that may be absent from an instance: tagged fields, and
    fields of inner structs that may be null.
    """

    def __init__(
        self,
        plain: StructReader,
        step_names: list[str],
        steps: list[Reader],
        tag_fields: dict[int, Reader],
        resets: list[int],
        shape: Shape | None,
    ) -> None:
        super().__init__(plain.min_size, plain.fixed_size)
        self.plain = plain
        self.step_names = step_names
        self.steps = steps
        self.is_flexible = plain.is_flexible
        self.tag_fields = tag_fields
        self.has_tag_fields = len(tag_fields) > 0
        self.resets = packed(resets)
        self.shape = shape

    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return self.plain.read(data, offset)

    def skip(self, data: bytes, offset: i64) -> i64:
        return self.plain.skip(data, offset)

    def project(self, data: bytes, offset: i64, sink: Sink) -> i64:
        for slot in self.resets:
            sink.slots[slot] = NULL
        index = 0
        try:
            for step in self.steps:
                offset = step.project(data, offset, sink)
                index += 1
        except DecodeError as error:
            if self.step_names[index]:
                error.within(self.step_names[index])
            raise
        if self.is_flexible:
            if self.has_tag_fields:
                offset = self._project_tags(data, offset, sink)
            else:
                offset = skip_tags(data, offset)
        shape = self.shape
        if shape is not None:
            sink.row(shape, data)
        return offset

    def _project_tags(self, data: bytes, offset: i64, sink: Sink) -> i64:
        count, offset = read_unsigned_varint(data, offset)
        while count > 0:
            tag, offset, end = read_tag(data, offset)
            field = self.tag_fields.get(tag)
            if field is not None:
                try:
                    offset = field.project(data, offset, sink)
                    check_tag_end(data, tag, offset, end)
                except DecodeError as error:
                    error.within(self.plain.tag_names[tag])
                    raise
            offset = end
            count -= 1
        return offset


class ProjectedNullable(NullableStructReader):
    """Struct that may be null, with requested fields inside."""

    def project(self, data: bytes, offset: i64, sink: Sink) -> i64:
        is_null, offset = is_null_struct(data, offset, self.is_tagged)
        return offset if is_null else self.struct.project(data, offset, sink)
