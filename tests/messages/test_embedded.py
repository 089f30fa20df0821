import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdissect
from kdissect.cli.tree import tree_lines
from kdissect.errors import DecodeError
from kdissect.messages.bodies import decode, decode_frame
from kdissect.messages.embedded import decode_forwarded, decode_principal
from kdissect.messages.full_bodies import body_json, jsonable
from kdissect.messages.group_protocols import decode_member, opened_member
from kdissect.messages.opened_records import shaped
from kdissect.messages.streams_assignment import decode_streams_assignment

CAPTURES = Path(__file__).parent.parent.parent / "captures"
# From quickstart.pcapng: Java 4.x, SyncGroup v5.
ASSIGNMENT = bytes.fromhex("0003 00000001 0006") + b"orders" + bytes.fromhex(
    "00000002 00000002 00000003 ffffffff"
)  # fmt: skip


def text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def int32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "big", signed=True) for value in values)


def test_an_assignment_is_its_topics_and_partitions() -> None:
    assert opened_member(ASSIGNMENT, "Assignment", "consumer", "range") == {
        "size": 30,
        "version": 3,
        "assigned_partitions": [{"topic": "orders", "partitions": [2, 3]}],
        "user_data": None,
    }


def test_a_member_without_assignment_has_empty_bytes() -> None:
    assert opened_member(b"", "Assignment", "consumer", "range") == b""
    assert opened_member(None, "Assignment", "consumer", "range") is None


def test_a_newer_version_is_read_as_the_newest_known_one_and_the_rest_counted() -> None:
    data = b"\x00\x09" + ASSIGNMENT[2:] + b"more"
    assert decode_member(data, "Assignment", "consumer", "range") == {
        "version": 9,
        "assigned_partitions": [{"topic": "orders", "partitions": [2, 3]}],
        "user_data": None,
        "trailing_size": 4,
    }


def test_fields_may_be_missing_at_the_end() -> None:
    data = b"\x00\x01" + int32(1) + text("t")
    assert decode_member(data, "Subscription", "consumer", "range") == {
        "version": 1,
        "topics": ["t"],
    }


