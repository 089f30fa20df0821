"""Layouts that releases changed under the same version: the row names the release."""

import struct
from typing import Any

import pytest

from kdissect.exchanges.exchange import VARIANTS
from kdissect.messages.bodies import decode_frame
from kdissect.protocol.apis import APIS, find_api
from kdissect.protocol.specs import snake_case
from tests.conversation import Conversation, conversation
from tests.exchange_builders import (
    ORDERS,
    Found,
    Row,
    found_in,
    make_body,
    make_struct,
    request,
    response,
)

COMMITTED = {"partition_index": 3, "committed_offset": 77, "committed_metadata": "note"}
SUMMARY = {"partition": 1, "error_code": 120, "state_epoch": 2, "start_offset": 9}
ASSIGNED = {"error": 0, "assigned_topic_partitions": [{"topic_id": ORDERS, "partitions": [1]}]}
OFFERED = [{"api_key": 3, "min_version": 0, "max_version": 4}, {"api_key": 18, "max_version": 1}]
# API, side, the release that spoke it first, values in its layout.
SPOKEN: list[tuple[str, str, str, Row]] = [
    ("OffsetCommit", "request", "0.8.2-beta",
     {"group_id": "workers", "topics": [{"name": "orders", "partitions": [COMMITTED]}]}),
    ("JoinGroup", "request", "0.8.2",
     {"group_id": "workers", "session_timeout_ms": 6000, "topics": ["orders"], "consumer_id": "c",
      "partition_assignment_strategy": "range"}),
    ("JoinGroup", "response", "0.8.2",
     {"group_generation_id": 1, "consumer_id": "c",
      "assigned_partitions": [{"topic": "orders", "partitions": [0, 1]}]}),
    ("EndQuorumEpoch", "request", "2.7",
     {"topics": [{"topic_name": "log", "partitions": [{"partition_index": 0, "replica_id": 1,
      "leader_id": 1, "leader_epoch": 5, "preferred_successors": [2, 3]}]}]}),
    ("ConsumerGroupHeartbeat", "request", "3.5",
     {"group_id": "workers", "member_id": "m", "member_epoch": 4,
      "topic_partitions": [{"topic_id": ORDERS, "partitions": [1]}]}),
    ("ConsumerGroupHeartbeat", "response", "3.5",
     {"error_code": 110, "member_id": "m", "member_epoch": 4, "heartbeat_interval_ms": 5000,
      "assignment": ASSIGNED}),
    ("ConsumerGroupDescribe", "response", "3.7",
     {"groups": [{"group_id": "workers", "members": [{"member_id": "m", "assignment": {},
      "target_assignment": {}}]}]}),
    ("ReadShareGroupStateSummary", "response", "3.9",
     {"results": [{"topic_id": ORDERS, "partitions": [SUMMARY, SUMMARY]}]}),
    ("ApiVersions", "response", "no-throttle-time", {"api_keys": OFFERED}),
]  # fmt: skip
# Of the other layouts all are of version 0.
VERSIONS = {"ApiVersions": 1}


def variant_body(api: str, side: str, values: Row) -> bytes:
    """A body in the layout that is not the newest."""
    version = VERSIONS.get(api, 0)
    for role, spec in find_api(api).definition().variants:
        if role == side:
            return make_struct(spec.fields, version, version in spec.flexible, values)
    raise AssertionError(f"{api} has no variant of its {side}")


def talk_of(api: str, version: int | None = None, **bodies: bytes) -> Conversation:
    if version is None:
        version = VERSIONS.get(api, 0)
    asked = bodies.get("request", make_body(api, version, "request", {}))
    answered = bodies.get("response", make_body(api, version, "response", {}))
    talk = conversation().open().client(request(api, version, 1, body=asked))
    return talk.broker(response(api, version, 1, body=answered)).close()


def spoken(api: str, side: str) -> Row:
    return next(row[3] for row in SPOKEN if row[:2] == (api, side))


