"""Facts not in the message definitions; each test cites its section."""

import contextlib
from typing import Any

import pytest

from kdissect.errors import DecodeError
from kdissect.messages import headers
from kdissect.messages.bodies import decode, decode_frame
from kdissect.protocol import apis
from kdissect.protocol.layouts import build_reader
from tests.conversation import conversation
from tests.exchange_builders import (
    found_in,
    make_body,
    raw_request,
    raw_response,
    request,
    response,
    sized,
)
from tests.protocol.layouts import layout


def answered(version: int, body: bytes) -> Any:
    """The body of an ApiVersions response to a request of `version`."""
    return decode_frame(apis.API_VERSIONS, version, b"\0\0\0\1" + body, is_response=True)


def test_the_smallest_request_has_10_bytes_and_the_smallest_response_6() -> None:
    """Section 1."""
    asked = request("ListGroups", 0, 1, client_id=None)
    beat = response("Heartbeat", 0, 2)
    assert (len(asked) - 4, len(beat) - 4) == (10, 6)
    talk = conversation().open().client(asked).broker(response("ListGroups", 0, 1))
    talk = talk.client(request("Heartbeat", 0, 2)).broker(beat)
    columns = ("api", "client_id", "request_size", "response_size", "decode_status")
    assert found_in(talk).columns(*columns) == [
        ("ListGroups", None, 10, 10, "ok"),
        ("Heartbeat", "shop", 22, 6, "ok"),
    ]


def test_the_smallest_controlled_shutdown_has_12_bytes() -> None:
    """Section 1; its header has no client id: section 2."""
    asked = request("ControlledShutdown", 0, 1, broker_id=3)
    assert len(asked) - 4 == 12
    talk = conversation().open().client(asked).broker(response("ControlledShutdown", 0, 1))
    assert found_in(talk).columns("client_id", "decode_status") == [(None, "ok")]


def test_one_field_structs_are_that_field_only_where_there_are_no_tags() -> None:
    """Section 1."""
    structs, plain = ("Topics [T]", "  Name string"), ("Topics [string]",)
    old = b"\0\0\0\2\0\1a\0\1b"
    names = [{"name": "a"}, {"name": "b"}]
    assert build_reader(layout(*structs), 0).read(old, 0) == ({"topics": names}, len(old))
    assert build_reader(layout(*plain), 0).read(old, 0) == ({"topics": ["a", "b"]}, len(old))
    new, with_tags = b"\3\2a\2b\0", b"\3\2a\0\2b\0\0"
    flexible = build_reader(layout(*plain, flexible=True), 0)
    assert flexible.read(new, 0) == ({"topics": ["a", "b"]}, len(new))
    flexible = build_reader(layout(*structs, flexible=True), 0)
    assert flexible.read(with_tags, 0) == ({"topics": names}, len(with_tags))


@pytest.mark.parametrize("length", [b"\xff\xff", b"\0\0"])
def test_null_and_empty_strings_are_read_where_old_clients_wrote_them(length: bytes) -> None:
    """Section 1: null is accepted everywhere, also in an array of strings, and flagged."""
    body = decode("Metadata", 0, "request", b"\0\0\0\2" + length + b"\0\1a")
    told = [{"path": "topics[0].name", "offset": 4}] if length == b"\xff\xff" else None
    assert body.pop("unexpected_nulls", None) == told
    assert body == {"topics": [{"name": None if length == b"\xff\xff" else ""}, {"name": "a"}]}


def test_a_character_count_in_place_of_a_byte_count_is_a_problem_that_keeps_the_row() -> None:
    """Section 1: before KAFKA-680."""
    talk = conversation().open().client(request("Metadata", 0, 1, body=b"\0\0\0\1\0\4caf\xc3\xa9"))
    found = found_in(talk.broker(response("Metadata", 0, 1)))
    assert found.columns("api", "client_id", "decode_status") == [("Metadata", "shop", "leftover")]
    assert found.columns("kind", "message", table="problems") == [
        ("leftover-request", "Metadata request v0: 1 bytes left over at byte 24 of 25")
    ]


