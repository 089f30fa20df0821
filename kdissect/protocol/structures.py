"""Readers of arrays and structs.

struct   = field*, tags in flexible versions
tags     = varint count, count * { varint tag, varint size, size bytes }
array    = int32 count, element*      compact: varint count + 1        -1 or 0: null

Longer than other modules: a reader for each kind of array and struct, with its skip.
"""

import sys
from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from kdissect.errors import DecodeError, InvalidValue, Truncated
from kdissect.protocol.primitives import read_int8, read_int32, read_unsigned_varint, truncated
from kdissect.protocol.readers import (
    FAILED,
    VALUE_BYTES,
    VARIABLE,
    FixedReader,
    Reader,
    ValueBudget,
)

# Approximate bytes of memory.
COLLECTED_BYTES: Final = 16  # before each dict and list, for the cycle collector
LIST_BYTES: Final = 120  # of an empty one that has room for its first 8
TAG_BYTES: Final = 192  # of an unknown tag: its number, empty bytes, and a place in a dict


def read_count(data: bytes, offset: i64, is_compact: bool, min_size: i64) -> tuple[i64, i64]:
    """The count of an array, -1 for null, and the offset of its first element.

    The count may be up to 2^32 - 2 elements; it is checked, before any allocation, that as many
    elements of `min_size` bytes are left.
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
            needed=start + count * min_size,
        )
    return count, start


class ArrayReader(Reader):
    """Array whose elements take at least one byte each."""

    def __init__(self, element: Reader, is_compact: bool) -> None:
        super().__init__(1 if is_compact else 4)
        self.element = element
        self.is_compact = is_compact

    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return self.read_within(data, offset, ValueBudget())

    def read_within(self, data: bytes, offset: i64, budget: ValueBudget) -> tuple[object, i64]:
        count, offset = read_count(data, offset, self.is_compact, self.element.min_size)
        if count < 0:
            budget.left -= VALUE_BYTES
            return None, offset
        budget.left -= LIST_BYTES
        element = self.element
        values: list[object] = []
        index: i64 = 0
        try:
            while index < count and budget.left >= 0:
                before = budget.left_out
                value, offset = element.read_within(data, offset, budget)
                values.append(value)
                if before == 0 and budget.left_out > 0:
                    budget.within(f"[{index}]")
                index += 1
            if index < count:
                budget.leave_out(count - index, f"[{index}]")
                if element.fixed_size >= 0:
                    offset += (count - index) * element.fixed_size
                    index = count
            # The others must be valid all the same.
            while index < count:
                offset = element.skip(data, offset)
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
        # Of fixed fields and no tags: nearly all elements of flexible versions.
        run_size: i64 = element.run_size if isinstance(element, StructReader) else VARIABLE
        size: i64 = len(data)
        index: i64 = 0
        try:
            while index < count:
                at = offset + run_size
                if run_size >= 0 and at < size and data[at] == 0:
                    offset = at + 1
                else:
                    offset = element.skip(data, offset)
                index += 1
        except DecodeError as error:
            error.within(f"[{index}]")
            raise
        return offset

    def end_of(self, data: bytes, offset: i64) -> i64:
        element = self.element
        size: i64 = len(data)
        count: i64 = 0
        if not self.is_compact:
            if offset + 4 > size:
                return FAILED
            count = i64(read_i32_be(data, offset))
            offset += 4
        elif offset < size and data[offset] < 128:
            count = i64(data[offset]) - 1
            offset += 1
        else:
            return super().end_of(data, offset)
        if count < -1 or (count > 0 and count * element.min_size > size - offset):
            return FAILED
        if count > 0 and element.fixed_size >= 0:
            return offset + count * element.fixed_size
        while count > 0 and offset != FAILED:
            offset = element.end_of(data, offset)
            count -= 1
        return offset


def read_tag(data: bytes, offset: i64) -> tuple[i64, i64, i64]:
    """Tag number, offset of its bytes and offset after them, which is not past the end."""
    tag, at = read_unsigned_varint(data, offset)
    size, start = read_unsigned_varint(data, at)
    if size > len(data) - start:
        raise Truncated(
            f"tag {tag} takes {size} bytes, only {len(data) - start} left",
            offset=at,
            data=data,
            length=start - at,
            needed=start + size,
        )
    return tag, start, start + size


def check_tag_end(data: bytes, tag: i64, offset: i64, end: i64) -> None:
    """Raise InvalidValue unless a tag's field ended at its declared size."""
    if offset != end:
        raise InvalidValue(
            f"tag {tag} ends at byte {end}, its field at byte {offset}", offset=offset, data=data
        )


