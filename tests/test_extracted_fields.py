"""Facts of sections 8, 9 and 14 that a decoder can get wrong and no other file has a test of.

Sessions and ids are in test_fetch_sessions, logins in test_logins, error fields in
messages/test_error_fields, throttle times in protocol/test_facts, names of ids in
messages/test_topic_names, order of answers and acks=0 in test_exchanges.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from kdissect.messages.bodies import decode
from kdissect.messages.extracted import FieldSink
from kdissect.messages.field_mapping import fact_plans
from kdissect.messages.interner import Interner
from kdissect.protocol.apis import APIS
from kdissect.protocol.error_codes import error_codes
from kdissect.protocol.specs import FieldSpec, snake_case
from tests.conversation import conversation
from tests.exchange_builders import ORDERS, Row, found_in, make_body, request, response

Path = tuple[FieldSpec, ...]
INT32_MIN = -(1 << 31)
# Java's SaslClientAuthenticator numbers its requests from here on.
FIRST_RESERVED = 2_147_483_640


@pytest.mark.parametrize("version", range(14))
def test_acks_are_read_with_and_without_a_transactional_id_before_them(version: int) -> None:
    """Section 8: the first field in v0-2, behind the nullable transactional id from v3 on."""
    values: Row = {"acks": -1} | ({"transactional_id": None} if version >= 3 else {})
    talk = conversation().open().client(request("Produce", version, 1, **values))
    assert found_in(talk).columns("acks", "transactional_id") == [(-1, None)]


def test_leader_hints_are_read_from_tags_of_produce() -> None:
    """Section 8: v10+ has CurrentLeader and NodeEndpoints; -1 means none and create time."""
    endpoint = {"node_id": 2, "host": "b2", "port": 9092, "rack": None}
    partition = {"index": 0, "error_code": 6, "base_offset": -1, "log_append_time_ms": -1,
                 "log_start_offset": -1,
                 "current_leader": {"leader_id": 2, "leader_epoch": 5}}  # fmt: skip
    values = {
        "responses": [{"name": "orders", "partition_responses": [partition]}],
        "node_endpoints": [endpoint],
    }
    body = decode("Produce", 10, "response", make_body("Produce", 10, "response", values))
    (decoded,) = body["responses"][0]["partition_responses"]
    assert decoded["current_leader"] == {"leader_id": 2, "leader_epoch": 5}
    assert body["node_endpoints"] == [endpoint]
    talk = conversation().open().client(request("Produce", 10, 1, acks=1))
    found = found_in(talk.broker(response("Produce", 10, 1, **values)))
    assert found.columns("partition", "base_offset", "error_code", table="partitions") == [
        (0, -1, 6)
    ]


def test_replica_id_of_a_follower_is_read_from_a_tag() -> None:
    """Section 8: Fetch v15+ has ReplicaState in tag 1; without the tag it is a consumer."""
    body = make_body("Fetch", 15, "request", {"replica_state": {"replica_id": 3}})
    assert decode("Fetch", 15, "request", body)["replica_state"] == {
        "replica_id": 3, "replica_epoch": -1,
    }  # fmt: skip
    assert "replica_state" not in decode(
        "Fetch", 15, "request", make_body("Fetch", 15, "request", {})
    )


def test_divergence_leader_and_snapshot_are_in_the_tags_of_fetch() -> None:
    """Section 8: tags 0, 1 and 2 from v12 on; an epoch in them is not the partition's."""
    tags = {
        "diverging_epoch": {"epoch": 4, "end_offset": 99},
        "current_leader": {"leader_id": 2, "leader_epoch": 5},
        "snapshot_id": {"end_offset": 7, "epoch": 1},
    }
    rows = [{"partition_index": 0, "high_watermark": 12, "records": None} | tags]
    values = {"responses": [{"topic": "orders", "partitions": rows}]}
    data = make_body("Fetch", 12, "response", values)
    decoded = decode("Fetch", 12, "response", data)["responses"][0]["partitions"][0]
    assert {name: decoded[name] for name in tags} == tags
    talk = conversation().open().client(request("Fetch", 12, 1))
    found = found_in(talk.broker(response("Fetch", 12, 1, **values)))
    assert found.columns("topic", "partition", "high_watermark", table="partitions") == [
        ("orders", 0, 12)
    ]


def test_the_oldest_list_offsets_answers_with_an_array() -> None:
    """Section 8: v0 has offsets in descending order, v1+ a timestamp and an offset."""
    for version, said in (
        (0, {"old_style_offsets": [9, 5, 0]}),
        (1, {"timestamp": -1, "offset": 9}),
    ):
        rows = [{"partition_index": 0} | said]
        values = {"topics": [{"name": "orders", "partitions": rows}]}
        body = decode(
            "ListOffsets",
            version,
            "response",
            make_body("ListOffsets", version, "response", values),
        )
        assert body["topics"][0]["partitions"] == [{"partition_index": 0, "error_code": 0} | said]


