"""Writes the compiled decodes of bodies that captures are full of: messages/generated_*.py.

    python -m tools.write_generated_readers

Of each layout of the APIs below its projected decode (see `kdissect.protocol.plans`) is written
out as one method without calls and dispatch: what a reader of the tree does is a line or two here.
A layout that several versions share is written once. A test compares `modules` with what is in the
tree.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kdissect.messages import extracted
from kdissect.messages.fast_paths import fast_path_of
from kdissect.messages.field_mapping import INHERITED, kind_of, request_role, response_role
from kdissect.protocol.apis import APIS, api_name
from kdissect.protocol.generated import value_of
from kdissect.protocol.plans import Plan, build_projection
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
    BytesReader,
    CompactReader,
    Reader,
    Shape,
    StringReader,
)
from kdissect.protocol.structures import ArrayReader, NullableStructReader, StructReader

MESSAGES: Final = Path(__file__).parent.parent / "kdissect" / "messages"
# Module → what it is about, and the keys of its APIs with the first version that is written: that
# of clients of 0.11, after which brokers speak of records as they do today. Each costs size and
# time of the build, so those that a connection says once are left to the tree.
MODULES: Final[dict[str, tuple[str, dict[int, int]]]] = {
    "generated_produce_fetch": ("Produce, Fetch and ListOffsets", {0: 3, 1: 4, 2: 1}),
    "generated_metadata_groups": ("Metadata, OffsetCommit and Heartbeat", {3: 4, 8: 2, 12: 0}),
}
INDENT: Final = "    "
WIDTH: Final = 100

READS: Final = {
    AS_INT16: "i64(read_i16_be(data, {}))",
    AS_UINT16: "i64(read_i16_be(data, {})) & 0xFFFF",
    AS_INT32: "i64(read_i32_be(data, {}))",
    AS_UINT32: "i64(read_i32_be(data, {})) & 0xFFFFFFFF",
    AS_INT64: "read_i64_be(data, {})",
    AS_OFFSET: "{}",
    AS_BOOL: "1 if data[{}] else 0",
    AS_INT8: "(i64(data[{}]) ^ 0x80) - 0x80",
}
SIZES: Final = {
    AS_BOOL: 1, AS_INT8: 1, AS_INT16: 2, AS_UINT16: 2, AS_INT32: 4, AS_UINT32: 4, AS_INT64: 8,
}  # fmt: skip


class Layout(NamedTuple):
    """The body of one method, and of which API, side and versions it is."""

    key: int
    is_response: bool
    versions: list[int]
    lines: tuple[str, ...]
    slots: tuple[int, ...]


def modules() -> dict[str, str]:
    """Name → source of every module that is written."""
    return {name: formatted(module(*MODULES[name])) for name in MODULES}


def formatted(source: str) -> str:
    """The source as `ruff format` leaves it."""
    command = [sys.executable, "-m", "ruff", "format", "--line-length", str(WIDTH), "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
    return done.stdout


def module(about: str, first_versions: dict[int, int]) -> str:
    """The source of one module."""
    layouts = [layout for key, first in first_versions.items() for layout in layouts_of(key, first)]
    parts = [HEAD.format(about=about)]
    parts += [written_class(layout) for layout in layouts]
    entries = [
        f"    ({layout.key}, {int(layout.is_response)}, {version}): {class_name(layout)},"
        for layout in layouts
        for version in layout.versions
    ]
    table = "\n".join(entries)
    parts.append(
        "# By API key, side and version.\n"
        f"READS: Final[dict[tuple[int, int, int], type[GeneratedRead]]] = {{\n{table}\n}}\n"
    )
    return "\n\n".join(parts)


def layouts_of(key: int, first: int) -> Iterator[Layout]:
    """The layouts of an API's requests and responses that differ, from a version on."""
    for is_response in (False, True):
        found: dict[tuple[str, ...], Layout] = {}
        api = APIS[key]
        for version in range(max(api.lowest, first), api.highest + 1):
            if not api.knows(version):
                continue
            plan = plan_of(key, version, is_response)
            writer = Writer(plan)
            writer.any(plan.reader)
            writer.flush()
            lines, slots = without_unused(writer.lines, writer.slots)
            layout = Layout(key, is_response, [], lines, slots)
            found.setdefault(lines, layout).versions.append(version)
        yield from found.values()


