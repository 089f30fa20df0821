"""Nulls where a layout has none: taken as null, and reported with path and offset."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdissect
from kdissect.errors import DecodeError
from kdissect.messages.bodies import decode, decode_request
from kdissect.messages.embedded import open_body
from kdissect.messages.layout_choice import body_readers
from kdissect.protocol.apis import APIS
from kdissect.protocol.layouts import build_reader
from kdissect.protocol.specs import MessageSpec
from kdissect.protocol.unexpected_nulls import PLACES_LIMIT, has_null, null_places, required_of
from tests.protocol.layouts import int32, layout, length16

CAPTURES = sorted((Path(__file__).parents[2] / "captures").rglob("*.pcap*"))


def places(spec: MessageSpec, data: bytes) -> list[tuple[str, int]]:
    """The unexpected nulls of all of `data`; both ways to look agree on whether there are any."""
    values, end = build_reader(spec, 0).read(data, 0)
    assert end == len(data)
    assert isinstance(values, dict)
    found = null_places(spec.fields, 0, 0 in spec.flexible, data, 0)
    assert has_null(required_of(spec.fields, 0), values) == bool(found)
    return [(place["path"], place["offset"]) for place in found]


def test_unexpected_null_strings_arrays_and_bytes_are_reported() -> None:
    spec = layout("Id int32", "Name string", "Ids [int32]", "Raw bytes", "Rack string?")
    data = int32(7) + b"\xff\xff" + int32(-1) + int32(-1) + b"\xff\xff"
    assert places(spec, data) == [("name", 4), ("ids", 6), ("raw", 10)]
    assert places(spec, int32(7) + length16("") + int32(0) + int32(0) + b"\xff\xff") == []


def test_an_element_of_an_array_is_never_null() -> None:
    spec = layout("Topics [Topic]", "  Name string", "  Racks [string]?")
    data = (
        int32(2) + length16("a") + int32(-1) + b"\xff\xff" + int32(2) + length16("r") + b"\xff\xff"
    )
    assert places(spec, data) == [("topics[1].name", 11), ("topics[1].racks[1]", 20)]


def test_tags_and_structs_that_may_be_null_are_looked_into() -> None:
    spec = layout(
        "Node Node?", "  Host string", "Late string tag 0", "Leader Leader? tag 1", "  Rack string",
        flexible=True,
    )  # fmt: skip
    assert places(spec, b"\xff\x00") == []
    data = b"\x01\x00\x00" + b"\x03" + b"\x00\x01\x00" + b"\x01\x03\x01\x00\x00" + b"\x07\x02xx"
    assert places(spec, data) == [("node.host", 1), ("late", 6), ("leader.rack", 10)]


def test_only_the_first_unexpected_nulls_of_a_hostile_body_are_reported() -> None:
    data = int32(5000) + b"\xff\xff" * 5000
    assert len(places(layout("Names [string]"), data)) == PLACES_LIMIT


def test_full_decodes_report_the_offset_in_the_decoded_bytes() -> None:
    body = b"\xff\xff" + int32(3) + b"\xff\xff"
    heartbeat = {"group_id": None, "generation_id": 3, "member_id": None}
    told = [{"path": "group_id", "offset": 0}, {"path": "member_id", "offset": 6}]
    assert decode("Heartbeat", 0, "request", body) == {"unexpected_nulls": told, **heartbeat}
    frame = b"\0\x0c\0\0" + bytes(4) + b"\xff\xff" + body
    told = [{"path": "group_id", "offset": 10}, {"path": "member_id", "offset": 16}]
    assert decode_request(frame)[1] == {"unexpected_nulls": told, **heartbeat}
    loose = decode_request(frame + b"!")[1]
    assert loose == {"unexpected_nulls": told, **heartbeat, "trailing_size": 1}


def test_member_metadata_and_assignments_are_checked() -> None:
    opened: dict[str, Any] = {
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0" + int32(1) + b"\xff\xff"}],
    }
    open_body(11, opened, is_response=False)
    assert opened["protocols"][0]["metadata"] == {
        "size": 8,
        "unexpected_nulls": [{"path": "topics[0]", "offset": 6}],
        "version": 0,
        "topics": [None],
    }


@given(st.sampled_from(sorted(APIS)), st.data(), st.binary(max_size=200), st.booleans())
def test_both_ways_to_look_agree_on_any_bytes(
    key: int, chosen: st.DataObject, data: bytes, is_request: bool
) -> None:
    api = APIS[key]
    version = chosen.draw(st.integers(api.lowest, api.highest))
    side = "request" if is_request else "response"
    for each in body_readers(f"apis/{api.name}", api.name, side, version):
        with contextlib.suppress(DecodeError):
            values, end = each.reader.read(data, 0)
            assert isinstance(values, dict)
            found = null_places(each.spec.fields, version, version in each.spec.flexible, data, 0)
            assert has_null(each.required, values) == bool(found)
            assert all(0 <= place["offset"] < end for place in found)


def has_note(value: Any) -> bool:
    if isinstance(value, dict):
        return "unexpected_nulls" in value or any(map(has_note, value.values()))
    return isinstance(value, list) and any(map(has_note, value))


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_real_clients_and_brokers_write_no_such_null(path: Path) -> None:
    for exchange in kdissect.dissect(str(path)):
        for side in ("request", "response"):
            with contextlib.suppress(DecodeError):
                assert not has_note(exchange.body(side))
