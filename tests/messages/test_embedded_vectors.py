"""Vectors of Kafka's Java serializers (tools/embedded_vectors) decode to their input."""

from pathlib import Path
from typing import Any

import pytest

from kdissect.messages.group_protocols import decode_member, decode_user_data
from kdissect.messages.internal_topics import opened_record

LINES = (Path(__file__).parent / "embedded_vectors.txt").read_text().splitlines()
VECTORS = {name: bytes.fromhex(data) for name, data in map(str.split, LINES)}
URL = "http://worker:8083/"
ORDERS = {"topic": "orders", "partition": 3}
USERS = {"topic": "users", "partition": 1}


def mirrored(name: str, topic: str) -> tuple[Any, Any]:
    record = {"key": VECTORS[f"{name}-key"], "value": VECTORS[f"{name}-value"]}
    opened = opened_record(record, topic)
    return opened["key"], opened["value"]


MIRRORED = {
    "checkpoint": (
        {"size": 21, "group": "workers", "topic": "orders", "partition": 3},
        {"size": 24, "upstream_offset": 1234567890123, "offset": 42, "metadata": "kept"},
    ),
    "heartbeat": (
        {"size": 12, "source_cluster_alias": "east", "target_cluster_alias": "west"},
        {"size": 10, "timestamp": 1700000000123},
    ),
    "offset-sync": (
        {"size": 12, "topic": "orders", "partition": 3},
        {"size": 16, "upstream_offset": 1234567890123, "offset": 42},
    ),
}


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("checkpoint", "east.checkpoints.internal"),
        ("heartbeat", "heartbeats"),
        ("heartbeat", "east.heartbeats"),
        ("offset-sync", "mm2-offset-syncs.west.internal"),
    ],
)
def test_records_of_mirror_maker_are_opened(name: str, topic: str) -> None:
    # facts 12.
    assert mirrored(name, topic) == MIRRORED[name]


def test_a_mirrors_tombstone_is_null() -> None:
    record = {"key": VECTORS["checkpoint-key"], "value": None}
    opened = opened_record(record, "east.checkpoints.internal")
    assert opened == {"key": MIRRORED["checkpoint"][0], "value": None}


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("heartbeat", "my-heartbeats"),
        ("offset-sync", "orders.internal"),
        ("offset-sync", "heartbeats"),
        ("checkpoint", "heartbeats"),
        ("heartbeat", "checkpoints.internal"),
    ],
)
def test_records_of_others_with_such_a_name_stay_as_they_are(name: str, topic: str) -> None:
    assert mirrored(name, topic) == (VECTORS[f"{name}-key"], VECTORS[f"{name}-value"])


def connectors(name: str, *tasks: int) -> dict[str, Any]:
    return {"connector": name, "tasks": list(tasks)}


def connect_assignment(version: int) -> dict[str, Any]:
    # facts 11: v0 default, v1 compatible, v2 sessioned (KIP-415); task -1 is the connector.
    values = {
        "version": version,
        "error": min(version, 1),
        "leader": "leader",
        "leader_url": URL,
        "config_offset": 9,
        "assignment": [connectors("sink", -1, 0, 1)],
    }
    if version:
        values |= {"revoked": [connectors("source", -1, 2)], "scheduled_delay": 300_000}
    return values


@pytest.mark.parametrize("version", range(3))
def test_workers_of_connect(version: int) -> None:
    data = VECTORS[f"connect-assignment-{version}"]
    assert decode_member(data, "Assignment", "connect", None) == connect_assignment(version)
    told = {"version": version, "url": URL, "config_offset": 9}
    data = VECTORS[f"connect-subscription-{version}"]
    before = {"allocation": {"size": 95, **connect_assignment(version)}} if version else {}
    assert decode_member(data, "Subscription", "connect", None) == told | before
    if version:
        data = VECTORS[f"connect-subscription-new-{version}"]
        expected = told | {"allocation": None}
        assert decode_member(data, "Subscription", "connect", None) == expected


