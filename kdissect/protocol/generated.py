"""Projected decodes as Python functions: one for each layout, generated from its tree of readers.

The interpreter spends most of its time on calls, so without compiled modules a body is read by a
function that makes none: runs of fixed fields, and the length or count after them, are one
`unpack`, values are local variables. If a body does not match its layout, or has requested tags,
the function only returns FAILED; the tree then reads it and reports errors.

    read(data, offset, sink)  → next offset, or FAILED

A row is passed to the sink as by the tree, or by a `FastPath` that the caller has for its shape.
Longer than other modules: it has code for each kind of reader.
"""

import struct
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, NamedTuple, cast

from kdissect.errors import DecodeError
from kdissect.protocol.primitives import read_unsigned_varint
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
from kdissect.protocol.readers import (
    FAILED,
    NULL,
    BytesReader,
    CompactReader,
    Reader,
    Shape,
    Sink,
    StringReader,
)
from kdissect.protocol.structures import ArrayReader, NullableStructReader, StructReader, skip_tags

Read = Callable[[bytes, int, Sink], int]


class FastPath(NamedTuple):
    """Code equivalent to ``sink.row(shape, data)`` when the condition `when` holds.

    Without a condition it always applies. It may use `sink` and `data`.
    """

    when: str
    lines: list[str]


# Fast path of a shape, called with the expression of each role's value; None if there is none.
ShortWayOf = Callable[[Shape, Callable[[int], str]], FastPath | None]

_FORMATS: Final = {
    AS_BOOL: "?", AS_INT8: "b", AS_INT16: "h", AS_UINT16: "H", AS_INT32: "i", AS_UINT32: "I",
    AS_INT64: "q",
}  # fmt: skip
_HEAD: Final = """\
def read(data, at, sink):
    size = len(data)
    slots = sink.slots
    try:
"""
_TAIL: Final = """\
    except (IndexError, struct_error, DecodeError):
        return FAILED
    return at if at <= size else FAILED
"""
INDENT: Final = "    "


def is_worth_it() -> bool:
    """Whether the tree of readers is interpreted here: compiled, the tree is faster."""
    return isinstance(Reader.skip, FunctionType)


def generate(reader: Reader, fast_path_of: ShortWayOf | None = None) -> Read:
    """Generate the function for the tree of a projected layout."""
    writer = _Writer(fast_path_of)
    writer.any(reader)
    writer.flush()
    source = _HEAD + "\n".join(writer.lines) + "\n" + _TAIL
    exec(compile(source, "<layout>", "exec"), writer.names)  # noqa: S102  # of our own layouts
    return cast(Read, writer.names["read"])