def without_unused(lines: list[str], slots: set[int]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The lines without what is kept for nobody, and the slots that are left."""
    text = "\n".join(lines)
    used = {slot for slot in slots if re.search(rf"\bv{slot}\b(?! = )", text)}
    unused = tuple(f"v{slot} = " for slot in slots - used)
    kept = [line for line in lines if not line.lstrip().startswith(unused or ("?",))]
    return tuple(kept), tuple(sorted(used))


def plan_of(key: int, version: int, is_response: bool) -> Plan:
    spec = APIS[key].definition().layouts["response" if is_response else "request"]
    role_of = response_role if is_response else request_role
    return build_projection(spec, version, role_of, kind_of, extracted.ROLE_COUNT, INHERITED)


def class_name(layout: Layout) -> str:
    side = "Response" if layout.is_response else "Request"
    return f"{api_name(layout.key)}{side}{layout.versions[0]}"


def written_class(layout: Layout) -> str:
    first, last = layout.versions[0], layout.versions[-1]
    side = "response" if layout.is_response else "request"
    versions = f"v{first}" if first == last else f"v{first} to v{last}"
    lines = [
        f"class {class_name(layout)}(GeneratedRead):",
        f'    """{api_name(layout.key)} {side} {versions}."""',
        "",
        "    def read(self, data: bytes, at: i64, receiver: Sink) -> i64:",
        "        sink = cast(FieldSink, receiver)",
        "        size: i64 = len(data)",
        *[f"        v{slot}: i64 = NULL" for slot in layout.slots],
        *layout.lines,
        "        return at if at <= size else FAILED",
    ]
    return "\n".join(lines)


HEAD: Final = '''\
"""Generated readers of {about}.

Written by tools/write_generated_readers.py, not by hand; see `generated_readers`. `vN` is what
is kept in slot N of the projected decode: a number, or where something is.
"""

from typing import Final, cast

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from kdissect.messages.extracted import FieldSink
from kdissect.protocol.plans import GeneratedRead
from kdissect.protocol.primitives import read_unsigned_varint
from kdissect.protocol.readers import FAILED, NULL, Sink
from kdissect.protocol.structures import skip_tags
'''


class Writer:
    """Writes the lines of one method.

    Fixed fields wait in `run` until something else comes: one bounds check is for all of them. What
    is skipped is checked by the read behind it, or at the end: a skip never goes back.
    """

    def __init__(self, plan: Plan) -> None:
        self.shapes = plan.shapes
        self.lines: list[str] = []
        self.depth = 2
        self.run: list[tuple[int, int, str]] = []
        self.run_size = 0
        self.counter = 0
        self.slots: set[int] = set()

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def kept(self, slot: int) -> str:
        self.slots.add(slot)
        return f"v{slot}"

    def name(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    # Fixed fields

    def field(self, how: int, target: str) -> None:
        """A value of the run; `how` is one of the AS_."""
        self.run.append((self.run_size, how, target))
        self.run_size += SIZES[how]

    def flush(self) -> None:
        """Write the reads of the fields that wait."""
        if self.run:
            self.line(f"if at + {self.run_size} > size:")
            self.line("    return FAILED")
        for place, how, target in self.run:
            self.line(f"{target} = " + READS[how].format(f"at + {place}" if place else "at"))
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
        """A length and as many bytes, kept in a slot unless that is 0."""
        length = self.name("n")
        self.field(how, length)
        self.flush()
        self.line(f"if {length} < -1:")
        self.line("    return FAILED")
        self.span(length, slot)

    def compact(self, slot: int) -> None:
        """The same with a length in the compact form."""
        self.span(self.compact_number(), slot)

    def span(self, length: str, slot: int) -> None:
        if not slot:
            self.line(f"if {length} > 0:")
            self.line(f"    at += {length}")
            return
        target = self.kept(slot)
        self.line(f"{target} = NULL")
        self.line(f"if {length} >= 0:")
        # Rows take the bytes of kept spans, and a slice past the end would be short.
        self.line(f"    {target} = at << 32 | {length}")
        self.line(f"    at += {length}")
        self.line("    if at > size:")
        self.line("        return FAILED")

    def compact_number(self) -> str:
        """A varint, less one."""
        self.flush()
        number = self.name("n")
        self.line("if at >= size:")
        self.line("    return FAILED")
        self.line(f"{number} = i64(data[at]) - 1")
        self.line("at += 1")
        self.line(f"if {number} >= 127:")
        self.line(f"    {number}, at = read_unsigned_varint(data, at - 1)")
        self.line(f"    {number} -= 1")
        return number

    # Arrays and structs

    def count(self, is_compact: bool) -> str:
        """The count of an array, less than 0 for null."""
        if is_compact:
            return self.compact_number()
        count = self.name("n")
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
        if is_left_to_the_tree(element):
            self.line(f"if {count} > 0:")
            self.line("    return FAILED")
            return
        # A count that lies is found out at the end of the data: no element takes no bytes.
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

    def struct(self, reader: ProjectedStruct) -> None:
        for slot in reader.resets:
            self.line(f"{self.kept(int(slot))} = NULL")
        for step in reader.steps:
            self.any(step)
        if reader.has_tag_fields:
            self.flush()
            self.line("if at >= size or data[at] != 0:")
            self.line("    return FAILED")
            self.line("at += 1")
        elif reader.is_flexible:
            self.tags()
        if reader.shape is not None:
            self.row(reader.shape)

    def nullable(self, inner: Reader) -> None:
        """A struct behind a byte below 0 for null; those in tags are never asked for here."""
        flag = self.name("n")
        self.field(AS_INT8, flag)
        self.flush()
        self.line(f"if {flag} >= 0:")
        self.depth += 1
        before = len(self.lines)
        self.any(inner)
        self.flush()
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def row(self, shape: Shape) -> None:
        self.flush()
        for slot in shape.slots:
            if slot:
                self.kept(int(slot))
        way = fast_path_of(shape, lambda role: value_of(shape, role))
        if way is None:
            raise TypeError(f"a struct that only the tree knows: {shape.path}")
        roles = [role for role in (extracted.ERROR, extracted.SECOND_ERROR) if shape.slots[role]]
        if not way.when or not roles:
            self.lines += [INDENT * self.depth + text for text in way.lines]
            return
        self.line(f"if {' and '.join(f'{value_of(shape, role)} == 0' for role in roles)}:")
        self.depth += 1
        self.lines += [INDENT * self.depth + text for text in way.lines or ["pass"]]
        self.depth -= 1
        self.line("else:")
        self.depth += 1
        self.long_row(shape)
        self.depth -= 1

    def long_row(self, shape: Shape) -> None:
        """Give a row to the sink as the tree does."""
        self.line("slots = sink.slots")
        for slot in sorted({int(slot) for slot in shape.slots} - {0}):
            self.line(f"slots[{slot}] = v{slot}")
        self.line(f"sink.row(self.shapes[{self.shapes.index(shape)}], data)")

    def any(self, reader: Reader) -> None:
        """Whatever a tree is made of."""
        if isinstance(reader, KeptRun):
            self.kept_run(reader)
        elif isinstance(reader, KeptString | KeptBytes):
            how = AS_INT16 if isinstance(reader, KeptString) else AS_INT32
            self.sized(how, int(reader.slot))
        elif isinstance(reader, KeptCompact):
            self.compact(int(reader.slot))
        elif isinstance(reader, RowElement):
            self.any(reader.kept)
            self.row(reader.shape)
        elif isinstance(reader, ProjectedStruct):
            self.struct(reader)
        elif isinstance(reader, NullableStructReader):
            self.nullable(reader.struct)
        elif isinstance(reader, ArrayReader):
            self.array(reader)
        elif reader.fixed_size >= 0:
            self.run_size += int(reader.fixed_size)
        else:
            self.skipped(reader)

    def skipped(self, reader: Reader) -> None:
        """What nobody asked for and has no fixed size."""
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
            raise TypeError(f"a layout that is not written: {reader}")


def is_left_to_the_tree(element: Reader) -> bool:
    """Whether a struct is rare, and its facts only count together with others."""
    shape = element.shape if isinstance(element, ProjectedStruct | RowElement) else None
    return shape is not None and fast_path_of(shape, lambda role: value_of(shape, role)) is None


def main() -> None:
    for name, source in modules().items():
        (MESSAGES / f"{name}.py").write_text(source, encoding="utf-8")


if __name__ == "__main__":
    main()
