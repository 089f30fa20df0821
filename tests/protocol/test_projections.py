import base64
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import DecodeError, UnknownApi
from kdissect.protocol.apis import APIS
from kdissect.protocol.layouts import build_reader
from kdissect.protocol.plans import Plan, Plans, Role, build_projection
from kdissect.protocol.readers import NULL, Shape, Sink
from kdissect.protocol.specs import FieldSpec, MessageSpec, snake_case
from tests.protocol.layouts import Rows, compact, int32, layout, length16, span_text
from tests.protocol.test_vectors import VECTORS, spec_of

NAMES = ["Error", "Topic", "Partition", "Epoch", "Items"]


def role_of(field: FieldSpec, _path: tuple[str, ...]) -> Role | None:
    return Role(NAMES.index(field.name)) if field.name in NAMES else None


def row_if_partition(roles: frozenset[int], _is_body: bool) -> int:
    return 1 if NAMES.index("Partition") in roles else 0


def row_always(_roles: frozenset[int], is_body: bool) -> int:
    return 2 if is_body else 1


def rows_of(plan: Plan, data: bytes) -> list[tuple[str, dict[str, object]]]:
    sink = Rows()
    assert plan.run(data, 0, sink) == len(data)
    return sink.rows


def test_a_row_has_its_own_fields_and_those_of_enclosing_structs_read_before() -> None:
    spec = layout(
        "Topics [Topic]",
        "  Topic string",
        "  Partitions [Partition]",
        "    Partition int32",
        "    Unasked int64",
        "    Error int16",
        "  Epoch int32",
    )
    data = (
        int32(1) + length16("orders")
        + int32(2) + int32(7) + bytes(8) + b"\x00\x03" + int32(8) + bytes(8) + b"\xff\xff"
        + int32(99)
    )  # fmt: skip
    plan = build_projection(spec, 0, role_of, row_if_partition, len(NAMES))
    rows = rows_of(plan, data)
    topic = 6 << 32 | 6
    assert rows == [
        ("topics[].partitions[]", {"error": 3, "topic": topic, "partition": 7}),
        ("topics[].partitions[]", {"error": -1, "topic": topic, "partition": 8}),
    ]
    assert span_text(topic, data) == "orders"


def test_only_inherited_roles_are_looked_up_in_enclosing_structs() -> None:
    spec = layout("Error int16", "Topic string", "Parts [P]", "  Partition int32")
    data = b"\x00\x01" + length16("t") + int32(1) + int32(5)
    inherited = frozenset({NAMES.index("Topic")})
    plan = build_projection(spec, 0, role_of, row_if_partition, len(NAMES), inherited)
    assert rows_of(plan, data) == [("parts[]", {"topic": 4 << 32 | 1, "partition": 5})]


def test_the_body_gives_its_row_last_with_an_empty_path() -> None:
    spec = layout("Parts [P]", "  Partition int32", "Error int16")
    plan = build_projection(spec, 0, role_of, row_always, len(NAMES))
    assert rows_of(plan, int32(1) + int32(4) + b"\x00\x09") == [
        ("parts[]", {"partition": 4}),
        ("", {"error": 9}),
    ]
    assert [(shape.kind, shape.path) for shape in plan.shapes] == [(1, "parts[]"), (2, "")]


def test_an_array_of_primitives_gives_a_row_for_each_element() -> None:
    spec = layout("Topic string", "Partition [int32]", "Unasked [int32]")
    data = length16("t") + int32(2) + int32(3) + int32(4) + int32(1) + int32(0)
    plan = build_projection(spec, 0, role_of, row_if_partition, len(NAMES))
    assert rows_of(plan, data) == [
        ("partition[]", {"topic": 2 << 32 | 1, "partition": 3}),
        ("partition[]", {"topic": 2 << 32 | 1, "partition": 4}),
    ]


def test_an_array_of_strings_gives_spans() -> None:
    spec = layout("Partition [string]", flexible=True)
    data = b"\x03" + compact("a") + compact("bc") + b"\0"
    plan = build_projection(spec, 0, role_of, row_if_partition, len(NAMES))
    rows = rows_of(plan, data)
    assert [span_text(values["partition"], data) for _, values in rows] == ["a", "bc"]


@pytest.mark.parametrize("element", ["Items [int32]", "Items [S]\n      A int8\n      B string"])
def test_an_array_asked_for_as_count_gives_its_count_or_null(element: str) -> None:
    spec = layout(*element.replace("\n    ", "\n").split("\n"))

    def counted(field: FieldSpec, _path: tuple[str, ...]) -> Role | None:
        return Role(0, is_count=True) if field.name == "Items" else None

    plan = build_projection(spec, 0, counted, row_always, 1)
    item = int32(1) if "int32" in element else b"\x01" + length16("xy")
    assert rows_of(plan, int32(3) + item * 3)[-1] == ("", {"items": 3})
    assert rows_of(plan, int32(-1))[-1] == ("", {"items": None})


