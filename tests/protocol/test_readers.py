import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import DecodeError, InvalidValue, SchemaError, Truncated, UnknownApi
from kdissect.protocol.apis import APIS
from kdissect.protocol.layouts import build_reader
from kdissect.protocol.specs import MessageSpec
from tests.protocol.layouts import compact, int32, layout, length16
from tests.protocol.test_vectors import VECTORS, spec_of


def read_whole(spec: MessageSpec, data: bytes) -> object:
    """The value of all of `data`, which `skip` passes as well."""
    reader = build_reader(spec, 0)
    value, end = reader.read(data, 0)
    assert end == reader.skip(data, 0) == len(data)
    return value


def test_fields_come_in_wire_order_with_snake_case_names() -> None:
    spec = layout("ThrottleTimeMs int32", "TopicId uuid", "IsInternal bool")
    assert read_whole(spec, int32(5) + bytes(16) + b"\x01") == {
        "throttle_time_ms": 5,
        "topic_id": "A" * 22,
        "is_internal": True,
    }


def test_a_null_array_is_none_and_an_empty_one_is_not() -> None:
    spec = layout("Names [string]")
    assert read_whole(spec, int32(-1)) == {"names": None}
    assert read_whole(spec, int32(0)) == {"names": []}
    assert read_whole(spec, int32(2) + length16("a") + b"\xff\xff") == {"names": ["a", None]}


def test_flexible_structs_end_with_tags_at_every_level() -> None:
    spec = layout("Topics [Topic]", "  Name string", flexible=True)
    data = b"\x02" + compact("t") + b"\x00" + b"\x00"
    assert read_whole(spec, data) == {"topics": [{"name": "t"}]}


def test_tagged_fields_are_read_and_unknown_tags_kept() -> None:
    spec = layout("A int8", "Late string? tag 2 = null", "Ids [int32] tag 5", flexible=True)
    data = (
        b"\x07" + b"\x03" + b"\x02\x02" + compact("x") + b"\x05\x05\x02" + int32(9) + b"\x63\x01!"
    )
    assert read_whole(spec, data) == {"a": 7, "late": "x", "ids": [9], "unknown_tags": {99: b"!"}}
    assert read_whole(spec, b"\x07\x00") == {"a": 7}


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_tagged_field_that_does_not_fill_its_size_is_an_invalid_value(size: int) -> None:
    spec = layout("Late int16 tag 2", flexible=True)
    with pytest.raises(InvalidValue) as caught:
        build_reader(spec, 0).read(b"\x01\x02" + bytes([size]) + bytes(size) + bytes(4), 0)
    assert caught.value.path == "late"


def test_a_tag_longer_than_the_data_is_truncated() -> None:
    spec = layout("A int8", flexible=True)
    for data in (b"\x00\x01\x05\x03ab", b"\x00\xff\xff\xff\xff\x0f"):
        with pytest.raises(Truncated):
            build_reader(spec, 0).read(data, 0)
        with pytest.raises(Truncated):
            build_reader(spec, 0).skip(data, 0)


def test_a_nullable_struct_starts_with_a_presence_byte() -> None:
    spec = layout("Node N?", "  Id int32", flexible=True)
    assert read_whole(spec, b"\xff\x00") == {"node": None}
    assert read_whole(spec, b"\x01" + int32(4) + b"\x00\x00") == {"node": {"id": 4}}


def test_a_nullable_struct_in_a_tag_starts_with_a_varint() -> None:
    spec = layout("Node N? tag 0 = null", "  Id int32", flexible=True)
    assert read_whole(spec, b"\x01\x00\x01\x00") == {"node": None}
    assert read_whole(spec, b"\x01\x00\x06\x01" + int32(4) + b"\x00") == {"node": {"id": 4}}


def test_an_inflexible_field_keeps_its_old_length_in_a_flexible_struct() -> None:
    spec = layout("ClientId string? inflexible", flexible=True)
    assert read_whole(spec, length16("me") + b"\x00") == {"client_id": "me"}


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        (layout("Ids [int64]"), b"\x7f\xff\xff\xff"),
        (layout("Ids [int64]", flexible=True), b"\xff\xff\xff\xff\x0f"),
        (layout("Names [string]", flexible=True), b"\xff\xff\xff\xff\x0f"),
        (layout("S [S]", "  A int8", flexible=True), b"\x80\x80\x80\x80\x08" + bytes(100)),
    ],
)
def test_a_count_that_cannot_be_true_is_truncated_at_once(spec: MessageSpec, data: bytes) -> None:
    with pytest.raises(Truncated, match="elements take at least"):
        build_reader(spec, 0).read(data, 0)
    with pytest.raises(Truncated, match="elements take at least"):
        build_reader(spec, 0).skip(data, 0)


def test_a_count_below_null_is_an_invalid_value() -> None:
    with pytest.raises(InvalidValue, match="count -2"):
        build_reader(layout("Ids [int32]"), 0).read(int32(-2), 0)


def test_elements_without_bytes_are_a_schema_error() -> None:
    with pytest.raises(SchemaError, match="take no bytes"):
        build_reader(layout("S [S]"), 0)


def test_invalid_utf8_is_shown_with_backslashes() -> None:
    assert read_whole(layout("Name string"), b"\x00\x03a\xff\n") == {"name": "a\\xff\n"}


def test_the_error_of_a_cut_run_of_fixed_fields_names_the_field() -> None:
    reader = build_reader(layout("A int8", "Inner I", "  B int16", "C int32"), 0)
    with pytest.raises(Truncated) as caught:
        reader.skip(bytes(6), 0)
    assert (caught.value.path, caught.value.offset) == ("c", 3)


def test_a_version_that_is_not_there_is_an_unknown_api() -> None:
    with pytest.raises(UnknownApi, match="no layout for Test v1"):
        build_reader(layout("A int8"), 1)


def check_any(spec: MessageSpec, version: int, data: bytes) -> None:
    """`data` is a value or a DecodeError; a readable value can be skipped to the same end."""
    reader = build_reader(spec, version)
    try:
        _, end = reader.read(data, 0)
    except DecodeError as error:
        failure: DecodeError | None = error
    else:
        failure = None
        assert reader.skip(data, 0) == end <= len(data)
    if failure is not None:
        assert (failure.data, 0 <= failure.offset <= len(data)) == (data, True)
        with contextlib.suppress(DecodeError):
            assert reader.skip(data, 0) <= len(data)


@given(st.data())
def test_any_bytes_are_values_or_a_decode_error(data: st.DataObject) -> None:
    api = APIS[data.draw(st.sampled_from(sorted(APIS)))]
    version = data.draw(st.integers(api.lowest, api.highest))
    spec = api.definition().layouts[data.draw(st.sampled_from(["request", "response"]))]
    check_any(spec, version, data.draw(st.binary(max_size=300)))


@given(st.data())
def test_vectors_with_other_bytes_are_values_or_a_decode_error(data: st.DataObject) -> None:
    name, version, raw, _ = data.draw(st.sampled_from(VECTORS))
    changed = bytearray(raw + b"\0")
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(raw)))] = data.draw(st.integers(0, 255))
    check_any(spec_of(name), version, bytes(changed))
