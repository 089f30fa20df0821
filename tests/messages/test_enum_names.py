"""The names of Kafka's enum values are shown beside them in output for people."""

import json
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.cli.tree import tree_lines
from kdissect.messages.enum_names import with_names
from kdissect.messages.full_bodies import full_body
from kdissect.protocol.apis import APIS
from kdissect.protocol.enums import BITS, enum_values
from kdissect.protocol.notation import load_file, read_index
from kdissect.protocol.specs import Definition, FieldSpec
from tests.exchange_builders import request, response
from tests.messages.record_builders import make_batch, make_record

CAPTURES = Path(__file__).parents[2] / "captures"
FIELDS = [tuple(row) for row in read_index("enum_fields")]
ACL = {
    "resource_type": 2, "resource_name": "orders", "resource_pattern_type": 4,
    "principal": "User:alice", "host": "*", "operation": 3, "permission_type": 2,
}  # fmt: skip
NAMED_ACL = {
    "resource_type": 2, "resource_type_name": "TOPIC", "resource_name": "orders",
    "resource_pattern_type": 4, "resource_pattern_type_name": "PREFIXED",
    "principal": "User:alice", "host": "*", "operation": 3, "operation_name": "READ",
    "permission_type": 2, "permission_type_name": "DENY",
}  # fmt: skip


def definition_of(message: str, side: str) -> Definition:
    if side == "layout":
        return load_file("messages/kraft-metadata")[message]
    return next(api.definition() for api in APIS.values() if api.name == message)


@pytest.mark.parametrize(("message", "side", "path", "enum"), FIELDS)
def test_every_listed_field_is_a_small_number_of_a_known_enum(
    message: str, side: str, path: str, enum: str
) -> None:
    fields: tuple[FieldSpec, ...] = definition_of(message, side).layouts[side].fields
    for step in path.split("."):
        (field,) = [each for each in fields if each.name == step]
        fields = field.fields
    assert field.type == ("int32" if enum.endswith(BITS) else "int8")
    assert enum_values(enum.removesuffix(BITS))


def test_every_enum_is_used_and_no_value_has_two_names() -> None:
    rows = list(read_index("enums"))
    assert {row[0] for row in rows} == {enum.removesuffix(BITS) for *_, enum in FIELDS}
    assert len({(enum, value) for enum, value, _ in rows}) == len(rows)


def test_names_stand_behind_their_numbers_and_unknown_numbers_alone() -> None:
    assert with_names("CreateAcls", "request", {"creations": [ACL]}) == {"creations": [NAMED_ACL]}
    (named,) = with_names("CreateAcls", "request", {"creations": [NAMED_ACL]})["creations"]
    assert list(named) == list(NAMED_ACL)
    odd = {"creations": [{"operation": 99, "permission_type": None}]}
    assert with_names("CreateAcls", "request", odd) == odd
    assert with_names("Heartbeat", "request", {"operation": 3}) == {"operation": 3}


def test_bits_and_lists_have_lists_of_names() -> None:
    body = {"cluster_authorized_operations": 1 << 3 | 1 << 8, "endpoint_type": 1}
    assert with_names("DescribeCluster", "response", body) == {
        "cluster_authorized_operations": 264,
        "cluster_authorized_operations_names": ["READ", "DESCRIBE"],
        "endpoint_type": 1,
        "endpoint_type_name": "BROKERS",
    }
    nobody_asked = {"cluster_authorized_operations": -(1 << 31)}
    assert with_names("DescribeCluster", "response", nobody_asked) == nobody_asked
    listed = with_names("ListConfigResources", "request", {"resource_types": [2, 32, 7]})
    assert listed["resource_types_names"] == ["TOPIC", "GROUP", "7"]


def test_the_number_and_its_name_are_one_field_in_show() -> None:
    assert list(tree_lines({"creations": [{"operation": 3, "operation_name": "READ"}]}, "")) == [
        "creations (1)",
        "  - operation: 3 READ",
    ]
    own = {"group": "g", "group_name": "n", "count": 1}
    assert list(tree_lines(own, "")) == ['group: "g"', 'group_name: "n"', "count: 1"]


def test_a_forwarded_request_has_names_too() -> None:
    inner = request("CreateAcls", 2, 9, creations=[ACL])[4:]
    body: dict[str, Any] = {"request_data": inner, "client_host_address": b"\x7f\0\0\1"}
    frame = request("Envelope", 0, 1, **body)[4:]
    opened = full_body(58, 0, frame, False)["request_data"]
    assert opened["body"] == {"creations": [NAMED_ACL]}
    inner = request("ListConfigResources", 1, 9, resource_types=[32])[4:]
    frame = request("Envelope", 0, 1, request_data=inner)[4:]
    answer = response("ListConfigResources", 1, 9, config_resources=[{"resource_type": 32}])[4:]
    shown = full_body(58, 0, response("Envelope", 0, 1, response_data=answer)[4:], True, frame)
    (resource,) = shown["response_data"]["body"]["config_resources"]
    assert resource["resource_type_name"] == "GROUP"
    undecoded = full_body(58, 0, request("Envelope", 0, 1, request_data=b"?")[4:], False)
    assert undecoded["request_data"].keys() == {"undecoded", "error"}


def test_records_of_the_metadata_log_have_names_too() -> None:
    value = b"\1\4\0" + b"\2" + b"\7orders" + b"\x0esegment.bytes" + b"\0021" + b"\0"
    record = make_record(b"", value)
    partition = {"partition_index": 0, "records": make_batch([record])}
    log = [{"topic": "__cluster_metadata", "partitions": [partition]}]
    frame = response("Fetch", 11, 1, responses=log)[4:]
    (batch,) = full_body(1, 11, frame, True)["responses"][0]["partitions"][0]["records"]
    assert batch["records"][0]["value"] == {
        "size": len(value),
        "type": "ConfigRecord",
        "version": 0,
        "resource_type": 2,
        "resource_type_name": "TOPIC",
        "resource_name": "orders",
        "name": "segment.bytes",
        "value": "1",
    }


@pytest.mark.parametrize("release", ["2.4.1", "4.3.1"])
def test_the_acls_of_a_real_broker_have_names(release: str) -> None:
    path = CAPTURES / f"admin-{release}.pcapng"
    rows = kdissect.read(path, table="bodies", where="api = 'CreateAcls'").to_arrow().to_pylist()
    creations = [acl for row in rows for acl in json.loads(row["request"])["creations"]]
    told = {
        (acl["resource_type_name"], acl["resource_pattern_type_name"], acl["operation_name"])
        for acl in creations
    }
    assert told == {("TOPIC", "PREFIXED", "READ")}