def told(found: Found) -> list[tuple[Any, ...]]:
    return found.columns("group_id", "error", "decode_status")


def test_the_releases_of_variants_are_those_of_the_definitions() -> None:
    known = {spec.releases[0] for api in APIS.values() for _, spec in api.definition().variants}
    assert set(VARIANTS) == known
    assert len(VARIANTS) == len(known)


def test_every_variant_is_spoken_here() -> None:
    variants = [(api.name, side) for api in APIS.values() for side, _ in api.definition().variants]
    assert sorted(row[:2] for row in SPOKEN) == sorted(variants)


@pytest.mark.parametrize(("api", "side", "release", "values"), SPOKEN)
def test_a_body_in_an_old_layout_names_the_release_and_is_no_problem(
    api: str, side: str, release: str, values: Row
) -> None:
    found = found_in(talk_of(api, **{side: variant_body(api, side, values)}))
    assert found.column("decode_status") == [f"variant:{release}"]
    assert found.tables["problems"] == []


@pytest.mark.parametrize(("api", "side", "release", "values"), SPOKEN)
def test_a_body_in_an_old_layout_is_shown_in_full(
    api: str, side: str, release: str, values: Row
) -> None:
    frame = talk_of(api, **{side: variant_body(api, side, values)})
    data = (frame.sent[0].client if side == "request" else frame.sent[0].broker)[4:]
    version = VERSIONS.get(api, 0)
    body = decode_frame(find_api(api).key, version, data, side == "response")
    assert release in body["layout_of"].split()
    spec = next(s for role, s in find_api(api).definition().variants if role == side)
    assert set(body) == {"layout_of", *(snake_case(field.name) for field in spec.fields)}


def test_tables_are_filled_from_old_layouts() -> None:
    api = "ConsumerGroupHeartbeat"
    bodies = {side: variant_body(api, side, spoken(api, side)) for side in ("request", "response")}
    found = found_in(talk_of(api, **bodies))
    assert told(found) == [("workers", "FENCED_MEMBER_EPOCH", "variant:3.5")]

    beta = variant_body("OffsetCommit", "request", spoken("OffsetCommit", "request"))
    found = found_in(talk_of("OffsetCommit", request=beta))
    assert told(found) == [("workers", None, "variant:0.8.2-beta")]
    columns = ("topic", "partition", "committed_offset")
    assert found.columns(*columns, table="partitions") == [("orders", 3, 77)]


@pytest.mark.parametrize("version", [1, 2])
def test_api_versions_without_its_throttle_time_is_read(version: int) -> None:
    """Some brokers end the body there, and kafkajs and Java's clients read it (kafkajs #491)."""
    keys = [(key, 0, 2) for key in range(34)]
    body = struct.pack(">hi", 0, len(keys)) + b"".join(struct.pack(">hhh", *key) for key in keys)
    talk = talk_of("ApiVersions", version, response=body)
    found = found_in(talk)
    assert found.columns("error_code", "throttle_ms", "decode_status") == [
        (0, None, "variant:no-throttle-time")
    ]
    assert found.tables["problems"] == []
    decoded = decode_frame(18, version, bytes(4) + body, is_response=True)
    assert decoded["layout_of"] == "no-throttle-time"
    assert "throttle_time_ms" not in decoded
    assert [tuple(key.values()) for key in decoded["api_keys"]] == keys
    whole = talk_of("ApiVersions", version, response=body + struct.pack(">i", 7))
    assert found_in(whole).columns("throttle_ms", "decode_status") == [(7, "ok")]


@pytest.mark.parametrize(("version", "lost"), [(0, 4), (1, 1), (1, 8), (2, 3), (3, 4)])
def test_an_api_versions_body_that_ends_elsewhere_is_a_problem(version: int, lost: int) -> None:
    body = make_body("ApiVersions", version, "response", {"api_keys": OFFERED})
    found = found_in(talk_of("ApiVersions", version, response=body[:-lost]))
    assert found.column("decode_status") == ["response"]
    assert found.column("kind", "problems") == ["undecodable-response"]


