"""Builds the readers of projected decodes (see `plans` for their results)."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from kdissect.protocol.layouts import array_reader, primitive_reader, struct_reader
from kdissect.protocol.projections import (
    HOW,
    CountedArray,
    KeptBytes,
    KeptCompact,
    KeptRun,
    KeptString,
    ProjectedArray,
    ProjectedNullable,
    ProjectedStruct,
    RowElement,
)
from kdissect.protocol.readers import Reader, Shape
from kdissect.protocol.specs import FIXED_SIZES, FieldSpec, MessageSpec, snake_case
from kdissect.protocol.structures import NullableStructReader

Path = tuple[str, ...]


class Role(NamedTuple):
    """Meaning of a field for the caller; `is_count`: only the count of an array is requested."""

    number: int
    is_count: bool = False


RoleOf = Callable[[FieldSpec, Path], Role | None]
KindOf = Callable[[frozenset[int], bool], int]


class _Kept(NamedTuple):
    """A kept field: its slot and its snake_case name."""

    slot: int
    name: str


class Scope:
    """Kept fields of one struct, as far as built, and the enclosing struct.

    `inner` are those of single structs inside; `absent` the slots of optional fields.
    """

    def __init__(self, parent: "Scope | None") -> None:
        self.parent = parent
        self.own: dict[int, _Kept] = {}
        self.inner: dict[int, _Kept] = {}
        self.absent: list[int] = []
        self.gives_row = False

    def find(self, role: int) -> _Kept | None:
        """Kept field of a role in this struct only."""
        return self.own.get(role) or self.inner.get(role)

    def items(self) -> Iterator[tuple[int, _Kept]]:
        """Roles of this struct with their fields; of two with the same, its own is first."""
        return chain(self.own.items(), self.inner.items())

    def roles(self) -> frozenset[int]:
        """Roles of this struct only."""
        return frozenset(self.own) | frozenset(self.inner)

    def slots(self) -> list[int]:
        """Slots of this struct only."""
        return [kept.slot for kept in (*self.own.values(), *self.inner.values())]


class _Steps:
    """Steps of a projected struct in sequence; consecutive fixed fields are merged into a run."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.readers: list[Reader] = []
        self.run_names: list[str] = []
        self.run_sizes: list[int] = []
        self.run_size = 0
        self.run_keeps: list[tuple[int, int, int]] = []

    def add(self, name: str, reader: Reader) -> None:
        """Add a separate step."""
        self.end_run()
        self.names.append(name)
        self.readers.append(reader)

    def add_fixed(self, name: str, size: int, how: int, slot: int) -> None:
        """Add a field of fixed size, kept in `slot` unless that is 0."""
        if slot:
            self.run_keeps.append((self.run_size, how, slot))
        self.run_names.append(name)
        self.run_sizes.append(size)
        self.run_size += size

    def end_run(self) -> None:
        """Turn the collected fixed fields into a step."""
        if not self.run_names:
            return
        run = KeptRun(self.run_names, self.run_sizes)
        for place, how, slot in self.run_keeps:
            run.keep(place, how, slot)
        self.names.append("")
        self.readers.append(run)
        self.run_names, self.run_sizes, self.run_size, self.run_keeps = [], [], 0, []