def skip_tags(data: bytes, offset: i64) -> i64:
    """Offset after a tag section; tags are not parsed."""
    # Usually there are no tags at all.
    if 0 <= offset < len(data) and data[offset] == 0:
        return offset + 1
    count, offset = read_unsigned_varint(data, offset)
    while count > 0:
        _, _, offset = read_tag(data, offset)
        count -= 1
    return offset


class FixedRun(FixedReader):
    """Consecutive fields of fixed size, skipped with one bounds check."""

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


class StructReader(Reader):
    """A struct: `fields` by `names` in wire order, then, when flexible, a tag section.

    Tags that are not in `tag_fields` are kept as bytes under ``unknown_tags``, by number.
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
        self.size_of_dict: i64 = sys.getsizeof(dict.fromkeys(names)) + COLLECTED_BYTES
        # Used by `skip`: runs of fixed fields merged. The name of a run is in the run.
        self.step_names, self.steps = merge_runs(names, fields)
        # Bytes of all fields where tags follow them at a known distance.
        self.run_size: i64 = VARIABLE
        if is_flexible and len(self.steps) == 1:
            self.run_size = self.steps[0].fixed_size

    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return self.read_within(data, offset, ValueBudget())

    def read_within(self, data: bytes, offset: i64, budget: ValueBudget) -> tuple[object, i64]:
        budget.left -= self.size_of_dict
        values: dict[str, object] = {}
        index = 0
        try:
            for field in self.fields:
                before = budget.left_out
                value, offset = field.read_within(data, offset, budget)
                values[self.names[index]] = value
                if before == 0 and budget.left_out > 0:
                    budget.within(self.names[index])
                index += 1
        except DecodeError as error:
            error.within(self.names[index])
            raise
        if self.is_flexible:
            offset = self._read_tags(data, offset, values, budget)
        return values, offset

    def _read_tags(
        self, data: bytes, offset: i64, values: dict[str, object], budget: ValueBudget
    ) -> i64:
        count, offset = read_unsigned_varint(data, offset)
        unknown: dict[int, bytes] = {}
        while count > 0:
            tag, offset, end = read_tag(data, offset)
            field = self.tag_fields.get(tag)
            if field is not None:
                self._read_tag_field(field, tag, data, offset, end, values, budget)
            elif budget.left < 0:
                budget.leave_out(1, f"unknown_tags[{tag}]")
            else:
                budget.left -= TAG_BYTES
                unknown[tag] = data[offset:end]
            offset = end
            count -= 1
        if unknown:
            values["unknown_tags"] = unknown
        return offset

    def _read_tag_field(
        self,
        field: Reader,
        tag: i64,
        data: bytes,
        offset: i64,
        end: i64,
        values: dict[str, object],
        budget: ValueBudget,
    ) -> None:
        """Read the field of a tag, up to `end`."""
        name = self.tag_names[tag]
        before = budget.left_out
        try:
            value, offset = field.read_within(data, offset, budget)
            check_tag_end(data, tag, offset, end)
        except DecodeError as error:
            error.within(name)
            raise
        values[name] = value
        if before == 0 and budget.left_out > 0:
            budget.within(name)

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

    def end_of(self, data: bytes, offset: i64) -> i64:
        for step in self.steps:
            offset = step.end_of(data, offset)
            if offset == FAILED:
                return FAILED
        if not self.is_flexible:
            return offset
        if offset < len(data) and data[offset] == 0:
            return offset + 1
        try:
            return skip_tags(data, offset)
        except DecodeError:
            return FAILED


def merge_runs(names: list[str], fields: list[Reader]) -> tuple[list[str], list[Reader]]:
    """Merge neighbouring fields of fixed size into runs, which are named ""."""
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
    """Return whether a nullable struct is null: an int8 below 0, in a tag a varint 0."""
    if is_tagged:
        flag, offset = read_unsigned_varint(data, offset)
        return flag == 0, offset
    flag, offset = read_int8(data, offset)
    return flag < 0, offset


class NullableStructReader(Reader):
    """Struct that may be null, as shown by the byte before it."""

    def __init__(self, struct: Reader, is_tagged: bool) -> None:
        super().__init__(1)
        self.struct = struct
        self.is_tagged = is_tagged

    def read(self, data: bytes, offset: i64) -> tuple[object, i64]:
        return self.read_within(data, offset, ValueBudget())

    def read_within(self, data: bytes, offset: i64, budget: ValueBudget) -> tuple[object, i64]:
        is_null, offset = is_null_struct(data, offset, self.is_tagged)
        if is_null:
            return None, offset
        return self.struct.read_within(data, offset, budget)

    def skip(self, data: bytes, offset: i64) -> i64:
        is_null, offset = is_null_struct(data, offset, self.is_tagged)
        return offset if is_null else self.struct.skip(data, offset)
