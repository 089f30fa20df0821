import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdissect
from kdissect.errors import DecodeError, InvalidValue, Truncated, UnknownApi
from kdissect.messages.bodies import decode, decode_body, decode_frame, decode_request
from kdissect.protocol.apis import APIS

HEARTBEAT_V0 = b"\x00\x01g" + b"\x00\x00\x00\x05" + b"\x00\x01m"
HEARTBEAT = {"group_id": "g", "generation_id": 5, "member_id": "m"}


def header(key: int, version: int, tags: bytes = b"") -> bytes:
    return (
        key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\x00\x00\x00\x07\x00\x02me" + tags
    )


def test_a_body_is_decoded_by_name_former_name_or_key() -> None:
    for api in ("Heartbeat", "heartbeat", 12, "12"):
        assert decode(api, 0, "request", HEARTBEAT_V0) == HEARTBEAT
    assert decode("Offsets", 0, "request", b"\xff" * 4 + bytes(4)) == {
        "replica_id": -1,
        "topics": [],
    }


def test_decode_is_a_public_name() -> None:
    assert kdissect.decode is decode


def test_a_request_frame_gives_header_and_body() -> None:
    assert decode_request(header(12, 0) + HEARTBEAT_V0) == (
        {"api_key": 12, "api_version": 0, "correlation_id": 7, "client_id": "me"},
        HEARTBEAT,
    )


def test_a_request_without_client_id_has_none() -> None:
    frame = header(12, 0)[:8] + b"\xff\xff" + HEARTBEAT_V0
    assert decode_request(frame)[0]["client_id"] is None


def test_frames_are_decoded_behind_their_headers() -> None:
    assert decode_frame(12, 0, header(12, 0) + HEARTBEAT_V0, is_response=False) == HEARTBEAT
    flexible = bytes(4) + b"\x00" + b"\x00\x00\x00\x09" + b"\x00\x1b" + b"\x00"
    assert decode_frame(12, 4, flexible, is_response=True) == {
        "throttle_time_ms": 9,
        "error_code": 27,
    }


def test_an_unsupported_api_versions_request_has_its_answer_in_the_oldest_layout() -> None:
    entry = b"\x00\x12\x00\x00\x00\x03"
    frame = bytes(4) + b"\x00\x23" + b"\x00\x00\x00\x01" + entry
    assert decode_frame(18, 4, frame, is_response=True) == {
        "error_code": 35,
        "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 3}],
    }


def test_bytes_left_over_are_an_invalid_value_with_their_offset() -> None:
    with pytest.raises(InvalidValue) as caught:
        decode("Heartbeat", 0, "request", HEARTBEAT_V0 + b"???")
    assert str(caught.value) == "3 bytes left over, byte 10 of 13"


def test_the_error_of_a_cut_body_names_the_field() -> None:
    with pytest.raises(Truncated) as caught:
        decode("Heartbeat", 0, "request", HEARTBEAT_V0[:-1])
    assert str(caught.value) == "length 1, only 0 bytes left at member_id, byte 7 of 9"


@pytest.mark.parametrize(
    ("api", "version"), [("Heartbeat", 5), ("Heartbeat", -1), (95, 0), ("No", 0)]
)
def test_unknown_apis_and_versions_are_unknown_apis(api: str | int, version: int) -> None:
    with pytest.raises(UnknownApi):
        decode(api, version, "request", HEARTBEAT_V0)


def test_a_direction_is_request_or_response() -> None:
    with pytest.raises(ValueError, match="direction is request or response, not 'both'"):
        decode("Heartbeat", 0, "both", HEARTBEAT_V0)


def test_a_layout_of_a_preview_is_tried_when_the_final_one_does_not_fit() -> None:
    group = b"\x00\x01g" + b"\x00\x00\x00\x1e"
    final = group + b"\x00\x01m" + b"\x00\x01t" + b"\x00\x00\x00\x00"
    assert decode("JoinGroup", 0, "request", final) == {
        "group_id": "g",
        "session_timeout_ms": 30,
        "member_id": "m",
        "protocol_type": "t",
        "protocols": [],
    }
    of_0_8_2 = group + b"\x00\x00\x00\x01\x00\x01t" + b"\x00\x01c" + b"\x00\x01s"
    assert decode("JoinGroup", 0, "request", of_0_8_2) == {
        "layout_of": "0.8.2",
        "group_id": "g",
        "session_timeout_ms": 30,
        "topics": ["t"],
        "consumer_id": "c",
        "partition_assignment_strategy": "s",
    }


def test_the_error_of_the_final_layout_is_raised_when_no_layout_fits() -> None:
    with pytest.raises(Truncated) as caught:
        decode("JoinGroup", 0, "request", b"\x00\x09g")
    assert caught.value.path == "group_id"


def test_credentials_are_redacted_except_in_raw_bytes() -> None:
    token = b"\x00\x00\x00\x08\x00me\x00pass"
    assert decode("SaslAuthenticate", 0, "request", token) == {"auth_bytes": "<redacted, 8 bytes>"}
    assert decode_body("SaslAuthenticate", 0, "request", token) == {"auth_bytes": token[4:]}


@given(st.sampled_from(sorted(APIS)), st.integers(0, 18), st.booleans(), st.binary(max_size=200))
def test_any_bytes_are_a_body_or_a_decode_error(
    key: int, version: int, is_response: bool, data: bytes
) -> None:
    with contextlib.suppress(DecodeError):
        assert isinstance(decode_frame(key, version, data, is_response), dict)