class _Writer:
    """Writes the body of the function; `names` are the objects it refers to.

    Fixed fields are collected in `run` until another field follows; skipped bytes are checked
    against the end of the data by the next read, or at the end: a skip never goes back.
    """

    def __init__(self, fast_path_of: ShortWayOf | None) -> None:
        self.lines: list[str] = []
        self.depth = 2
        self.fast_path_of = fast_path_of
        self.run = ">"
        self.run_size = 0
        self.targets: list[str] = []
        # Names of values that are offsets, and their distance from the start of the run.
        self.offsets: list[tuple[str, int]] = []
        self.counter = 0
        self.names: dict[str, Any] = {
            "struct_error": struct.error, "DecodeError": DecodeError, "FAILED": FAILED,
            "NULL": NULL, "skip_tags": skip_tags, "varint": read_unsigned_varint,
        }  # fmt: skip

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def name(self, value: object, prefix: str) -> str:
        """Create a name for an object that the function refers to."""
        self.counter += 1
        name = f"{prefix}{self.counter}"
        if value is not None:
            self.names[name] = value
        return name

    # Fixed fields

    def pad(self, size: int) -> None:
        """Skip `size` bytes."""
        if size:
            self.run += f"{size}x"
            self.run_size += size

    def field(self, code: str, target: str) -> None:
        """Read one value."""
        self.run += code
        self.run_size += struct.calcsize(">" + code)
        self.targets.append(target)

    def flush(self) -> None:
        """Write the read of the collected fields."""
        if self.targets:
            unpack = self.name(struct.Struct(self.run).unpack_from, "unpack")
            self.line(f"{', '.join(self.targets)}, = {unpack}(data, at)")
        for target, place in self.offsets:
            self.line(f"{target} = at + {place}")
        if self.run_size:
            self.line(f"at += {self.run_size}")
        if self.offsets:
            self.line("if at > size: return FAILED")
        self.run, self.run_size, self.targets, self.offsets = ">", 0, [], []

    def kept_run(self, run: KeptRun) -> None:
        place = 0
        for index in range(len(run.slots)):
            self.pad(run.places[index] - place)
            how, target = run.hows[index], f"v{run.slots[index]}"
            place = run.places[index]
            if how == AS_OFFSET:
                self.offsets.append((target, self.run_size))
            else:
                self.field(_FORMATS[how], target)
                place += struct.calcsize(">" + _FORMATS[how])
        self.pad(run.fixed_size - place)

    # Strings, bytes, records

    def sized(self, code: str, slot: int) -> None:
        """Read a length and as many bytes, kept in a slot unless that is 0."""
        length = self.name(None, "n")
        self.field(code, length)
        self.flush()
        self.line(f"if {length} < 0:")
        self.line(f"    if {length} != -1: return FAILED")
        if slot:
            self.line(f"    v{slot} = NULL")
        self.line("else:")
        self.span(length, slot)

    def compact(self, slot: int) -> None:
        """Read the same with a length in the compact form."""
        length = self.compact_number()
        self.line(f"{length} -= 1")
        self.line(f"if {length} < 0:")
        self.line(f"    v{slot} = NULL" if slot else "    pass")
        self.line("else:")
        self.span(length, slot)

    def span(self, length: str, slot: int) -> None:
        if slot:
            self.line(f"    v{slot} = at << 32 | {length}")
        self.line(f"    at += {length}")
        if slot:
            # Rows use the bytes of kept spans, and a slice past the end would be short.
            self.line("    if at > size: return FAILED")

    def compact_number(self) -> str:
        self.flush()
        number = self.name(None, "n")
        self.line(f"{number} = data[at]")
        self.line(f"if {number} < 128: at += 1")
        self.line(f"else: {number}, at = varint(data, at)")
        return number

    # Arrays and structs

    def count(self, is_compact: bool) -> str:
        """Read the count of an array, less than 0 for null."""
        if is_compact:
            count = self.compact_number()
            self.line(f"{count} -= 1")
            return count
        count = self.name(None, "n")
        self.field("i", count)
        self.flush()
        self.line(f"if {count} < -1: return FAILED")
        return count

    def array(self, reader: ArrayReader) -> None:
        slot = reader.count_slot if isinstance(reader, CountedArray | ProjectedArray) else 0
        element = reader.projected if isinstance(reader, ProjectedArray) else reader.element
        count = self.count(reader.is_compact)
        if slot:
            self.line(f"v{slot} = NULL if {count} < 0 else {count}")
        if not isinstance(reader, ProjectedArray) and element.fixed_size >= 0:
            self.line(f"if {count} > 0: at += {count} * {element.fixed_size}")
            return
        # An invalid count is detected at the end of the data: every element takes at least one
        # byte.
        self.line(f"for _ in range({count}):")
        self.depth += 1
        self.any(element)
        self.flush()
        self.depth -= 1

    def tags(self) -> None:
        self.flush()
        self.line("if data[at]: at = skip_tags(data, at)")
        self.line("else: at += 1")

    def struct(self, reader: ProjectedStruct) -> None:
        for slot in range(len(reader.resets)):
            self.line(f"v{reader.resets[slot]} = NULL")
        for step in reader.steps:
            self.any(step)
        if reader.has_tag_fields:
            self.flush()
            self.line("if data[at]: return FAILED")
            self.line("at += 1")
        elif reader.is_flexible:
            self.tags()
        if reader.shape is not None:
            self.row(reader.shape)

    def nullable(self, inner: Reader, is_tagged: bool) -> None:
        """Read a struct after a byte below 0 for null; never used for structs in tags."""
        flag = self.name(None, "n")
        self.field("b", flag)
        self.flush()
        self.line(f"if {flag} >= 0:")
        self.depth += 1
        self.any(inner)
        self.flush()
        self.line("pass")
        self.depth -= 1

    def row(self, shape: Shape) -> None:
        self.flush()
        way: FastPath | None = None
        if self.fast_path_of is not None:
            way = self.fast_path_of(shape, lambda role: value_of(shape, role))
        if way is None:
            self.long_row(shape)
            return
        if way.when:
            self.line(f"if {way.when}:")
            self.depth += 1
        for text in way.lines or ["pass"]:
            self.line(text)
        if way.when:
            self.depth -= 1
            self.line("else:")
            self.depth += 1
            self.long_row(shape)
            self.depth -= 1

    def long_row(self, shape: Shape) -> None:
        """Pass a row to the sink as the tree does."""
        for slot in sorted({int(slot) for slot in shape.slots} - {0}):
            self.line(f"slots[{slot}] = v{slot}")
        self.line(f"sink.row({self.name(shape, 'shape')}, data)")

    def any(self, reader: Reader) -> None:
        """Read any node of a tree."""
        if isinstance(reader, KeptRun):
            self.kept_run(reader)
        elif isinstance(reader, KeptString | KeptBytes):
            self.sized("h" if isinstance(reader, KeptString) else "i", reader.slot)
        elif isinstance(reader, KeptCompact):
            self.compact(reader.slot)
        elif isinstance(reader, RowElement):
            self.any(reader.kept)
            self.row(reader.shape)
        elif isinstance(reader, ProjectedStruct):
            self.struct(reader)
        elif isinstance(reader, NullableStructReader):
            self.nullable(reader.struct, reader.is_tagged)
        elif isinstance(reader, ArrayReader):
            self.array(reader)
        elif reader.fixed_size >= 0:
            self.pad(reader.fixed_size)
        else:
            self.skipped(reader)

    def skipped(self, reader: Reader) -> None:
        """Skip a field that was not requested and has no fixed size."""
        if isinstance(reader, StringReader | BytesReader):
            self.sized("h" if isinstance(reader, StringReader) else "i", 0)
        elif isinstance(reader, CompactReader):
            self.compact(0)
        elif isinstance(reader, StructReader):
            for step in reader.steps:
                self.any(step)
            if reader.is_flexible:
                self.tags()
        else:
            self.flush()
            self.line(f"at = {self.name(reader, 'node')}.skip(data, at)")


def value_of(shape: Shape, role: int) -> str:
    """Expression of a role's value."""
    slot = shape.slots[role]
    return f"v{slot}" if slot else "NULL"
