"""Writes the projected decode of a layout as straight Python code, out of its tree of readers.

Each node of the tree becomes a line or two: a bounds check for each run of fixed fields, values in
local variables, rows given to the sink where their struct ends. The code handles regular input
only: for anything else it returns FAILED or raises DecodeError, and the tree reads the body and
reports errors. Longer than other modules: one generator, a method for each kind of node.
"""

import re
from typing import Final

from kdissect.messages.fast_paths import fast_path_of
from kdissect.protocol.plans import Plan
from kdissect.protocol.projections import (
    AS_BOOL,
    AS_INT8,
    AS_INT16,
    AS_INT32,
    AS_INT64,
    AS_OFFSET,
    AS_UINT16,
    AS_UINT32,
    CountedArray,
    KeptBytes,
    KeptCompact,
    KeptRun,
    KeptString,
    ProjectedArray,
    ProjectedStruct,
    RowElement,
)
from kdissect.protocol.readers import BytesReader, CompactReader, Reader, Shape, StringReader
from kdissect.protocol.structures import ArrayReader, NullableStructReader, StructReader

INDENT: Final = "    "
COMPILED_HEAD: Final = (
    "    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:",
    "        sink = cast(FieldSink, receiver)",
)
INTERPRETED_HEAD: Final = ("    def read(self, data, at, sink):",)
# The expression that reads a value, and the statement that uses it.
READS: Final = {
    AS_BOOL: ("data[{}]", "1 if {} else 0"),
    AS_INT8: ("data[{}]", "({} ^ 0x80) - 0x80"),
    AS_INT16: ("read_i16_be(data, {})", "{}"),
    AS_UINT16: ("read_i16_be(data, {})", "{} & 0xFFFF"),
    AS_INT32: ("read_i32_be(data, {})", "{}"),
    AS_UINT32: ("read_i32_be(data, {})", "{} & 0xFFFFFFFF"),
    AS_INT64: ("read_i64_be(data, {})", "{}"),
    AS_OFFSET: ("{}", "{}"),
}
SIZES: Final = {
    AS_BOOL: 1, AS_INT8: 1, AS_INT16: 2, AS_UINT16: 2, AS_INT32: 4, AS_UINT32: 4, AS_INT64: 8,
}  # fmt: skip


def method_of(plan: Plan, *, is_compiled: bool, has_fast_paths: bool = True) -> tuple[str, ...]:
    """Lines of the method `GeneratedRead.read` of a plan.

    Integers are converted to i64 where the code is to be compiled; fast paths are for a
    `FieldSink`.
    """
    writer = LayoutWriter(plan, is_compiled, has_fast_paths)
    writer.any(plan.reader)
    writer.flush()
    body, slots = without_unused(writer.lines, writer.slots)
    kind = ": i64" if is_compiled else ""
    return (
        *(COMPILED_HEAD if is_compiled else INTERPRETED_HEAD),
        f"        size{kind} = len(data)",
        *[f"        v{slot}{kind} = NULL" for slot in slots],
        *body,
        "        return at if at <= size else FAILED",
    )


def without_unused(lines: list[str], slots: set[int]) -> tuple[list[str], list[int]]:
    """The lines without values that are never used, and the slots that are left."""
    text = "\n".join(lines)
    used = {slot for slot in slots if re.search(rf"\bv{slot}\b(?! = )", text)}
    unused = tuple(f"v{slot} = " for slot in slots - used)
    kept = [line for line in lines if not (unused and line.lstrip().startswith(unused))]
    return kept, sorted(used)