@pytest.mark.parametrize("timestamp", [-1, -2, -3, -4, -5, -6])
def test_times_that_mean_places_stay_as_they_are(timestamp: int) -> None:
    """Section 8: latest, earliest, maximum, earliest local, latest tiered, earliest pending."""
    rows = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}]
    values = {"topics": [{"name": "orders", "partitions": rows}]}
    body = decode("ListOffsets", 11, "request", make_body("ListOffsets", 11, "request", values))
    assert body["topics"][0]["partitions"] == rows


def test_no_commit_is_offset_minus_1() -> None:
    """Section 8: OffsetFetch."""
    rows = [{"partition_index": 0, "committed_offset": -1, "metadata": None}]
    answer = {"topics": [{"name": "orders", "partitions": rows}]}
    talk = conversation().open().client(request("OffsetFetch", 7, 1, group_id="g"))
    found = found_in(talk.broker(response("OffsetFetch", 7, 1, **answer)))
    assert found.columns("topic", "committed_offset", table="partitions") == [("orders", -1)]


def test_all_topics_are_null_and_no_topics_are_empty() -> None:
    """Section 8: Metadata v1+; in v0 all topics are an empty array."""
    for version in range(1, 14):
        for topics in (None, []):
            data = make_body("Metadata", version, "request", {"topics": topics})
            assert decode("Metadata", version, "request", data)["topics"] == topics
    data = make_body("Metadata", 0, "request", {"topics": []})
    assert decode("Metadata", 0, "request", data) == {"topics": []}


def test_operations_that_were_not_asked_for_are_the_smallest_number() -> None:
    """Section 8: authorized operations of Metadata v8 to v10 are a bit field."""
    data = make_body("Metadata", 8, "response", {"cluster_authorized_operations": INT32_MIN})
    assert decode("Metadata", 8, "response", data)["cluster_authorized_operations"] == INT32_MIN


def test_errors_of_coordinators_stand_at_the_top_and_from_v4_on_with_each() -> None:
    """Section 8 and 14: FindCoordinator."""
    for version in range(7):
        refused: Row = {"error_code": 15}
        if version >= 4:
            refused = {"coordinators": [{"key": "g1", "error_code": 15}, {"key": "g2"}]}
        talk = conversation().open().client(request("FindCoordinator", version, 1))
        found = found_in(talk.broker(response("FindCoordinator", version, 1, **refused)))
        path = "coordinators[].error_code" if version >= 4 else "error_code"
        assert found.column("path", "errors") == [path]
        assert found.column("error_code") == [15]


def test_an_ended_transaction_gives_the_next_epoch() -> None:
    """Section 8: EndTxn v5 (KIP-890)."""
    values = {"producer_id": 1 << 40, "producer_epoch": 7}
    body = decode("EndTxn", 5, "response", make_body("EndTxn", 5, "response", values))
    assert (body["producer_id"], body["producer_epoch"]) == (1 << 40, 7)


def test_partitions_of_a_transaction_are_read_from_clients_and_from_brokers() -> None:
    """Section 8: AddPartitionsToTxn v4+ is batched, other fields than v0-3."""
    topics = [{"name": "orders", "partitions": [0, 2]}]
    for version in range(6):
        values: Row = {"v3_and_below_transactional_id": "t", "v3_and_below_topics": topics}
        if version >= 4:
            values = {"transactions": [{"transactional_id": "t", "topics": topics}]}
        talk = conversation().open().client(request("AddPartitionsToTxn", version, 1, **values))
        found = found_in(talk.broker(response("AddPartitionsToTxn", version, 1)))
        assert found.columns("topic", "partition", table="partitions") == [
            ("orders", 0), ("orders", 2),
        ]  # fmt: skip


def nameless(version: int, fields: Path, path: Path = ()) -> Iterator[Path]:
    """The paths of structs that name a topic by its id alone."""
    present = [field for field in fields if version in field.versions]
    has_id = any(field.name == "TopicId" and field.full_type == "uuid" for field in present)
    has_name = any(field.entity == "topicName" and not field.is_array for field in present)
    if has_id and not has_name:
        yield path
    for field in present:
        yield from nameless(version, field.fields, (*path, field))


def all_nameless() -> list[tuple[str, str, int, Path]]:
    return [
        (api.name, side, version, path)
        for api in APIS.values()
        for side, spec in api.definition().layouts.items()
        for version in sorted(spec.versions)
        for path in nameless(version, spec.fields)
        if "ForgottenTopicsData" not in [field.name for field in path]
    ]


