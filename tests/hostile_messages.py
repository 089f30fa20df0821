"""Messages that expand as much as they can: arrays of the smallest elements, for every layout.

The schema is walked: `shapes_of` gives a shape for each array of a layout (and for the tag section
of each of its structs), `hostile_body` the bytes of a body in which that one is repeated as often
as fits. Values are drawn, so that no small integer or empty text is shared.
"""

import random
import struct
from collections.abc import Iterator
from typing import NamedTuple

from kdissect.protocol.apis import APIS
from kdissect.protocol.specs import FIXED_SIZES, FieldSpec, MessageSpec
from tests.exchange_builders import make_length, make_unsigned_varint

SIDES = ("request", "response")
# Number of elements in the arrays inside each element of the repeated array.
LEAST, ONE = 0, 1
UNKNOWN_TAG = 1000
ERROR = struct.pack(">h", 3)
VARIETY = 1 << 16  # elements with texts of their own

Fields = tuple[FieldSpec, ...]
Path = tuple[int, ...]


class Layout(NamedTuple):
    """One body of one API and version."""

    key: int
    name: str
    version: int
    side: str
    spec: MessageSpec

    def __str__(self) -> str:
        releases = "-".join(("", *self.spec.releases))
        return f"{self.name}-{self.side}-v{self.version}{releases}"


class Shape(NamedTuple):
    """Path of the repeated array, as indices of fields.

    `inner` is how many elements arrays inside its elements have. With `is_tags` it is the tag
    section of the struct at `path`; with `text` the strings in its elements are of that many bytes.
    """

    path: Path
    inner: int
    is_tags: bool = False
    text: int = 0


def layouts() -> Iterator[Layout]:
    """Every layout of every API: all versions and sides, and those that were changed in place."""
    for key, api in APIS.items():
        definition = api.definition()
        for side in SIDES:
            specs = [definition.layouts[side]]
            specs += [spec for role, spec in definition.variants if role == side]
            for spec in specs:
                for version in sorted(spec.versions):
                    yield Layout(key, api.name, version, side, spec)


def shapes_of(layout: Layout) -> Iterator[Shape]:
    """Every way of `hostile_body` to repeat a part of the layout."""
    is_flexible = layout.version in layout.spec.flexible
    if is_flexible:
        yield Shape((), LEAST, is_tags=True)
    for path in _array_paths(layout.spec.fields, layout.version):
        yield Shape(path, LEAST)
        yield Shape(path, ONE)
        yield Shape(path, LEAST, text=4)
        if is_flexible and _field_at(layout.spec.fields, path).is_struct:
            yield Shape(path, LEAST, is_tags=True)


def hostile_body(layout: Layout, shape: Shape, size: int, source: random.Random) -> bytes:
    """A body of about `size` bytes."""
    return _Writer(layout, shape, source).body(size)


def _array_paths(fields: Fields, version: int) -> Iterator[Path]:
    for index, field in enumerate(fields):
        if version not in field.versions:
            continue
        if field.is_array:
            yield (index,)
        if field.is_struct:
            for inner in _array_paths(field.fields, version):
                yield (index, *inner)


def _field_at(fields: Fields, path: Path) -> FieldSpec:
    field = fields[path[0]]
    return field if len(path) == 1 else _field_at(field.fields, path[1:])


class _Writer:
    """Writes one body; `count` elements of the array at the shape's path.

    `inner` is the number of elements in other arrays, which are empty outside the repeated one.
    """

    def __init__(self, layout: Layout, shape: Shape, source: random.Random) -> None:
        self.fields = layout.spec.fields
        self.version = layout.version
        self.is_flexible = layout.version in layout.spec.flexible
        self.shape = shape
        self.source = source
        self.count = 1
        self.inner = 0
        self.is_inside = False

    def body(self, size: int) -> bytes:
        one, two = self.with_count(1), self.with_count(2)
        step = max(1, len(two) - len(one))
        return self.with_count(max(1, (size - len(one)) // step))

    def with_count(self, count: int) -> bytes:
        self.count = count
        return self.struct(self.fields, self.shape.path, True)

    def struct(self, fields: Fields, path: Path, is_on_path: bool) -> bytes:
        """The fields; `path` leads to the repeated field if the struct `is_on_path`."""
        plain: list[bytes] = []
        tagged: list[tuple[int, bytes]] = []
        for index, field in enumerate(fields):
            if self.version not in field.versions:
                continue
            leads = is_on_path and path[:1] == (index,)
            if self.version not in field.tagged:
                plain.append(self.field(field, path[1:], leads))
            elif leads or (self.inner and field.is_array):
                tagged.append((field.tag, self.field(field, path[1:], leads)))
        if not self.is_flexible:
            return b"".join(plain)
        if is_on_path and not path and self.shape.is_tags:
            return b"".join(plain) + self.unknown_tags()
        section = [make_unsigned_varint(len(tagged))]
        for tag, content in sorted(tagged):
            section += [make_unsigned_varint(tag), make_unsigned_varint(len(content)), content]
        return b"".join(plain + section)

    def unknown_tags(self) -> bytes:
        tags = [make_unsigned_varint(UNKNOWN_TAG + n) + b"\x00" for n in range(self.count)]
        return make_unsigned_varint(self.count) + b"".join(tags)

    def field(self, field: FieldSpec, path: Path, leads: bool) -> bytes:
        is_compact = self.is_flexible and not field.is_inflexible
        if field.is_array:
            return self.array(field, path, leads, is_compact)
        if not field.is_struct:
            return self.value(field, is_compact)
        if self.version not in field.nullable:
            return self.struct(field.fields, path, leads)
        if not leads and not self.inner:
            return b"\x00" if self.version in field.tagged else b"\xff"
        return b"\x01" + self.struct(field.fields, path, leads)

    def array(self, field: FieldSpec, path: Path, leads: bool, is_compact: bool) -> bytes:
        if leads and not path and not self.shape.is_tags:
            return self.repeated(field, is_compact)
        count = 1 if leads else self.inner
        elements = [self.element(field, path, leads, is_compact) for _ in range(count)]
        return make_length(count, is_compact, ">i") + b"".join(elements)

    def repeated(self, field: FieldSpec, is_compact: bool) -> bytes:
        """The array itself; to draw each of a million elements would take minutes."""
        self.inner, self.is_inside = self.shape.inner, True
        drawn = [
            self.element(field, (), False, is_compact)
            for _ in range(min(self.count, VARIETY if self.shape.text else 1))
        ]
        self.inner, self.is_inside = 0, False
        whole, rest = divmod(self.count, len(drawn))
        elements = b"".join(drawn) * whole + b"".join(drawn[:rest])
        return make_length(self.count, is_compact, ">i") + elements

    def element(self, field: FieldSpec, path: Path, is_on_path: bool, is_compact: bool) -> bytes:
        if field.is_struct:
            return self.struct(field.fields, path, is_on_path)
        return self.value(field, is_compact)

    def value(self, field: FieldSpec, is_compact: bool) -> bytes:
        if field.type in FIXED_SIZES:
            # An error code is one that there is.
            is_error = field.name.endswith("ErrorCode")
            return ERROR if is_error else self.source.randbytes(FIXED_SIZES[field.type])
        content = b""
        if field.type == "string" and self.is_inside and self.shape.text:
            content = b"%0*x" % (self.shape.text, self.source.getrandbits(4 * self.shape.text))
        width = ">h" if field.type == "string" else ">i"
        return make_length(len(content), is_compact, width) + content
