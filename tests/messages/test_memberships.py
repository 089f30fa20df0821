"""Events of group members as rows of `members`."""

import struct
from typing import Any

import pytest

from kdissect.protocol.apis import find_api
from kdissect.protocol.specs import snake_case
from tests.conversation import Conversation, conversation
from tests.exchange_builders import (
    ORDERS,
    Found,
    Row,
    found_in,
    make_struct,
    request,
    response,
    string16,
)

CLASSIC = ("event", "member_id", "generation", "protocol", "is_leader", "subscription",
           "assignment", "error")  # fmt: skip
NEW = ("event", "member_id", "generation", "subscription", "assignment", "error")
HEARTBEATS = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")


def subscription(*topics: str) -> bytes:
    return struct.pack(">hi", 0, len(topics)) + b"".join(map(string16, topics)) + b"\xff" * 4


def assignment(**topics: list[int]) -> bytes:
    body = struct.pack(">hi", 0, len(topics))
    for topic, partitions in topics.items():
        body += string16(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return body + b"\xff" * 4


def asked(api: str, version: int, ask: Row, answer: Row | None) -> Conversation:
    talk = conversation().open().client(request(api, version, 1, **ask))
    return talk if answer is None else talk.broker(response(api, version, 1, **answer))


def told(found: Found, *columns: str) -> list[tuple[Any, ...]]:
    return found.columns(*columns, table="members")


def events(api: str, version: int, ask: Row, answer: Row | None, *columns: str) -> Any:
    names = columns or (NEW if api in HEARTBEATS else CLASSIC)
    return told(found_in(asked(api, version, {"group_id": "workers"} | ask, answer)), *names)


def with_nulls(api: str, version: int, side: str, values: Row) -> Row:
    """The values, and null where that is the default of an array or struct."""
    fields = find_api(api).definition().layouts[side].fields
    nulls = {
        snake_case(field.name): None
        for field in fields
        if field.default == "null"
        and version in field.versions
        and (field.is_array or field.is_struct)
    }
    return nulls | values


RANGE = {"name": "range", "metadata": subscription("orders", "users")}
STICKY = {"name": "sticky", "metadata": subscription("payments")}


@pytest.mark.parametrize("version", range(10))
def test_join_has_subscription_and_generation(version: int) -> None:
    ask = {"member_id": "m-1", "protocol_type": "consumer", "protocols": [STICKY, RANGE]}
    answer = {"generation_id": 4, "protocol_name": "range", "leader": "m-1", "member_id": "m-1"}
    assert events("JoinGroup", version, ask, answer) == [
        ("join", "m-1", 4, "range", True, "orders users", None, None)
    ]


def test_a_first_join_without_member_id_is_an_event_with_its_error() -> None:
    ask = {"protocol_type": "consumer", "protocols": [RANGE], "reason": "rejoin",
           "group_instance_id": "static-1"}  # fmt: skip
    answer = {"error_code": 79, "member_id": "m-2", "generation_id": -1}
    assert events("JoinGroup", 9, ask, answer, *CLASSIC, "reason", "group_instance_id") == [
        ("join", "m-2", None, "range", None, "orders users", None, "MEMBER_ID_REQUIRED", "rejoin",
         "static-1"),
    ]  # fmt: skip


def test_a_join_that_is_not_answered_is_an_event_too() -> None:
    ask = {"member_id": "m-1", "protocol_type": "consumer", "protocols": [RANGE]}
    assert events("JoinGroup", 5, ask, None) == [
        ("join", "m-1", None, "range", None, "orders users", None, None)
    ]


def test_a_connect_worker_has_its_url_and_its_connectors() -> None:
    url = string16("http://worker:8083/")
    metadata = b"\0\0" + url + struct.pack(">q", 9)
    ask = {"member_id": "c-1", "protocol_type": "connect",
           "protocols": [{"name": "default", "metadata": metadata}]}  # fmt: skip
    answer = {"protocol_name": "default", "leader": "c-2", "member_id": "c-1"}
    assert events("JoinGroup", 5, ask, answer) == [
        ("join", "c-1", -1, "default", False, "http://worker:8083/ config offset 9", None, None)
    ]
    given = struct.pack(">hh", 0, 0) + string16("c-2") + url + struct.pack(">qi", 9, 1)
    given += string16("sink") + struct.pack(">iii", 2, 0, 1)
    ask = {"member_id": "c-1", "protocol_type": "connect", "protocol_name": "default"}
    answer = {"assignment": given, "protocol_type": "connect", "protocol_name": "default"}
    assert events("SyncGroup", 5, ask, answer, "event", "assignment") == [("sync", "sink:0,1")]


@pytest.mark.parametrize("version", range(6))
def test_leaders_assignment_has_a_row_per_member_and_sync_the_members_own(version: int) -> None:
    plan = [
        {"member_id": "m-1", "assignment": assignment(orders=[0, 1])},
        {"member_id": "m-2", "assignment": assignment(orders=[2], users=[0])},
    ]
    ask = {"member_id": "m-1", "generation_id": 4, "assignments": plan}
    answer: Row = {"assignment": assignment(orders=[0, 1])}
    if version >= 5:
        ask |= {"protocol_type": "consumer", "protocol_name": "range"}
        answer |= {"protocol_type": "consumer", "protocol_name": "range"}
    name = "range" if version >= 5 else None
    assert events("SyncGroup", version, ask, answer) == [
        ("assign", "m-1", 4, name, True, None, "orders:0,1", None),
        ("assign", "m-2", 4, name, False, None, "orders:2 users:0", None),
        ("sync", "m-1", 4, name, True, None, "orders:0,1", None),
    ]


def test_an_unreadable_assignment_is_marked() -> None:
    ask = {"member_id": "m-1", "generation_id": 4}
    (row,) = events("SyncGroup", 3, ask, {"assignment": b"\0\0\0\0"}, "assignment")
    assert row[0].startswith("4 bytes, not decoded: ")


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_is_an_event_only_with_an_error(version: int) -> None:
    ask = {"member_id": "m-1", "generation_id": 4}
    assert events("Heartbeat", version, ask, {}) == []
    assert events("Heartbeat", version, ask, None) == []
    assert events("Heartbeat", version, ask, {"error_code": 27}) == [
        ("heartbeat", "m-1", 4, None, None, None, None, "REBALANCE_IN_PROGRESS")
    ]


@pytest.mark.parametrize("version", range(6))
def test_a_leave_is_a_row_a_member(version: int) -> None:
    columns = ("event", "member_id", "group_instance_id", "reason", "error")
    if version < 3:
        assert events("LeaveGroup", version, {"member_id": "m-1"}, {}, *columns) == [
            ("leave", "m-1", None, None, None)
        ]
        return
    reason = {"reason": "closing"} if version >= 5 else {}
    members = [{"member_id": "m-1", **reason}, {"member_id": "", "group_instance_id": "s"}]
    answers = [{"member_id": "m-1"}, {"member_id": "", "group_instance_id": "s", "error_code": 25}]
    ask, answer = {"members": members}, {"members": answers}
    assert events("LeaveGroup", version, ask, answer, *columns) == [
        ("leave", "m-1", None, reason.get("reason"), None),
        ("leave", None, "s", None, "UNKNOWN_MEMBER_ID"),
    ]
    failed = {"error_code": 16, "members": []}
    assert events("LeaveGroup", version, ask, failed, "error") == [("NOT_COORDINATOR",)] * 2


PARTS = [{"topic_id": ORDERS, "partitions": [0, 1]}]
ORDERS_TEXT = "cjI4FDbRahK6PF_HbOOekA:0,1"


@pytest.mark.parametrize(
    ("ask", "answer", "event"),
    [
        ({"member_epoch": 3}, {"member_epoch": 3}, None),
        ({"member_epoch": 3}, None, None),
        ({"member_epoch": 0, "subscribed_topic_names": ["orders"]}, {"member_epoch": 1},
         ("join", "m", 1, "orders", None, None)),
        ({"member_epoch": 0}, {"member_epoch": 1, "assignment": {"topic_partitions": PARTS}},
         ("join", "m", 1, None, ORDERS_TEXT, None)),
        ({"member_epoch": 3}, {"member_epoch": 4, "assignment": {"topic_partitions": PARTS}},
         ("assign", "m", 4, None, ORDERS_TEXT, None)),
        ({"member_epoch": 3}, {"member_epoch": 3, "assignment": {}},
         ("assign", "m", 3, None, None, None)),
        ({"member_epoch": 4, "subscribed_topic_names": ["orders", "users"]}, {"member_epoch": 4},
         ("subscribe", "m", 4, "orders users", None, None)),
        ({"member_epoch": 4}, {"member_epoch": 5}, ("epoch", "m", 5, None, None, None)),
        ({"member_epoch": 4}, {"error_code": 110},
         ("heartbeat", "m", 4, None, None, "FENCED_MEMBER_EPOCH")),
        ({"member_epoch": -1}, {"member_epoch": -1}, ("leave", "m", -1, None, None, None)),
        ({"member_epoch": -2}, {"member_epoch": -2}, ("leave", "m", -2, None, None, None)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("api", ["ConsumerGroupHeartbeat", "ShareGroupHeartbeat"])
def test_a_heartbeat_of_the_new_protocols_is_an_event_when_it_changes_something(
    api: str, ask: Row, answer: Row | None, event: tuple[Any, ...] | None
) -> None:
    ask = {"member_id": "m"} | ask
    for version in sorted(find_api(api).definition().layouts["request"].versions):
        full = with_nulls(api, version, "request", ask)
        back = None if answer is None else with_nulls(api, version, "response", answer)
        assert events(api, version, full, back) == ([] if event is None else [event])


@pytest.mark.parametrize("version", [0, 1])
def test_consumer_states_owned_partitions_and_subscription(version: int) -> None:
    ask = with_nulls(
        "ConsumerGroupHeartbeat", version, "request",
        {"member_id": "m", "member_epoch": 4, "topic_partitions": PARTS,
         "instance_id": "static", "server_assignor": "uniform"},
    )  # fmt: skip
    if version:
        ask["subscribed_topic_regex"] = "orders.*"
    answer = with_nulls("ConsumerGroupHeartbeat", version, "response", {"member_epoch": 4})
    columns = ("event", "group_instance_id", "protocol", "subscription", "assignment")
    assert events("ConsumerGroupHeartbeat", version, ask, answer, *columns) == [
        ("owned", "static", "uniform", "/orders.*/" if version else None, ORDERS_TEXT)
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_a_streams_member_has_its_topology_and_its_tasks(version: int) -> None:
    api = "StreamsGroupHeartbeat"
    parts = [{"subtopology_id": "0", "source_topics": ["orders", "users"]},
             {"subtopology_id": "1", "source_topic_regex": ["x.*"]}]  # fmt: skip
    topology = {"subtopologies": parts}
    joining = with_nulls(api, version, "request", {"member_id": "s", "topology": topology})
    joined = with_nulls(api, version, "response", {"member_id": "s", "member_epoch": 1})
    assert events(api, version, joining, joined) == [
        ("join", "s", 1, "orders users /x.*/", None, None)
    ]
    beat = with_nulls(api, version, "request", {"member_id": "s", "member_epoch": 1})
    tasks = {"active_tasks": [{"subtopology_id": "0", "partitions": [0, 2]}],
             "standby_tasks": [], "warmup_tasks": [{"subtopology_id": "1", "partitions": [1]}],
             "status": [{"status_code": 1, "status_detail": "a topic is missing"}]}  # fmt: skip
    answer = with_nulls(api, version, "response", {"member_id": "s", "member_epoch": 2} | tasks)
    assert events(api, version, beat, answer, *NEW, "reason") == [
        ("assign", "s", 2, None, "active 0:0,2 warmup 1:1", None, "a topic is missing")
    ]
    leaving = beat | {"member_epoch": -1, "shutdown_application": True}
    assert events(api, version, leaving, joined, "event", "reason") == [
        ("leave", "shutdown of the application")
    ]


def test_assignments_have_the_names_of_topics_learnt_later() -> None:
    api = "ConsumerGroupHeartbeat"
    ask = with_nulls(api, 1, "request", {"group_id": "workers", "member_id": "m"})
    answer = with_nulls(api, 1, "response", {"assignment": {"topic_partitions": PARTS}})
    named = {"topics": [{"name": "orders", "topic_id": ORDERS}]}
    talk = (
        conversation()
        .open()
        .client(request(api, 1, 1, **ask))
        .broker(response(api, 1, 1, **answer))
    )
    talk = talk.client(request("Metadata", 12, 2)).broker(response("Metadata", 12, 2, **named))
    assert told(found_in(talk), "event", "assignment") == [("join", "orders:0,1")]


def test_a_heartbeat_of_the_preview_has_its_assignment() -> None:
    spec = next(s for side, s in find_api("ConsumerGroupHeartbeat").definition().variants
                if side == "response")  # fmt: skip
    values = {"member_id": "m", "member_epoch": 2, "heartbeat_interval_ms": 3000,
              "assignment": {"assigned_topic_partitions": PARTS}}  # fmt: skip
    answer = {"body": make_struct(spec.fields, 0, True, values)}
    ask = with_nulls("ConsumerGroupHeartbeat", 0, "request", {"member_epoch": 1})
    assert events("ConsumerGroupHeartbeat", 0, ask, answer) == [
        ("assign", "m", 2, None, ORDERS_TEXT, None)
    ]


def test_members_of_0_8_2_are_recognized_by_their_former_names() -> None:
    variants = dict(find_api("JoinGroup").definition().variants)
    ask = {"group_id": "workers", "topics": ["orders"], "consumer_id": "c",
           "session_timeout_ms": 6000, "partition_assignment_strategy": "range"}  # fmt: skip
    answer = {"group_generation_id": 1, "consumer_id": "c",
              "assigned_partitions": [{"topic": "orders", "partitions": [0, 1]}]}  # fmt: skip
    bodies = [make_struct(variants[side].fields, 0, False, values)
              for side, values in (("request", ask), ("response", answer))]  # fmt: skip
    talk = conversation().open().client(request("JoinGroup", 0, 1, body=bodies[0]))
    found = found_in(talk.broker(response("JoinGroup", 0, 1, body=bodies[1])))
    assert told(found, *CLASSIC) == [("join", "c", 1, None, None, "orders", "orders:0,1", None)]


BROKEN = [
    ("JoinGroup", 9, b"\x08workers"), ("SyncGroup", 5, b"\x08"), ("LeaveGroup", 5, b""),
    ("ConsumerGroupHeartbeat", 1, b"\xff"), ("StreamsGroupHeartbeat", 0, b"\x08workers\x02"),
]  # fmt: skip


@pytest.mark.parametrize(("api", "version", "body"), BROKEN)
def test_a_body_that_cannot_be_decoded_is_no_event_but_a_problem(
    api: str, version: int, body: bytes
) -> None:
    talk = conversation().open().client(request(api, version, 1, body=body))
    found = found_in(talk.broker(response(api, version, 1)))
    assert found.tables["members"] == []
    assert found.column("kind", table="problems") == ["undecodable-request"]


@pytest.mark.parametrize(("api", "version"), [row[:2] for row in BROKEN])
def test_undecodable_response_keeps_the_rows_of_the_request(api: str, version: int) -> None:
    ask = with_nulls(api, version, "request", {"group_id": "workers"})
    if api == "LeaveGroup":
        ask["members"] = [{"member_id": "m"}]
    talk = conversation().open().client(request(api, version, 1, **ask))
    found = found_in(talk.broker(response(api, version, 1, body=b"\x00")))
    assert told(found, "group_id", "error_code") == [("workers", None)]