class LayoutWriter:
    """Writes the lines of one method.

    Fixed fields are collected in `run` until something else comes: one bounds check is for all of
    them. Skipped bytes are checked by the next read, or at the end: a skip never goes back.
    """

    def __init__(self, plan: Plan, is_compiled: bool, has_fast_paths: bool) -> None:
        self.shapes = plan.shapes
        self.kinds = 0
        for shape in plan.shapes:
            self.kinds |= int(shape.kind)
        self.is_compiled = is_compiled
        self.has_fast_paths = has_fast_paths
        self.lines: list[str] = []
        self.depth = 2
        self.run: list[tuple[int, int, str]] = []
        self.run_size = 0
        self.counter = 0
        self.slots: set[int] = set()

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def kept(self, slot: int) -> str:
        """The variable of a slot."""
        self.slots.add(slot)
        return f"v{slot}"

    def number(self) -> str:
        """A new variable for a length, count or flag."""
        self.counter += 1
        return f"n{self.counter}"

    def machine_integer(self, text: str) -> str:
        return f"i64({text})" if self.is_compiled else text

    # Fixed fields

    def field(self, how: int, target: str) -> None:
        """Read one value; `how` is one of the AS_."""
        self.run.append((self.run_size, how, target))
        self.run_size += SIZES[how]

    def flush(self) -> None:
        """Write the reads of the collected fields."""
        if self.run:
            self.line(f"if at + {self.run_size} > size:")
            self.line("    return FAILED")
        for place, how, target in self.run:
            read, then = READS[how]
            value = self.machine_integer(read.format(f"at + {place}" if place else "at"))
            self.line(f"{target} = {then.format(value)}")
        if self.run_size:
            self.line(f"at += {self.run_size}")
        self.run, self.run_size = [], 0

    def kept_run(self, run: KeptRun) -> None:
        start = self.run_size
        for index in range(len(run.slots)):
            place, how = int(run.places[index]), int(run.hows[index])
            self.run.append((start + place, how, self.kept(int(run.slots[index]))))
        self.run_size = start + int(run.fixed_size)

    # Strings, bytes, records

    def sized(self, how: int, slot: int) -> None:
        """Read a length and as many bytes, kept in a slot unless that is 0."""
        length = self.number()
        self.field(how, length)
        self.flush()
        self.line(f"if {length} < -1:")
        self.line("    return FAILED")
        self.span(length, slot)

    def compact(self, slot: int) -> None:
        """Read the same with a length in the compact form."""
        self.span(self.compact_number(), slot)

    def span(self, length: str, slot: int) -> None:
        if not slot:
            self.line(f"if {length} > 0:")
            self.line(f"    at += {length}")
            return
        target = self.kept(slot)
        self.line(f"{target} = NULL")
        self.line(f"if {length} >= 0:")
        # Rows use the bytes of kept spans, and a slice past the end would be short.
        self.line(f"    {target} = at << 32 | {length}")
        self.line(f"    at += {length}")
        self.line("    if at > size:")
        self.line("        return FAILED")

    def compact_number(self) -> str:
        """Read a varint; the variable holds one less."""
        self.flush()
        number = self.number()
        self.line("if at >= size:")
        self.line("    return FAILED")
        self.line(f"{number} = {self.machine_integer('data[at]')} - 1")
        self.line("at += 1")
        self.line(f"if {number} >= 127:")
        self.line(f"    {number}, at = read_unsigned_varint(data, at - 1)")
        self.line(f"    {number} -= 1")
        return number

    # Arrays and structs

    def count(self, is_compact: bool) -> str:
        """Read the count of an array, less than 0 for null."""
        if is_compact:
            return self.compact_number()
        count = self.number()
        self.field(AS_INT32, count)
        self.flush()
        self.line(f"if {count} < -1:")
        self.line("    return FAILED")
        return count

    def array(self, reader: ArrayReader) -> None:
        slot = int(reader.count_slot) if isinstance(reader, CountedArray | ProjectedArray) else 0
        element = reader.projected if isinstance(reader, ProjectedArray) else reader.element
        count = self.count(reader.is_compact)
        if slot:
            self.line(f"{self.kept(slot)} = NULL if {count} < 0 else {count}")
        if not isinstance(reader, ProjectedArray) and element.fixed_size >= 0:
            self.line(f"if {count} > 0:")
            self.line(f"    at += {count} * {element.fixed_size}")
            return
        # An invalid count is detected at the end of the data: every element takes at least one
        # byte.
        self.line(f"while {count} > 0:")
        self.depth += 1
        self.line(f"{count} -= 1")
        self.any(element)
        self.flush()
        self.depth -= 1

    def tags(self) -> None:
        self.flush()
        self.line("if at < size and data[at] == 0:")
        self.line("    at += 1")
        self.line("else:")
        self.line("    at = skip_tags(data, at)")

    def tag_fields(self, fields: dict[int, Reader]) -> None:
        """Read a tag section of which some fields are requested."""
        self.flush()
        self.line("if at < size and data[at] == 0:")
        self.line("    at += 1")
        self.line("else:")
        self.depth += 1
        count, tag, end = self.number(), self.number(), self.number()
        self.line(f"{count}, at = read_unsigned_varint(data, at)")
        self.line(f"while {count} > 0:")
        self.depth += 1
        self.line(f"{count} -= 1")
        self.line(f"{tag}, at, {end} = read_tag(data, at)")
        for number, field in fields.items():
            self.line(f"if {tag} == {number}:")
            self.depth += 1
            self.any(field)
            self.flush()
            self.line(f"if at != {end}:")
            self.line("    return FAILED")
            self.depth -= 1
        self.line(f"at = {end}")
        self.depth -= 2

    def struct(self, reader: ProjectedStruct) -> None:
        for slot in reader.resets:
            self.line(f"{self.kept(int(slot))} = NULL")
        for step in reader.steps:
            self.any(step)
        if reader.has_tag_fields:
            self.tag_fields(reader.tag_fields)
        elif reader.is_flexible:
            self.tags()
        if reader.shape is not None:
            self.row(reader.shape)

    def nullable(self, reader: NullableStructReader) -> None:
        """Read a struct after a byte below 0 for null, in a tag after a varint 0."""
        flag = self.number()
        if reader.is_tagged:
            self.flush()
            self.line(f"{flag}, at = read_unsigned_varint(data, at)")
            self.line(f"if {flag} > 0:")
        else:
            self.field(AS_INT8, flag)
            self.flush()
            self.line(f"if {flag} >= 0:")
        self.depth += 1
        before = len(self.lines)
        self.any(reader.struct)
        self.flush()
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    # Rows

    def row(self, shape: Shape) -> None:
        self.flush()
        way = None
        if self.has_fast_paths:
            way = fast_path_of(shape, self.kinds, lambda role: self.value(shape, role))
        if way is None:
            self.long_row(shape)
            return
        if not way.conditions:
            for text in way.lines:
                self.line(text)
            return
        self.line(f"if {' and '.join(way.conditions)}:")
        for text in way.lines or ["pass"]:
            self.line(INDENT + text)
        self.line("else:")
        self.depth += 1
        self.long_row(shape)
        self.depth -= 1

    def value(self, shape: Shape, role: int) -> str:
        """Expression of a role's value."""
        slot = int(shape.slots[role])
        return self.kept(slot) if slot else "NULL"

    def long_row(self, shape: Shape) -> None:
        """Pass a row to the sink as the tree does."""
        self.line("slots = sink.slots")
        for slot in sorted({int(slot) for slot in shape.slots} - {0}):
            self.line(f"slots[{slot}] = {self.kept(slot)}")
        self.line(f"sink.row(self.shapes[{self.shapes.index(shape)}], data)")

    def any(self, reader: Reader) -> None:
        """Read any node of a tree."""
        if isinstance(reader, KeptRun):
            self.kept_run(reader)
        elif isinstance(reader, KeptString | KeptBytes):
            self.sized(AS_INT16 if isinstance(reader, KeptString) else AS_INT32, int(reader.slot))
        elif isinstance(reader, KeptCompact):
            self.compact(int(reader.slot))
        elif isinstance(reader, RowElement):
            self.any(reader.kept)
            self.row(reader.shape)
        elif isinstance(reader, ProjectedStruct):
            self.struct(reader)
        elif isinstance(reader, NullableStructReader):
            self.nullable(reader)
        elif isinstance(reader, ArrayReader):
            self.array(reader)
        elif reader.fixed_size >= 0:
            self.run_size += int(reader.fixed_size)
        else:
            self.skipped(reader)

    def skipped(self, reader: Reader) -> None:
        """Skip a field that was not requested and has no fixed size."""
        if isinstance(reader, StringReader | BytesReader):
            self.sized(AS_INT16 if isinstance(reader, StringReader) else AS_INT32, 0)
        elif isinstance(reader, CompactReader):
            self.compact(0)
        elif isinstance(reader, StructReader):
            for step in reader.steps:
                self.any(step)
            if reader.is_flexible:
                self.tags()
        else:
            raise TypeError(f"no code for {reader}")