def test_missing_bytes_are_a_problem_with_the_path_and_offset_of_both_decoders() -> None:
    """Section 1, and the library's promise: the tables and the full decode agree."""
    topics = [{"topic": "orders"}, {"topic": "payments"}]
    body = make_body("Fetch", 4, "request", {"topics": topics})[:-6]
    frame = request("Fetch", 4, 1, body=body)
    talk = conversation().open().client(frame).broker(response("Fetch", 4, 1))
    message = found_in(talk).columns("kind", "message", table="problems")
    with pytest.raises(DecodeError) as error:
        decode_frame(1, 4, frame[4:], is_response=False)
    assert error.value.path == "topics[1].topic"
    at = f"at {error.value.path}, byte {error.value.offset} of {len(frame) - 4}"
    assert len(message) == 1
    assert message[0][0] == "undecodable-request"
    assert message[0][1].startswith("cannot decode Fetch request v4: ")
    assert message[0][1].endswith(at)
    with pytest.raises(DecodeError) as alone:
        decode("Fetch", 4, "request", body)
    assert alone.value.path == error.value.path
    assert alone.value.offset == error.value.offset - (len(frame) - 4 - len(body))


@pytest.mark.parametrize("api", apis.APIS.values(), ids=lambda api: str(api.name))
def test_headers_follow_the_first_flexible_version(api: apis.ApiKey) -> None:
    """Section 2; brokers use the same rule above the versions they know."""
    for version in range(api.lowest, api.highest + 3):
        is_flexible = 0 <= api.first_flexible <= version
        request_version = 2 if is_flexible else 1
        if (api.name, version) == ("ControlledShutdown", 0):
            request_version = 0
        response_version = 1 if is_flexible and api.name != "ApiVersions" else 0
        assert apis.request_header_version(api.key, version) == request_version
        assert apis.response_header_version(api.key, version) == response_version


def test_the_client_id_is_never_compact() -> None:
    """Section 2: an int16 length in header v2 too."""
    assert headers.read_request_header(request("Metadata", 12, 5, "me")[4:]).body_offset == 13


def test_undefined_tags_are_skipped_in_headers_and_kept_in_bodies() -> None:
    """Sections 1 and 2."""
    tagged = b"\1\x09\2ab"
    frame = b"\0\x0c\0\4\0\0\0\1\0\2me" + tagged + b"\2g\0\0\0\5\2m\0" + tagged
    assert decode_frame(12, 4, frame, is_response=False) == {
        "group_id": "g", "generation_id": 5, "member_id": "m", "group_instance_id": None,
        "unknown_tags": {9: b"ab"},
    }  # fmt: skip


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    ("entries", "keys"),
    [
        (b"\0\0\0\0", []),  # 0.10.0 to 2.3
        (b"\0\0\0\1\0\x12\0\0\0\3", [{"api_key": 18, "min_version": 0, "max_version": 3}]),
    ],
)
def test_an_unsupported_api_versions_request_is_answered_as_v0(
    version: int, entries: bytes, keys: list[Any]
) -> None:
    """Section 3: with no entry, and since 2.4 (KIP-511) with one."""
    assert answered(version, b"\0\x23" + entries) == {"error_code": 35, "api_keys": keys}


def test_other_errors_of_api_versions_come_in_the_version_asked_for() -> None:
    """Section 3; 5 (4.4) has error 129."""
    body = make_body("ApiVersions", 5, "response", {"error_code": 129})
    assert answered(5, body)["error_code"] == 129
    assert answered(3, b"\0\x2a\1\0\0\0\0\0") == {
        "error_code": 42, "api_keys": [], "throttle_time_ms": 0,
    }  # fmt: skip


def test_features_in_the_tags_of_api_versions_are_read() -> None:
    """Section 3: tags 0 to 3 from v3 on."""
    features = [{"name": "kraft.version", "min_version": 0, "max_version": 1}]
    body = make_body("ApiVersions", 4, "response", {
        "supported_features": features, "finalized_features_epoch": 7,
        "finalized_features": [
            {"name": "kraft.version", "max_version_level": 1, "min_version_level": 1}
        ],
        "zk_migration_ready": True,
    })  # fmt: skip
    found = answered(4, body)
    assert found["supported_features"] == features
    assert found["finalized_features_epoch"] == 7
    assert found["zk_migration_ready"] is True