class Projector:
    """Builds the readers of one projection; numbers its slots from 1."""

    def __init__(
        self,
        spec: MessageSpec,
        version: int,
        role_of: RoleOf,
        kind_of: KindOf,
        role_count: int,
        inherited: frozenset[int] | None,
    ) -> None:
        self.version = version
        self.is_flexible = version in spec.flexible
        self.role_of = role_of
        self.kind_of = kind_of
        self.role_count = role_count
        self.inherited = inherited
        self.shapes: list[Shape] = []
        self.slot_count = 1

    def struct(self, fields: tuple[FieldSpec, ...], path: Path, text: str, scope: Scope) -> Reader:
        """Reader of a struct: a plain one if no field in it is requested."""
        steps = _Steps()
        tag_fields: dict[int, Reader] = {}
        before = self.progress()
        present = [field for field in fields if self.version in field.versions]
        for field in present:
            if self.version not in field.tagged:
                self.untagged(field, path, text, scope, steps)
        for field in sorted(present, key=lambda field: field.tag):
            if self.version in field.tagged:
                reader = self.tagged(field, path, text, scope)
                if reader is not None:
                    tag_fields[field.tag] = reader
        steps.end_run()
        shape = self.shape(text, scope)
        plain = struct_reader(fields, self.version, self.is_flexible)
        if self.progress() == before:
            return plain
        return ProjectedStruct(plain, steps.names, steps.readers, tag_fields, scope.absent, shape)

    def progress(self) -> int:
        """Counter that grows with every requested field."""
        return self.slot_count + len(self.shapes)

    def shape(self, text: str, scope: Scope) -> Shape | None:
        """Shape of a struct all of whose fields are built; None if it yields no row."""
        kind = self.kind_of(scope.roles(), text == "")
        if kind == 0:
            return None
        scope.gives_row = True
        return self.new_shape(kind, text, scope)

    def new_shape(self, kind: int, text: str, scope: Scope) -> Shape:
        """Shape with the slots of every role visible from `scope`."""
        slots = [0] * self.role_count
        names = [""] * self.role_count
        visible: Scope | None = scope
        while visible is not None:
            for role, kept in visible.items():
                is_own = visible is scope or self.inherited is None or role in self.inherited
                if is_own and slots[role] == 0:
                    slots[role], names[role] = kept.slot, kept.name
            visible = visible.parent
        shape = Shape(kind, text, slots, names)
        self.shapes.append(shape)
        return shape

    def untagged(
        self, field: FieldSpec, path: Path, text: str, scope: Scope, steps: _Steps
    ) -> None:
        """Add the steps of a field of the struct's body."""
        name = snake_case(field.name)
        if not field.is_array and not field.is_struct and field.type in HOW:
            slot = self.keep(self.role_of(field, path), field, scope)
            steps.add_fixed(name, FIXED_SIZES[field.type], HOW[field.type], slot)
            return
        reader = self.field(field, path, text, scope)
        if reader.fixed_size >= 0 and not isinstance(reader, ProjectedStruct):
            steps.add_fixed(name, reader.fixed_size, 0, 0)
        else:
            steps.add(name, reader)

    def tagged(self, field: FieldSpec, path: Path, text: str, scope: Scope) -> Reader | None:
        """Reader of a field of the tag section; None if nothing in it is requested."""
        before = self.progress()
        known = set(scope.slots())
        if not field.is_array and not field.is_struct and field.type in HOW:
            slot = self.keep(self.role_of(field, path), field, scope)
            reader = _kept_fixed(field.type, slot)
        else:
            reader = self.field(field, path, text, scope)
        if self.progress() == before:
            return None
        scope.absent += [slot for slot in scope.slots() if slot not in known]
        return reader

    def keep(self, role: Role | None, field: FieldSpec, scope: Scope) -> int:
        """New slot for a field of `scope`; 0 if it has no role or another field has it."""
        if role is None or role.number in scope.own:
            return 0
        slot = self.slot_count
        self.slot_count += 1
        scope.own[role.number] = _Kept(slot, snake_case(field.name))
        return slot

    def field(self, field: FieldSpec, path: Path, text: str, scope: Scope) -> Reader:
        """Reader of a field that is not of a fixed-size primitive type."""
        if field.is_array:
            return self.array(field, path, text, scope)
        if field.is_struct:
            return self.single_struct(field, path, text, scope)
        is_compact = self.is_flexible and not field.is_inflexible
        plain = primitive_reader(field.type, is_compact)
        slot = self.keep(self.role_of(field, path), field, scope)
        return _kept_reader(field.type, plain, is_compact, slot) if slot else plain

    def single_struct(self, field: FieldSpec, path: Path, text: str, scope: Scope) -> Reader:
        """Struct that is not an array element; if it makes no rows, its fields join `scope`."""
        name = snake_case(field.name)
        inner = Scope(scope)
        inner_text = f"{text}.{name}" if text else name
        reader = self.struct(field.fields, (*path, field.name), inner_text, inner)
        is_nullable = self.version in field.nullable
        if not inner.gives_row:
            for role in sorted(inner.roles()):
                kept = inner.find(role)
                if kept is not None and role not in scope.inner:
                    scope.inner[role] = _Kept(kept.slot, f"{name}.{kept.name}")
                    if is_nullable:
                        scope.absent.append(kept.slot)
        if not is_nullable:
            return reader
        is_tagged = self.version in field.tagged
        if isinstance(reader, ProjectedStruct):
            return ProjectedNullable(reader, is_tagged)
        return NullableStructReader(reader, is_tagged)

    def array(self, field: FieldSpec, path: Path, text: str, scope: Scope) -> Reader:
        """Array: counted, with rows or values inside, or plain."""
        plain = array_reader(field, self.version, self.is_flexible)
        role = self.role_of(field, path)
        count_slot = 0
        if role is not None and role.is_count:
            count_slot = self.keep(role, field, scope)
        name = snake_case(field.name)
        element_text = f"{text}.{name}[]" if text else f"{name}[]"
        if field.is_struct:
            element = self.struct(field.fields, (*path, field.name), element_text, Scope(scope))
            if isinstance(element, ProjectedStruct):
                return ProjectedArray(plain, element, count_slot)
        elif role is not None and not role.is_count:
            row_element = self.row_element(field, role, plain.element, element_text, scope)
            if row_element is not None:
                return ProjectedArray(plain, row_element, 0)
        return CountedArray(plain, count_slot) if count_slot else plain

    def row_element(
        self, field: FieldSpec, role: Role, plain: Reader, text: str, scope: Scope
    ) -> Reader | None:
        """Reader of a primitive array's element; None if `kind_of` requests no rows of it."""
        kind = self.kind_of(frozenset({role.number}), False)
        if kind == 0:
            return None
        inner = Scope(scope)
        slot = self.keep(role, field, inner)
        if field.type in HOW:
            kept = _kept_fixed(field.type, slot)
        else:
            is_compact = self.is_flexible and not field.is_inflexible
            kept = _kept_reader(field.type, plain, is_compact, slot)
        return RowElement(plain, kept, self.new_shape(kind, text, inner))


def _kept_fixed(type_name: str, slot: int) -> Reader:
    run = KeptRun([""], [FIXED_SIZES[type_name]])
    run.keep(0, HOW[type_name], slot)
    return run


def _kept_reader(type_name: str, plain: Reader, is_compact: bool, slot: int) -> Reader:
    if is_compact:
        return KeptCompact(plain, slot)
    return KeptString(plain, slot) if type_name == "string" else KeptBytes(plain, slot)