def test_a_tagged_field_that_is_absent_is_null_again() -> None:
    spec = layout("Parts [P]", "  Partition int32", "  Epoch int32 tag 3", flexible=True)
    with_tag = int32(1) + b"\x01\x03\x04" + int32(77)
    without = int32(2) + b"\x00"
    plan = build_projection(spec, 0, role_of, row_if_partition, len(NAMES))
    assert rows_of(plan, b"\x03" + with_tag + without + b"\x00") == [
        ("parts[]", {"partition": 1, "epoch": 77}),
        ("parts[]", {"partition": 2, "epoch": None}),
    ]


def test_fields_of_a_single_struct_without_a_row_join_the_struct_around_it() -> None:
    spec = layout(
        "Parts [P]", "  Partition int32", "  Leader L?", "    Id int32", "    Epoch int32"
    )
    present = int32(1) + b"\x01" + int32(0) + int32(5)
    null = int32(2) + b"\xff"
    plan = build_projection(spec, 0, role_of, row_if_partition, len(NAMES))
    assert rows_of(plan, int32(2) + present + null) == [
        ("parts[]", {"partition": 1, "leader.epoch": 5}),
        ("parts[]", {"partition": 2, "leader.epoch": None}),
    ]


def test_own_fields_come_before_those_of_inner_structs() -> None:
    spec = layout("Inner I", "  Epoch int32", "Epoch int32", "Partition int32")
    plan = build_projection(spec, 0, role_of, row_if_partition, len(NAMES))
    assert rows_of(plan, int32(1) + int32(2) + int32(3)) == [("", {"epoch": 2, "partition": 3})]


def test_null_strings_and_every_fixed_type_are_kept_as_documented() -> None:
    types = ["bool", "int8", "uint16", "uint32", "int64", "uuid", "float64"]
    spec = layout("S0 string?", "S1 bytes?", *(f"F{i} {name}" for i, name in enumerate(types)))
    data = (
        b"\xff\xff\xff\xff\xff\xff" + b"\x07" + b"\x80" + b"\xff\xff" + b"\xff" * 4
        + b"\x80" + bytes(6) + b"\x01" + bytes(16) + bytes(8)
    )  # fmt: skip
    plan = build_projection(
        spec, 0, lambda f, _: Role(int(f.name[1:]) + 2 * (f.name[0] == "F")), row_always, 9
    )
    sink = Rows()
    plan.run(data, 0, sink)
    assert [sink.slots[slot] for slot in plan.shapes[0].slots] == [
        NULL, NULL, 1, -128, 65535, 0xFFFFFFFF, -(1 << 63) + 1, 22, 38,
    ]  # fmt: skip


def test_a_layout_with_more_slots_than_the_sink_makes_it_grow() -> None:
    count = 200
    spec = layout(*(f"F{i} int8" for i in range(count)))
    plan = build_projection(spec, 0, lambda f, _: Role(int(f.name[1:])), row_always, count)
    sink = Rows()
    plan.run(bytes(range(100)) * 2, 0, sink)
    assert sink.rows == [("", {f"f{i}": i % 100 for i in range(count)})]
    assert sink.slots[0] == NULL


def test_a_struct_without_anything_asked_for_is_the_plain_reader() -> None:
    spec = layout("Other [O]", "  A int32", "Partition int32")
    plan = build_projection(spec, 0, role_of, lambda _roles, _body: 0, len(NAMES))
    assert (plan.slot_count, plan.shapes) == (2, [])


@pytest.mark.parametrize(
    ("cut", "text"),
    [
        (1, "value takes 4 bytes, only 3 left at topics[0].parts[1].partition, byte 41 of 44"),
        (8, "length 10, only 7 bytes left at topics[0].parts[1].a, byte 28 of 37"),
        (25, "2 elements take at least 14 bytes, only 9 left at topics[0].parts, byte 7 of 20"),
    ],
)
def test_an_error_in_a_projection_has_the_path_of_its_field(cut: int, text: str) -> None:
    spec = layout(
        "Topics [T]",
        "  Topic string",
        "  Parts [P]",
        "    A string",
        "    B int8",
        "    Partition int32",
    )
    part = length16("0123456789") + bytes(5)
    data = int32(1) + length16("t") + int32(2) + part + part
    plan = build_projection(spec, 0, role_of, row_if_partition, len(NAMES))
    with pytest.raises(DecodeError) as caught:
        plan.run(data[:-cut], 0, Rows())
    assert str(caught.value) == text
    with pytest.raises(DecodeError) as caught:
        build_reader(spec, 0).skip(data[:-cut], 0)
    assert str(caught.value) == text
    with pytest.raises(DecodeError) as caught:
        build_reader(spec, 0).read(data[:-cut], 0)
    assert str(caught.value) == text.replace("value", "int32")


def test_plans_are_built_once_and_unknown_ones_are_unknown_apis() -> None:
    plans = Plans(role_of, role_of, row_if_partition, len(NAMES))
    assert plans.get(1, 12, True) is plans.get(1, 12, True)
    assert plans.get(1, 12, True) is not plans.get(1, 12, False)
    assert plans.get(1, 12, True).spec.name == "FetchResponse"
    for key, version in ((1, 19), (1, -1), (95, 0), (-1, 0), (501, 0)):
        with pytest.raises(UnknownApi):
            plans.get(key, version, False)