def test_every_shipped_version_is_read_regardless_of_api_versions() -> None:
    """Section 3: the response has min 3 for Produce; a Produce v0 is decoded all the same."""
    offered = make_body("ApiVersions", 0, "response", {
        "api_keys": [{"api_key": 0, "min_version": 3, "max_version": 11}]
    })  # fmt: skip
    talk = conversation().open().client(request("ApiVersions", 0, 1))
    talk = talk.broker(response("ApiVersions", 0, 1, body=offered))
    talk = talk.client(request("Produce", 0, 2, acks=1)).broker(response("Produce", 0, 2))
    assert found_in(talk).column("decode_status") == ["ok", "ok"]


def test_vendors_keys_have_opaque_bodies() -> None:
    """Section 16: header v1, the size and nothing of the body."""
    plausible = {key for first, last in headers.VENDOR_KEYS for key in range(first, last + 1)}
    assert plausible == {key for names in apis.VENDOR_APIS.values() for key in names}
    talk = (
        conversation().open().client(request("Heartbeat", 4, 1)).broker(response("Heartbeat", 4, 1))
    )
    talk = talk.client(raw_request(513, 0, 2, b"\0???")).broker(raw_response(2, b"!!"))
    talk = talk.client(raw_request(10_001, 0, 3, b"?")).broker(raw_response(3, b"!"))
    found = found_in(talk)
    columns = ("api_key", "api", "client_id", "request_size", "response_size", "decode_status")
    assert found.columns(*columns)[1:] == [
        (513, "api-513", "shop", 18, 6, "unknown-api"),
        (10_001, "api-10001", "shop", 15, 5, "unknown-api"),
    ]
    assert found.tables["problems"] == []


def test_a_vendors_request_with_tags_in_its_header_has_its_client_id() -> None:
    """Section 16: as v1 the tags are the first byte of the opaque body."""
    header = headers.read_request_header(b"\1\xf5\0\0\0\0\0\1\0\2me\0????")
    assert (header.client_id_start, header.client_id_size, header.body_offset) == (10, 2, 12)


@pytest.mark.slow
def test_every_throttle_time_is_in_its_column() -> None:
    """Section 14: first, last (Produce) or behind an array (ApiVersions), found by name."""
    wrong = []
    for api in apis.APIS.values():
        spec = api.definition().layouts["response"]
        for version in sorted(spec.versions):
            throttled = [f for f in spec.fields if f.name == "ThrottleTimeMs"]
            if not throttled or version not in throttled[0].versions:
                continue
            asked = {"acks": 1} if api.name == "Produce" else {}
            talk = conversation().open().client(request(api.key, version, 1, **asked))
            talk = talk.broker(response(api.key, version, 1, throttle_time_ms=77))
            found = found_in(talk).column("throttle_ms")
            if found != [77]:
                wrong.append((api.name, version, found))
    assert wrong == []


def test_sizes_below_zero_are_a_problem_and_no_row() -> None:
    """Section 1: the size excludes itself and is never negative."""
    talk = (
        conversation().open().client(request("Heartbeat", 4, 1)).broker(response("Heartbeat", 4, 1))
    )
    found = found_in(talk.client(b"\xff\xff\xff\xfe" + b"junk" * 4))
    assert found.column("api") == ["Heartbeat"]
    assert found.column("kind", "problems") == ["bad-frame-size", "no-resync"]


def test_leftover_bytes_of_a_frame_never_reach_the_next() -> None:
    """Section 1: the size is exact, and the next frame starts behind it."""
    talk = (
        conversation()
        .open()
        .client(sized(request("Heartbeat", 4, 1)[4:] + b"xx") + request("Heartbeat", 4, 2))
    )
    talk = talk.broker(response("Heartbeat", 4, 1)).broker(response("Heartbeat", 4, 2))
    assert found_in(talk).column("decode_status") == ["leftover", "ok"]


def test_any_version_number_is_values_or_a_decode_error() -> None:
    """Section 3: version ranges are those of the definitions, nothing is assumed above them."""
    for api in apis.APIS.values():
        for version in (-1, api.highest + 1, 32767, -32768):
            for side in ("request", "response"):
                with contextlib.suppress(DecodeError):
                    decode(api.key, version, side, bytes(40))
                    raise AssertionError(f"{api.name} v{version} was decoded")