@pytest.mark.parametrize("version", range(4))
def test_consumers_of_every_version(version: int) -> None:
    foreign = {"undecoded": 3, "error": "user data of assignor 'range' is not known"}
    subscription = {
        "version": version,
        "topics": ["orders", "users"],
        "user_data": foreign,
        "owned_partitions": [{"topic": "orders", "partitions": [3]}],
        "generation_id": 7,
        "rack_id": "rack-a",
    }
    known = dict(list(subscription.items())[: 3 + version])
    data = VECTORS[f"subscription-{version}"]
    assert decode_member(data, "Subscription", "consumer", "range") == known
    data = VECTORS[f"assignment-{version}"]
    assert decode_member(data, "Assignment", "consumer", "range") == {
        "version": version,
        "assigned_partitions": [{"topic": "orders", "partitions": [3, 5]}],
        "user_data": foreign,
    }


def test_sticky_consumers_send_their_previous_assignment() -> None:
    previous = {"previous_assignment": [{"topic": "orders", "partitions": [3]}], "generation": 7}
    assert decode_user_data(VECTORS["sticky"], "Subscription", "sticky") == previous
    data = VECTORS["cooperative-sticky"]
    assert decode_user_data(data, "Subscription", "cooperative-sticky") == {"generation": 7}


def streams_subscription(version: int) -> dict[str, Any]:
    values: dict[str, Any] = {"version": version}
    if version >= 3:
        values["latest_supported_version"] = 11
    values["process_id"] = "AAECAwQFBgcICQoLDA0ODw"
    if version < 7:
        values["prev_tasks"] = [{"topic_group_id": 0, "partition": 2}]
        values["standby_tasks"] = [{"topic_group_id": 1, "partition": 0}]
    if version >= 2:
        values["user_end_point"] = b"node:9000"
    if version >= 10:
        values["task_offset_sums"] = [
            {"topic_group_id": 0, "partition": 2, "offset_sum": -2, "named_topology": "named"},
            {"topic_group_id": 1, "partition": 0, "offset_sum": 77, "named_topology": "named"},
        ]
    elif version >= 7:
        values["task_offset_sums"] = [
            {"topic_group_id": 0, "partition_to_offset_sum": [{"partition": 2, "offset_sum": -2}]},
            {"topic_group_id": 1, "partition_to_offset_sum": [{"partition": 0, "offset_sum": 77}]},
        ]
    if version >= 8:
        values["unique_field"] = 5
    if version >= 9:
        values["error_code"] = 0
    if version >= 11:
        values["client_tags"] = [{"key": b"zone", "value": b"a"}]
    return values


def streams_assignment(version: int) -> dict[str, Any]:
    values: dict[str, Any] = {"version": version}
    topology = {"topology": "named"} if version >= 10 else {}
    if version >= 3:
        values["latest_supported_version"] = 11
    values["active_tasks"] = [{"subtopology": 0, "partition": 2, **topology}]
    standby = {"subtopology": 1, "partition": 0, **topology, "partitions": [ORDERS]}
    values["standby_tasks"] = [standby]
    host = {"host": "node", "port": 9000}
    if version >= 2:
        values["partitions_by_host"] = [{**host, "partitions": [ORDERS]}]
    if version >= 6:
        values["standby_partitions_by_host"] = [{**host, "partitions": [USERS]}]
    if version >= 4:
        values["error_code"] = 0
    if version >= 7:
        values["next_rebalance_ms"] = 1_700_000_000_123
    return values


@pytest.mark.parametrize("version", range(1, 12))
def test_members_of_streams_of_every_version(version: int) -> None:
    data = VECTORS[f"streams-subscription-{version}"]
    assert decode_user_data(data, "Subscription", "stream") == streams_subscription(version)
    data = VECTORS[f"streams-assignment-{version}"]
    assert decode_user_data(data, "Assignment", "stream") == streams_assignment(version)


def test_every_vector_is_used() -> None:
    told = set()
    for name in ("checkpoint", "heartbeat", "offset-sync"):
        told |= {f"{name}-key", f"{name}-value"}
    told |= {f"connect-{part}-{v}" for part in ("subscription", "assignment") for v in range(3)}
    told |= {f"connect-subscription-new-{v}" for v in (1, 2)}
    told |= {f"{part}-{v}" for part in ("subscription", "assignment") for v in range(4)}
    told |= {f"streams-{part}-{v}" for part in ("subscription", "assignment") for v in range(1, 12)}
    assert set(VECTORS) == told | {"sticky", "cooperative-sticky"}