# Every field of every vector, as rows, against the full read.


class Everything:
    """Gives each field of a layout its own role, and each struct a row."""

    def __init__(self) -> None:
        self.roles: dict[tuple[str, ...], int] = {}
        self.fields: list[FieldSpec] = []

    def role_of(self, field: FieldSpec, path: tuple[str, ...]) -> Role | None:
        if field.is_struct and not field.is_array:
            return None
        number = self.roles.setdefault((*path, field.name), len(self.roles))
        self.fields += [field] * (number == len(self.fields))
        return Role(number, is_count=field.is_array and field.is_struct)


class Decoded(Sink):
    """Turns the slots back into the values that `read` gives."""

    def __init__(self, everything: Everything) -> None:
        super().__init__()
        self.everything = everything
        self.rows: list[dict[str, object]] = []

    def row(self, shape: Shape, data: bytes) -> None:
        row: dict[str, object] = {}
        for role, slot in enumerate(shape.slots):
            if slot:
                field = self.everything.fields[role]
                row[shape.names[role]] = decoded(field, self.slots[slot], data)
        self.rows.append(row)


def decoded(field: FieldSpec, value: int, data: bytes) -> object:
    if (field.is_array and field.is_struct) or field.type.startswith(("int", "uint")):
        return value
    if value == NULL:
        return None
    if field.type == "bool":
        return bool(value)
    if field.type == "uuid":
        return base64.urlsafe_b64encode(data[value : value + 16]).decode()[:22]
    if field.type == "float64":
        return struct.unpack_from(">d", data, value)[0]
    raw = data[value >> 32 : (value >> 32) + (value & 0xFFFFFFFF)]
    return raw.decode("utf-8", "backslashreplace") if field.type == "string" else raw


def expected_rows(
    values: dict[str, object], fields: tuple[FieldSpec, ...], version: int
) -> Iterator[dict[str, object]]:
    """The rows of a struct that was read, inner ones first."""
    row: dict[str, object] = {}
    by_name = {snake_case(f.name): f for f in fields if version in f.versions}
    for name, field in by_name.items():
        if field.is_struct and not field.is_array:
            continue
        if not field.is_array:
            absent = NULL if field.type.startswith(("int", "uint")) else None
            row[name] = values.get(name, absent)
        elif field.is_struct:
            items = values.get(name)
            row[name] = len(items) if isinstance(items, list) else NULL
    for name, value in values.items():
        if name == "unknown_tags":
            continue
        field = by_name[name]
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                yield from expected_rows(item, field.fields, version)
            elif field.is_array and not field.is_struct and isinstance(value, list):
                yield {name: item}
    yield row


def everything_plan(spec: MessageSpec, version: int) -> tuple[Plan, Everything]:
    everything = Everything()
    build_projection(spec, version, everything.role_of, lambda _r, _b: 1, 1000)
    inherited: frozenset[int] = frozenset()
    count = len(everything.roles)
    plan = build_projection(spec, version, everything.role_of, lambda _r, _b: 1, count, inherited)
    return plan, everything


@pytest.mark.slow
def test_every_field_of_every_vector_is_projected_as_it_is_read() -> None:
    for name, version, raw, _ in VECTORS:
        spec = spec_of(name)
        plan, everything = everything_plan(spec, version)
        sink = Decoded(everything)
        data = b"\xee" + raw
        assert plan.run(data, 1, sink) == len(data)
        values, _ = build_reader(spec, version).read(data, 1)
        assert isinstance(values, dict)
        assert (name, version, sink.rows) == (
            name, version, list(expected_rows(values, spec.fields, version))
        )  # fmt: skip


@given(st.data())
def test_a_vector_with_other_bytes_is_projected_or_is_a_decode_error(data: st.DataObject) -> None:
    name, version, raw, _ = data.draw(st.sampled_from(VECTORS))
    changed = bytearray(raw + b"\0")
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(raw)))] = data.draw(st.integers(0, 255))
    spec = spec_of(name)
    reader = build_reader(spec, version)
    plan, everything = everything_plan(spec, version)
    try:
        end = plan.run(bytes(changed), 0, Decoded(everything))
    except DecodeError:
        with pytest.raises(DecodeError):
            reader.read(bytes(changed), 0)
        return
    assert reader.skip(bytes(changed), 0) == end


@given(st.data())
def test_any_bytes_are_projected_or_are_a_decode_error(data: st.DataObject) -> None:
    api = APIS[data.draw(st.sampled_from(sorted(APIS)))]
    version = data.draw(st.integers(api.lowest, api.highest))
    spec = api.definition().layouts[data.draw(st.sampled_from(["request", "response"]))]
    plan, everything = everything_plan(spec, version)
    raw = data.draw(st.binary(max_size=200))
    try:
        end = plan.run(raw, 0, Decoded(everything))
    except DecodeError:
        with pytest.raises(DecodeError):
            build_reader(spec, version).read(raw, 0)
        return
    assert build_reader(spec, version).skip(raw, 0) == end