def test_ids_alone_stand_where_the_facts_say() -> None:
    """Section 8: since which versions topics have only ids."""
    first: dict[tuple[str, str], int] = {}
    for api, side, version, _ in all_nameless():
        first.setdefault((api, side), version)
    told = {
        ("Fetch", "request"): 13, ("Fetch", "response"): 13, ("Produce", "request"): 13,
        ("Produce", "response"): 13, ("OffsetCommit", "request"): 10,
        ("OffsetCommit", "response"): 10, ("OffsetFetch", "request"): 10,
        ("OffsetFetch", "response"): 10, ("TxnOffsetCommit", "request"): 6,
        ("TxnOffsetCommit", "response"): 6, ("AlterPartition", "request"): 2,
        ("AlterPartition", "response"): 2, ("LeaderAndIsr", "response"): 5,
        ("ConsumerGroupHeartbeat", "request"): 0, ("ConsumerGroupHeartbeat", "response"): 0,
    }  # fmt: skip
    assert {place: first[place] for place in told} == told


@pytest.mark.parametrize(("api", "side"), sorted({row[:2] for row in all_nameless()}))
def test_a_topic_that_is_only_an_id_has_its_name(api: str, side: str) -> None:
    """Section 8: one map for all connections gives the names."""
    known = next(found for found in APIS.values() if found.name == api)
    for version, path in [row[2:] for row in all_nameless() if row[:2] == (api, side)]:
        values: Any = {"topic_id": ORDERS}
        for field in reversed(path):
            values = {snake_case(field.name): [values] if field.is_array else values}
        data = make_body(api, version, side, values)
        sink = FieldSink(Interner(), {ORDERS.bytes: "orders"})
        assert fact_plans().get(known.key, version, side == "response").run(data, 0, sink) == len(
            data
        )
        assert (sink.topic, sink.topic_id) == ("orders", ORDERS.bytes), (version, path)


def test_reserved_and_negative_correlation_ids_are_paired() -> None:
    """Section 9: Java's SASL requests take 2147483640 and more, others skip them and wrap."""
    talk = conversation().open()
    handshake = request("SaslHandshake", 1, FIRST_RESERVED + 6, mechanism="PLAIN")
    talk = talk.client(handshake).broker(response("SaslHandshake", 1, FIRST_RESERVED + 6))
    asked = request("SaslAuthenticate", 2, FIRST_RESERVED + 7, auth_bytes=b"\0alice\0secret")
    talk = talk.client(asked).broker(response("SaslAuthenticate", 2, FIRST_RESERVED + 7))
    for number in (FIRST_RESERVED - 1, INT32_MIN):
        talk = talk.client(request("Heartbeat", 4, number)).broker(response("Heartbeat", 4, number))
    found = found_in(talk)
    assert found.columns("correlation_id", "outcome") == [
        (FIRST_RESERVED + 6, "answered"), (FIRST_RESERVED + 7, "answered"),
        (FIRST_RESERVED - 1, "answered"), (INT32_MIN, "answered"),
    ]  # fmt: skip


def test_answers_to_earlier_requests_come_before_that_of_a_second_handshake() -> None:
    """Section 9: re-authentication (KIP-368) in mid-connection."""
    talk = conversation().open().client(request("Heartbeat", 4, 1))
    talk = talk.client(request("SaslHandshake", 1, FIRST_RESERVED, mechanism="PLAIN"))
    talk = talk.broker(response("Heartbeat", 4, 1))
    found = found_in(talk.broker(response("SaslHandshake", 1, FIRST_RESERVED)))
    assert found.columns("api", "outcome") == [
        ("Heartbeat", "answered"), ("SaslHandshake", "answered"),
    ]  # fmt: skip


def test_a_session_has_its_lifetime_in_the_answer() -> None:
    """Section 9: SaslAuthenticate v1+ announces re-authentication."""
    values = {"auth_bytes": b"", "session_lifetime_ms": 3_600_000}
    for version in (1, 2):
        data = make_body("SaslAuthenticate", version, "response", values)
        body = decode("SaslAuthenticate", version, "response", data)
        assert body["session_lifetime_ms"] == 3_600_000


def test_there_are_138_error_codes() -> None:
    """Section 14: -1 to 136."""
    assert sorted(error_codes()) == list(range(-1, 137))


def test_errors_of_created_acls_say_which_resource_was_asked_for() -> None:
    """A result of CreateAcls has the position of its creation and no name."""
    creations = [
        {"resource_type": kind, "resource_name": name, "resource_pattern_type": 3,
         "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
        for kind, name in ((2, "orders"), (3, "workers"), (4, "kafka-cluster"))
    ]  # fmt: skip
    results = [{"error_code": code, "error_message": None} for code in (31, 0, 42)]
    talk = conversation().client(request("CreateAcls", 3, 1, creations=creations))
    found = found_in(talk.broker(response("CreateAcls", 3, 1, results=results)))
    assert found.columns("name", "resource", table="errors") == [
        ("CLUSTER_AUTHORIZATION_FAILED", "topic orders"),
        ("INVALID_REQUEST", "cluster kafka-cluster"),
    ]