def test_user_data_of_the_sticky_assignors_is_opened() -> None:
    def subscription(user_data: bytes) -> bytes:
        return b"\x00\x00" + int32(0) + int32(len(user_data)) + user_data

    previous = int32(1) + text("t") + int32(1, 5)
    for name, user_data, values in (
        ("cooperative-sticky", int32(7), {"size": 4, "generation": 7}),
        (
            "sticky",
            previous + int32(7),
            {
                "size": 19,
                "previous_assignment": [{"topic": "t", "partitions": [5]}],
                "generation": 7,
            },
        ),
        (
            "sticky",
            previous,
            {"size": 15, "previous_assignment": [{"topic": "t", "partitions": [5]}]},
        ),
        (
            "mine",
            b"secret",
            {"undecoded": 6, "error": "user data of assignor 'mine' is not known"},
        ),
    ):
        body = decode_member(subscription(user_data), "Subscription", "consumer", name)
        assert body["user_data"] == values


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[[{"a":[', b'[1,{"b":2,"a":'])
def test_json_that_is_nested_too_deeply_to_be_walked_is_not_decoded(opening: bytes) -> None:
    closing = opening.translate(bytes.maketrans(b"[{", b"]}"), b'"ab:12,')[::-1]
    steps = len(closing)
    for count in (1, 63 // steps, 64 // steps, 64 // steps + 1, 300 // steps, 600 // steps, 9_999):
        data = opening * count + b"1" + closing * count
        member = opened_member(data, "Subscription", "sr", "v0")
        if count * steps <= 64:
            assert member == {"size": len(data), "json": json.loads(data)}
        else:
            assert member.keys() == {"undecoded", "error"}
        body = {"protocols": [{"metadata": member}]}
        assert body_json(body, False) == json.dumps(body, ensure_ascii=False)
        assert json.dumps(jsonable(shaped(body, False)), ensure_ascii=False) == json.dumps(body)
        assert list(tree_lines(body, ""))


def test_connect_and_schema_registry_members_are_read() -> None:
    connect = b"\x00\x00" + text("http://w:8083/") + (9).to_bytes(8, "big")
    assert opened_member(connect, "Subscription", None, "default") == {
        "size": 26,
        "read_as": "connect",
        "version": 0,
        "url": "http://w:8083/",
        "config_offset": 9,
    }
    assert opened_member(b'{"a":1}', "Subscription", "sr", "v0") == {"size": 7, "json": {"a": 1}}


def test_a_streams_assignment_is_read_by_its_written_format() -> None:
    # facts 11: version, newest, active, standby, topics, hosts, standby hosts, error, time.
    data = int32(7, 11) + int32(1, 0, 2) + int32(1, 1, 0, 1) + text("t") + int32(3)
    data += int32(1, 0) + text("t") + int32(1) + text("h") + int32(9000, 1, 0, 4)
    data += int32(0, 0) + (99).to_bytes(8, "big")
    assert decode_streams_assignment(data) == {
        "version": 7,
        "latest_supported_version": 11,
        "active_tasks": [{"subtopology": 0, "partition": 2}],
        "standby_tasks": [
            {"subtopology": 1, "partition": 0, "partitions": [{"topic": "t", "partition": 3}]}
        ],
        "partitions_by_host": [
            {"host": "h", "port": 9000, "partitions": [{"topic": "t", "partition": 4}]}
        ],
        "standby_partitions_by_host": [],
        "error_code": 0,
        "next_rebalance_ms": 99,
    }


def test_tasks_of_named_topologies_have_their_names() -> None:
    data = int32(10, 11) + int32(1, 0, 2, 1) + b"\x00n" + int32(0, 0, 0, 0, 0) + bytes(8)
    assert decode_streams_assignment(data)["active_tasks"] == [
        {"subtopology": 0, "partition": 2, "topology": "n"}
    ]


def envelope(request: bytes, principal: bytes) -> bytes:
    fields = (request, principal, b"\x7f\x00\x00\x01")
    return b"".join(bytes([len(field) + 1]) + field for field in fields) + b"\x00"


# CreateDelegationToken v1 has an HMAC in its answer.
REQUEST = bytes.fromhex("0026 0001 00000007 0002") + b"me" + int32(0) + (9).to_bytes(8, "big")
PRINCIPAL = bytes.fromhex("0000") + b"\x05User\x03bo\x00\x00"


def test_a_forwarded_request_and_its_principal_are_opened() -> None:
    assert decode("Envelope", 0, "request", envelope(REQUEST, PRINCIPAL)) == {
        "request_data": {
            "size": 24,
            "api": "CreateDelegationToken",
            "api_version": 1,
            "correlation_id": 7,
            "body": {"renewers": [], "max_lifetime_ms": 9},
        },
        "request_principal": {
            "size": 12,
            "version": 0,
            "type": "User",
            "name": "bo",
            "token_authenticated": False,
        },
        "client_host_address": "127.0.0.1",
    }


def forwarded_answer() -> bytes:
    inner = int32(7) + b"\x00\x00" + text("User") + text("bo") + bytes(24) + text("id")
    inner += int32(8) + b"theHMAC!" + int32(0)
    return int32(1) + b"\x00" + bytes([len(inner) + 1]) + inner + b"\x00\x00" + b"\x00"


def test_a_forwarded_answer_is_opened_with_its_request_and_redacted() -> None:
    frame = bytes.fromhex("003a 0000 00000001 ffff 00") + envelope(REQUEST, PRINCIPAL)
    body = decode_frame(58, 0, forwarded_answer(), True, frame)
    assert body["response_data"]["body"]["hmac"] == "<redacted, 8 bytes>"


def test_a_forwarded_answer_without_its_request_is_its_size() -> None:
    body = decode_frame(58, 0, forwarded_answer(), True)
    assert body["response_data"] == {"undecoded": 60, "error": "the request was not captured"}


def test_a_forwarded_request_that_cannot_be_read_is_its_size() -> None:
    body = decode("Envelope", 0, "request", envelope(REQUEST[:-1], b""))
    assert body["request_data"]["undecoded"] == 23
    assert body["request_principal"]["undecoded"] == 0


def test_an_envelope_in_an_envelope_is_not_opened() -> None:
    with pytest.raises(DecodeError, match="an Envelope in an Envelope"):
        decode_forwarded(bytes.fromhex("003a 0000 00000001 ffff 00"))


def test_an_envelope_of_nulls_stays_one() -> None:
    nulls = {"request_data": None, "request_principal": None, "client_host_address": None}
    body = decode("Envelope", 0, "request", bytes(4))
    told = [place["path"] for place in body.pop("unexpected_nulls")]
    assert (told, body) == (["request_data", "client_host_address"], nulls)


def test_the_assignments_of_quickstart_are_those_the_clients_got() -> None:
    rebalances = json.loads((CAPTURES / "quickstart.json").read_text())["rebalances"]
    rows = [dict(zip(rebalances["columns"], row, strict=True)) for row in rebalances["rows"]]
    told = {
        (row["member_id"], tuple(map(tuple, row["partitions"])))
        for row in rows
        if row["event"] == "assigned" and row["member_id"] and row["partitions"]
    }
    seen = set()
    for exchange in kdissect.dissect(CAPTURES / "quickstart.pcapng", where="api = 'SyncGroup'"):
        assignment = exchange.response["assignment"]
        if assignment:
            partitions = [
                (topic["topic"], partition)
                for topic in assignment["assigned_partitions"]
                for partition in topic["partitions"]
            ]
            seen.add((exchange.request["member_id"], tuple(sorted(partitions))))
    assert told
    assert {(member, tuple(sorted(partitions))) for member, partitions in told} <= seen


@given(
    st.binary(max_size=200),
    st.sampled_from(["Subscription", "Assignment"]),
    st.sampled_from(["consumer", "connect", "sr", "other"]),
    st.sampled_from(["sticky", "cooperative-sticky", "stream", "range"]),
)
def test_any_bytes_are_members_or_decode_errors(
    data: bytes, part: str, kind: str, name: str
) -> None:
    for raw in (data, b"\x00\x01" + data):
        with contextlib.suppress(DecodeError):
            decode_member(raw, part, kind, name)


@given(st.binary(max_size=200), st.integers(1, 11))
def test_any_bytes_are_streams_assignments_or_decode_errors(data: bytes, version: int) -> None:
    with contextlib.suppress(DecodeError):
        decode_streams_assignment(int32(version) + data)


@given(st.binary(max_size=200))
def test_any_bytes_are_forwarded_requests_or_decode_errors(data: bytes) -> None:
    for decoder in (decode_forwarded, decode_principal):
        with contextlib.suppress(DecodeError):
            decoder(data)
