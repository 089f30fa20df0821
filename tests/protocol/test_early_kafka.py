"""Differences of Kafka 0.8.0 to 0.9, and of the two drafts of 2012, one by one.

The bytes are written out by hand; most facts here are absent from today's definitions.
"""

import struct
from typing import Any

import pytest

import kdissect
from kdissect.errors import DecodeError
from kdissect.exchanges.pairing import Exchanges
from kdissect.messages.bodies import decode_frame, decode_request
from kdissect.messages.old_protocols import PROPOSAL, TRUNK_2012
from kdissect.protocol.apis import find_api
from kdissect.protocol.error_codes import error_name
from tests.conversation import Conversation, conversation
from tests.exchange_builders import Found, found_in, request, response, sized
from tests.messages.record_builders import make_message
from tests.old_builders import message, string16

SET = message(b"one") + message(b"two")


def i32(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def frame(key: int, version: int, body: bytes, correlation_id: int = 0) -> bytes:
    return struct.pack(">hhi", key, version, correlation_id) + string16("old") + body


# 0.8.0 to 0.9.


def test_the_keys_of_0_8() -> None:
    names = {
        0: "Produce", 1: "Fetch", 2: "Offsets", 3: "Metadata", 4: "LeaderAndIsr", 5: "StopReplica",
        6: "UpdateMetadata", 7: "ControlledShutdown", 8: "OffsetCommit", 9: "OffsetFetch",
        10: "ConsumerMetadata",
    }  # fmt: skip
    assert {key: find_api(name).key for key, name in names.items()} == {key: key for key in names}
    assert all(find_api(key).lowest == 0 for key in names)


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    asked = struct.pack(">hhii", 7, 0, 9, 3)
    header, body = decode_request(asked)
    assert (header["correlation_id"], header["client_id"]) == (9, None)
    assert body == {"broker_id": 3}
    answer = struct.pack(">ih", 9, 0) + i32(1) + string16("orders") + i32(2)
    found = found_in(conversation().client(sized(asked)).broker(sized(answer)))
    assert found.columns("api", "api_version", "outcome", "decode_status") == [
        ("ControlledShutdown", 0, "answered", "ok")
    ]


def test_controlled_shutdown_v1_has_a_client_id() -> None:
    header, body = decode_request(frame(7, 1, i32(3)))
    assert (header["client_id"], body) == ("old", {"broker_id": 3})


STATES = i32(5, 6) + i32(1) + string16("orders") + i32(0, 6, 1, 2, 1, 1, 4, 1, 1)


def test_the_order_of_host_and_port_in_update_metadata_flips() -> None:
    v0 = STATES + i32(1, 7) + string16("host") + i32(9092)
    (broker,) = kdissect.decode("UpdateMetadata", 0, "request", v0)["live_brokers"]
    assert (broker["id"], broker["v0_host"], broker["v0_port"]) == (7, "host", 9092)
    v1 = STATES + i32(1, 7, 1, 9092) + string16("host") + b"\0\0"
    (broker,) = kdissect.decode("UpdateMetadata", 1, "request", v1)["live_brokers"]
    (endpoint,) = broker["endpoints"]
    assert (endpoint["port"], endpoint["host"], endpoint["security_protocol"]) == (9092, "host", 0)
    for version, data in ((0, v1), (1, v0)):
        with pytest.raises(DecodeError):
            kdissect.decode("UpdateMetadata", version, "request", data)


def test_join_group_of_0_8_2_is_another_layout_of_v0() -> None:
    body = string16("group") + i32(6000, 1) + string16("orders") + string16("c") + string16("range")
    decoded = decode_request(frame(11, 0, body))[1]
    assert decoded["layout_of"] == "0.8.2"
    assert (decoded["topics"], decoded["consumer_id"]) == (["orders"], "c")
    now = string16("group") + i32(6000) + string16("") + string16("consumer") + i32(0)
    assert "layout_of" not in decode_request(frame(11, 0, now))[1]


def test_heartbeat_of_0_8_2_has_the_bytes_of_0_9() -> None:
    body = string16("group") + i32(3) + string16("c")
    assert decode_request(frame(12, 0, body))[1] == {
        "group_id": "group", "generation_id": 3, "member_id": "c",
    }  # fmt: skip


def commit(*parts: bytes) -> bytes:
    return i32(1) + string16("orders") + i32(1) + b"".join(parts)


def test_offset_commit_v0_has_no_time_but_in_the_beta_of_0_8_2() -> None:
    plain = string16("group") + commit(i32(0), struct.pack(">q", 77), string16("note"))
    beta = string16("group") + commit(i32(0), struct.pack(">qq", 77, 1_400), string16("note"))
    for data, layout, fields in (
        (plain, None, {"partition_index": 0, "committed_offset": 77, "committed_metadata": "note"}),
        (
            beta,
            "0.8.2-beta",
            {
                "partition_index": 0,
                "committed_offset": 77,
                "commit_timestamp": 1_400,
                "committed_metadata": "note",
            },
        ),
    ):
        body = decode_request(frame(8, 0, data))[1]
        assert body.get("layout_of") == layout
        assert body["topics"][0]["partitions"] == [fields]


def test_offset_commit_v1_has_a_time_for_each_and_v2_a_retention_for_all() -> None:
    who = string16("group") + i32(4) + string16("m")
    v1 = who + commit(i32(0), struct.pack(">qq", 77, 1_400), string16("note"))
    body = kdissect.decode("OffsetCommit", 1, "request", v1)
    assert body["topics"][0]["partitions"][0]["commit_timestamp"] == 1_400
    v2 = who + struct.pack(">q", 9_000) + commit(i32(0), struct.pack(">q", 77), string16("note"))
    body = kdissect.decode("OffsetCommit", 2, "request", v2)
    assert body["retention_time_ms"] == 9_000
    assert body["topics"][0]["partitions"][0]["committed_offset"] == 77


@pytest.mark.parametrize("version", [0, 1])
def test_offset_fetch_v0_and_v1_have_the_same_bytes(version: int) -> None:
    asked = string16("group") + i32(1) + string16("orders") + i32(2, 0, 1)
    body = kdissect.decode("OffsetFetch", version, "request", asked)
    assert body["topics"][0]["partition_indexes"] == [0, 1]
    nothing = i32(0) + struct.pack(">q", -1) + string16("") + b"\0\0"
    answer = i32(1) + string16("orders") + i32(1) + nothing
    body = kdissect.decode("OffsetFetch", version, "response", answer)
    assert body["topics"][0]["partitions"] == [
        {"partition_index": 0, "committed_offset": -1, "metadata": "", "error_code": 0}
    ]


def test_an_offset_that_was_never_committed_is_minus_1_and_no_error() -> None:
    topic: Any = {"name": "orders", "partition_indexes": [0, 1]}
    unknown = {"partition_index": 0, "committed_offset": -1, "metadata": "", "error_code": 0}
    missing = unknown | {"partition_index": 1, "error_code": 3}
    talk = conversation().client(request("OffsetFetch", 0, 1, group_id="g", topics=[topic]))
    answer: Any = {"name": "orders", "partitions": [unknown, missing]}
    found = found_in(talk.broker(response("OffsetFetch", 0, 1, topics=[answer])))
    columns = ("partition", "committed_offset", "error")
    assert found.columns(*columns, table="partitions") == [
        (0, -1, None),
        (1, -1, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert found.columns("partition", "name", table="errors") == [(1, "UNKNOWN_TOPIC_OR_PARTITION")]


def test_metadata_v0_of_no_topics_asks_for_all() -> None:
    assert kdissect.decode("Metadata", 0, "request", i32(0)) == {"topics": []}


def test_metadata_v0_lists_offline_replicas_and_no_leader() -> None:
    brokers = i32(1, 7) + string16("host") + i32(9092)
    partition = struct.pack(">h", 9) + i32(0, -1, 2, 7, 8, 1, 7)
    data = i32(77) + brokers + i32(1) + b"\0\0" + string16("orders") + i32(1) + partition
    talk = conversation().client(request("Metadata", 0, 77)).broker(sized(data))
    found = found_in(talk)
    assert found.columns("name", "topic", "partition", table="errors") == [
        ("REPLICA_NOT_AVAILABLE", "orders", 0)
    ]
    body = decode_frame(3, 0, data, is_response=True)
    assert body["topics"][0]["partitions"] == [
        {"error_code": 9, "partition_index": 0, "leader_id": -1, "replica_nodes": [7, 8],
         "isr_nodes": [7]}
    ]  # fmt: skip


def produced(correlation_id: int, error: int = 0) -> bytes:
    partition = {"index": 0, "error_code": error, "base_offset": 5}
    topic: Any = {"name": "orders", "partition_responses": [partition]}
    return response("Produce", 0, correlation_id, responses=[topic])


def produce(correlation_id: int, acks: int) -> bytes:
    partition = {"index": 0, "records": make_message(0, b"x")}
    topic: Any = {"name": "orders", "partition_data": [partition]}
    return request("Produce", 0, correlation_id, acks=acks, topic_data=[topic])


@pytest.mark.parametrize(("acks", "error"), [(-1, 0), (1, 0), (3, 0), (3, 21)])
def test_acks_of_more_than_1_are_shown(acks: int, error: int) -> None:
    found = found_in(conversation().client(produce(1, acks)).broker(produced(1, error)))
    assert found.columns("acks", "outcome", "error") == [
        (acks, "answered", "INVALID_REQUIRED_ACKS" if error else None)
    ]


def test_ids_that_all_are_0_are_paired_in_order() -> None:
    talk = conversation().client(produce(0, 1), produce(0, 0), produce(0, 1))
    talk = talk.broker(produced(0), produced(0, 3)).client(produce(0, 1)).broker(produced(0, 6))
    found = found_in(talk)
    assert found.columns("outcome", "error") == [
        ("no_response_expected", None),
        ("answered", None),
        ("answered", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("answered", "NOT_LEADER_OR_FOLLOWER"),
    ]


def test_a_failed_produce_without_acks_ends_the_connection() -> None:
    found = found_in(conversation().client(produce(0, 0)).reset(is_client=False))
    assert found.columns("outcome", "error") == [("no_response_expected", None)]
    assert found.column("rst_by", "connections") == ["broker"]


def test_code_13_has_the_name_of_the_java_list() -> None:
    # Brokers of 0.8.1 to 0.9 called it StaleLeaderEpoch; it never left them.
    assert error_name(13) == "NETWORK_EXCEPTION"


# trunk-2012, the unreleased builds; the proposal's layouts are in test_seeds.


def trunk(key: int, version: int, body: bytes, correlation_id: int = 4711) -> bytes:
    return struct.pack(">hhi", key, version, correlation_id) + string16("old") + body


TRUNK_PRODUCE = trunk(
    0,
    0,
    struct.pack(">hi", 1, 1500) + i32(1) + string16("orders") + i32(1, 3, len(SET)) + SET,
)
TRUNK_FETCH = trunk(
    1,
    1,
    i32(-1, 100, 1, 1) + string16("orders") + i32(2, 0, 1)
    + i32(2) + struct.pack(">qq", 500, 600) + i32(2, 1000, 2000),
)  # fmt: skip
TRUNK_PRODUCED = struct.pack(">hhi", 0, 0, 4711) + i32(1) + b"\0\0" + i32(1)
TRUNK_PRODUCED += struct.pack(">q", 900)


def fetched_part(partition: int, error: int, offset: int, messages: bytes) -> bytes:
    return i32(partition, error) + struct.pack(">qi", offset, len(messages)) + messages


TRUNK_FETCHED = (
    struct.pack(">hhi", 0, 1, 4711) + i32(1) + string16("orders") + i32(2)
    + fetched_part(0, 0, 500, SET) + fetched_part(1, 1, 600, b"")
)  # fmt: skip


def test_the_layouts_of_the_builds_of_2012() -> None:
    header = {"correlation_id": 4711, "client_id": "old"}
    part = {"partition": 3, "message_set_size": len(SET), "message_set": SET}
    assert kdissect.decode_old("trunk-2012", "Produce", "request", TRUNK_PRODUCE) == {
        "request_type_id": 0, "version_id": 0, **header, "required_acks": 1, "ack_timeout": 1500,
        "data": [{"topic": "orders", "partition_data": [part]}],
    }  # fmt: skip
    assert kdissect.decode_old("trunk-2012", "Fetch", "request", TRUNK_FETCH) == {
        "request_type_id": 1, "version_id": 1, **header, "replica_id": -1, "max_wait": 100,
        "min_bytes": 1, "topic_offsets": [{"topic": "orders", "partitions": [0, 1],
        "offsets": [500, 600], "fetch_sizes": [1000, 2000]}],
    }  # fmt: skip
    assert kdissect.decode_old("trunk-2012", "Produce", "response", TRUNK_PRODUCED) == {
        "error_code": 0, "version_id": 0, "correlation_id": 4711, "errors": [0], "offsets": [900],
    }  # fmt: skip
    parts = [
        {"partition": 0, "error_code": 0, "initial_offset": 500, "message_set_size": len(SET),
         "message_set": SET},
        {"partition": 1, "error_code": 1, "initial_offset": 600, "message_set_size": 0,
         "message_set": b""},
    ]  # fmt: skip
    assert kdissect.decode_old("trunk-2012", "Fetch", "response", TRUNK_FETCHED) == {
        "error_code": 0, "version_id": 1, "correlation_id": 4711,
        "data": [{"topic": "orders", "partition_data": parts}],
    }  # fmt: skip


def spoken(asked: list[bytes], answers: list[bytes]) -> Conversation:
    talk = conversation().client(*[sized(one) for one in asked])
    return talk.broker(*[sized(one) for one in answers])


def test_the_builds_of_2012_are_paired_and_have_rows() -> None:
    talk = spoken([TRUNK_PRODUCE, TRUNK_FETCH], [TRUNK_PRODUCED, TRUNK_FETCHED])
    found = found_in(talk, Exchanges(dialect=TRUNK_2012))
    assert found.column("protocol", "connections") == ["kafka-trunk-2012"]
    columns = ("api", "api_version", "correlation_id", "client_id", "acks", "outcome", "error")
    assert found.columns(*columns) == [
        ("Produce", 0, 4711, "old", 1, "answered", None),
        ("Fetch", 1, 4711, "old", None, "answered", "OffsetOutOfRange"),
    ]
    columns = ("topic", "partition", "fetch_offset", "base_offset", "record_count", "error")
    assert found.columns(*columns, table="partitions") == [
        ("orders", 3, None, 900, 2, None),
        ("orders", 0, 500, None, 2, None),
        ("orders", 1, 600, None, 0, "OffsetOutOfRange"),
    ]
    assert found.columns("base_offset", "last_offset", table="batches") == [(0, 26), (500, 526)]
    assert found.column("path", "errors") == ["data[].partition_data[].error_code"]
    assert found.tables["problems"] == []


def proposed_produce(acks: int, correlation_id: int) -> bytes:
    data = struct.pack(">h", 1) + string16("orders") + struct.pack(">h", 2)
    data += i32(0) + SET + i32(1) + SET
    return trunk(0, 0, struct.pack(">bi", acks, 100) + data, correlation_id)


def proposed_answer(correlation_id: int, *errors: int) -> bytes:
    count = struct.pack(">h", len(errors))
    data = struct.pack(">ihh", correlation_id, 0, 0) + count
    data += b"".join(struct.pack(">h", error) for error in errors)
    return data + count + b"".join(struct.pack(">q", 40) for _ in errors)


def proposed(*said: tuple[bool, bytes]) -> Found:
    talk = conversation()
    for is_client, data in said:
        talk = talk.client(sized(data)) if is_client else talk.broker(sized(data))
    return found_in(talk, Exchanges(dialect=PROPOSAL))


def test_the_proposal_is_paired_by_its_ids() -> None:
    found = proposed(
        (True, proposed_produce(1, 5)),
        (True, proposed_produce(1, 6)),
        (False, proposed_answer(6, -1, 3)),
    )
    assert found.column("protocol", "connections") == ["kafka-proposal"]
    assert found.columns("correlation_id", "outcome", "error", "error_count") == [
        (5, "unanswered", None, None),
        (6, "answered", "WrongPartition", 1),
    ]
    # -1 in the errors of a produce response is "none", as the document has it.
    columns = ("partition", "error_code", "base_offset", "record_count")
    assert found.columns(*columns, table="partitions")[2:] == [(0, 0, 40, 2), (1, 3, 40, 2)]
    assert found.columns("path", "partition", table="errors") == [("errors[]", 1)]


def test_a_produce_without_acks_may_be_answered_or_not() -> None:
    found = proposed(
        (True, proposed_produce(0, 5)),
        (True, proposed_produce(0, 6)),
        (False, proposed_answer(6, -1, -1)),
    )
    assert found.columns("correlation_id", "outcome") == [
        (5, "no_response_expected"),
        (6, "answered"),
    ]


def test_a_request_of_another_key_keeps_its_header() -> None:
    found = proposed((True, trunk(9, 2, b"whatever", 8)), (False, i32(8) + b"\0\2\0\0"))
    columns = ("api", "api_version", "correlation_id", "client_id", "outcome", "decode_status")
    assert found.columns(*columns) == [("api-9", 2, 8, "old", "answered", "unknown-api")]
    assert found.tables["problems"] == []


@pytest.mark.parametrize("asked", [TRUNK_PRODUCE, TRUNK_FETCH, proposed_produce(1, 5)])
def test_the_drafts_are_never_looked_for(asked: bytes) -> None:
    found = found_in(spoken([asked, asked], []))
    assert found.column("protocol", "connections") == ["kafka"]
    assert found.tables["problems"] != []