def test_errors_are_found_in_old_layouts() -> None:
    summary = {"results": [{"topic_id": ORDERS, "partitions": [SUMMARY, SUMMARY]}]}
    described = {"groups": [{"error_code": 69, "error_message": "gone", "group_id": "workers"}]}
    described["groups"].append(spoken("ConsumerGroupDescribe", "response")["groups"][0])
    joined = spoken("JoinGroup", "response") | {"error_code": 27}
    at = "results[].partitions[].error_code"
    for api, values, expected in (
        ("ReadShareGroupStateSummary", summary, [(at, 120, None, 1), (at, 120, None, 1)]),
        ("ConsumerGroupDescribe", described, [("groups[].error_code", 69, "workers", None)]),
        ("JoinGroup", joined, [("error_code", 27, None, None)]),
    ):
        found = found_in(talk_of(api, response=variant_body(api, "response", values)))
        columns = found.columns("path", "code", "group_id", "partition", table="errors")
        assert (api, columns) == (api, expected)


def test_a_body_that_fits_the_newest_layout_is_ok() -> None:
    body = make_body("ConsumerGroupHeartbeat", 0, "response", {"error_code": 110})
    found = found_in(talk_of("ConsumerGroupHeartbeat", response=body))
    assert found.column("decode_status") == ["ok"]


def test_a_capture_that_starts_with_an_old_layout_has_its_sides() -> None:
    api = "ConsumerGroupHeartbeat"
    asked = variant_body(api, "request", spoken(api, "request"))
    talk = conversation().client(request(api, 0, 1, body=asked))
    talk = talk.broker(response(api, 0, 1))
    assert told(found_in(talk)) == [("workers", None, "variant:3.5")]


def test_bodies_that_fit_no_layout_report_the_newest_layouts_error() -> None:
    api = "ConsumerGroupHeartbeat"
    body = make_body(api, 0, "request", {"group_id": "workers", "member_id": "m"})
    found = found_in(talk_of(api, request=body + b"???"))
    assert told(found) == [("workers", None, "leftover")]
    problem = "ConsumerGroupHeartbeat request v0: 3 bytes left over at byte 39 of 42"
    assert found.column("message", table="problems") == [problem]
    cut = found_in(talk_of(api, request=body[:-4]))
    assert told(cut) == [("workers", None, "request")]


def test_bytes_behind_the_last_field_are_counted_and_the_body_stays() -> None:
    # librdkafka 2.12 writes three bytes too many into Metadata v13.
    body = make_body("Metadata", 13, "request", {"topics": None, "allow_auto_topic_creation": True})
    frame = request("Metadata", 13, 3, "rd", body=body + b"\0\0\0")
    assert decode_frame(3, 13, frame[4:], is_response=False) == {
        "topics": None,
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": False,
        "trailing_size": 3,
    }
    talk = conversation().open().client(frame).broker(response("Metadata", 13, 3)).close()
    assert found_in(talk).column("decode_status") == ["leftover"]


@pytest.mark.parametrize(("key", "version", "status"), [(3, 99, "version"), (4000, 2, "api")])
def test_unknown_versions_keep_their_row_and_size(key: int, version: int, status: str) -> None:
    header = key.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big")
    frame = header + b"\0\2me\0" + b"body"
    answer = (7).to_bytes(4, "big") + b"answer"
    known = request("Metadata", 4, 1) + len(frame).to_bytes(4, "big") + frame
    talk = conversation().open().client(known).broker(response("Metadata", 4, 1))
    talk = talk.broker(len(answer).to_bytes(4, "big") + answer).close()
    columns = ("api_key", "api_version", "client_id", "request_size", "response_size",
               "outcome", "decode_status", "error_code")  # fmt: skip
    assert found_in(talk).columns(*columns)[1:] == [
        (key, version, "me", len(frame), len(answer), "answered", f"unknown-{status}", None)
    ]
