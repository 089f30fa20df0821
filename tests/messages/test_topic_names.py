"""Names of topic ids are learnt from every message that carries both."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kdissect.messages.extracted import FieldSink
from kdissect.messages.field_mapping import fact_plans
from kdissect.messages.interner import Interner
from kdissect.messages.metadata_topics import NAMES_LIMIT, remember_name
from kdissect.protocol.apis import APIS, find_api
from kdissect.protocol.specs import FieldSpec, snake_case
from tests.conversation import conversation
from tests.exchange_builders import (
    ORDERS,
    PAYMENTS,
    Row,
    found_in,
    make_body,
    make_struct,
    request,
    response,
)
from tests.messages.record_builders import make_batch, make_record

# API, side, first and last version in which a struct holds a topic's name and its id.
CARRIERS = {
    ("Metadata", "request", 10, 13), ("Metadata", "response", 10, 13),
    ("LeaderAndIsr", "request", 5, 7), ("UpdateMetadata", "request", 7, 8),
    ("CreateTopics", "response", 7, 7),
    ("DeleteTopics", "request", 6, 6), ("DeleteTopics", "response", 6, 6),
    ("ConsumerGroupDescribe", "response", 0, 1),
    ("DescribeTopicPartitions", "response", 0, 0),
    ("ShareGroupDescribe", "response", 0, 1),
    ("DescribeShareGroupOffsets", "response", 0, 1),
    ("AlterShareGroupOffsets", "response", 0, 0),
    ("DeleteShareGroupOffsets", "response", 0, 0),
}  # fmt: skip
Path = tuple[FieldSpec, ...]


def carriers(version: int, fields: Path, path: Path = ()) -> Iterator[Path]:
    """The paths of structs with both."""
    present = [field for field in fields if version in field.versions]
    has_id = any(field.name == "TopicId" and field.full_type == "uuid" for field in present)
    if has_id and any(field.entity == "topicName" and not field.is_array for field in present):
        yield path
    for field in present:
        yield from carriers(version, field.fields, (*path, field))


def all_carriers() -> list[tuple[str, str, int, Path]]:
    return [
        (api.name, side, version, path)
        for api in APIS.values()
        for side, spec in api.definition().layouts.items()
        for version in sorted(spec.versions)
        for path in carriers(version, spec.fields)
    ]


def values_at(version: int, fields: Path, path: Path) -> Row:
    """Values of a body with one topic, named orders, at the end of `path`."""
    if path:
        inner: Any = values_at(version, path[0].fields, path[1:])
        return {snake_case(path[0].name): [inner] if path[0].is_array else inner}
    present = [field for field in fields if version in field.versions]
    name = next(field for field in present if field.entity == "topicName" and not field.is_array)
    return {"topic_id": ORDERS, snake_case(name.name): "orders"}


def test_these_messages_carry_a_name_and_an_id() -> None:
    spans: dict[tuple[str, str], list[int]] = {}
    for api, side, version, _ in all_carriers():
        spans.setdefault((api, side), []).append(version)
    found = {(*key, min(versions), max(versions)) for key, versions in spans.items()}
    assert found == CARRIERS


@pytest.mark.parametrize(
    ("api", "side", "version", "path"),
    all_carriers(),
    ids=lambda value: ".".join(f.name for f in value) if isinstance(value, tuple) else str(value),
)
def test_the_name_is_learnt(api: str, side: str, version: int, path: Path) -> None:
    spec = find_api(api).definition().layouts[side]
    values = values_at(version, spec.fields, path)
    data = make_struct(spec.fields, version, version in spec.flexible, values)
    names: dict[bytes, str] = {}
    plan = fact_plans().get(find_api(api).key, version, side == "response")
    assert plan.run(data, 0, FieldSink(Interner(), names)) == len(data)
    assert names == {ORDERS.bytes: "orders"}


def topic_record(name: str, topic_id: bytes) -> bytes:
    """A TopicRecord v0 in a frame of version 1."""
    return b"\x01\x02\x00" + bytes([len(name) + 1]) + name.encode() + topic_id + b"\x00"


CREATED = [
    topic_record("orders", ORDERS.bytes),
    # As 2.8 wrote it, in a frame of version 0.
    b"\x00\x02\x00\x00\x08payments" + PAYMENTS.bytes,
]
OTHERS = [b"", b"\x01\x02", b"\x01\x03\x00\x07orders", b"\x01\x02\x00\x30cut", b"\x01\x02\x00\x00"]


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize(
    ("api", "version", "topic"),
    [
        ("Fetch", 12, {"topic": "__cluster_metadata"}),
        ("Fetch", 17, {"topic_id": uuid.UUID(int=1)}),
        ("FetchSnapshot", 1, {"name": "__cluster_metadata"}),
    ],
)
def test_names_are_learnt_from_the_metadata_log(
    api: str, version: int, topic: Row, codec: int
) -> None:
    records = [make_record(offset_delta=i, value=v) for i, v in enumerate(OTHERS + CREATED)]
    log = make_batch(records, codec=codec) + make_batch(records, attributes=0x20)
    field = "unaligned_records" if api == "FetchSnapshot" else "records"
    topics = "topics" if api == "FetchSnapshot" else "responses"
    values = {topics: [topic | {"partitions": [{field: log}]}]}
    data = make_body(api, version, "response", values)
    names: dict[bytes, str] = {}
    plan = fact_plans().get(find_api(api).key, version, True)
    assert plan.run(data, 0, FieldSink(Interner(), names)) == len(data)
    assert names == {ORDERS.bytes: "orders", PAYMENTS.bytes: "payments"}


def test_names_are_not_learnt_from_other_topics() -> None:
    log = make_batch([make_record(value=CREATED[0])])
    values = {"responses": [{"topic": "users", "partitions": [{"records": log}]}]}
    names: dict[bytes, str] = {}
    data = make_body("Fetch", 12, "response", values)
    fact_plans().get(1, 12, True).run(data, 0, FieldSink(Interner(), names))
    assert names == {}


def test_a_name_is_put_on_rows_of_before_it_was_learnt_from_the_log() -> None:
    partition = {"partition": 0, "fetch_offset": 5}
    asked = {"topics": [{"topic_id": ORDERS, "partitions": [partition]}]}
    log = make_batch([make_record(value=CREATED[0])])
    metadata = {"topic_id": uuid.UUID(int=1), "partitions": [{"records": log}]}
    talk = conversation().open()
    talk = talk.client(request("Fetch", 17, 1, **asked)).broker(response("Fetch", 17, 1))
    talk = talk.client(request("Fetch", 17, 2))
    talk = talk.broker(response("Fetch", 17, 2, responses=[metadata])).close()
    found = found_in(talk).columns("topic", "topic_id", table="partitions")
    assert sorted(found, reverse=True) == [
        ("orders", "cjI4FDbRahK6PF_HbOOekA"), ("__cluster_metadata", "AAAAAAAAAAAAAAAAAAAAAQ"),
    ]  # fmt: skip


def test_no_more_names_of_topics_are_remembered_than_the_limit_and_none_that_is_too_long() -> None:
    names: dict[bytes, str] = {}
    remember_name(names, bytes(16), "x" * 250)
    assert names == {}
    remember_name(names, bytes(16), "x" * 249)
    names |= {number.to_bytes(16): "known" for number in range(1, NAMES_LIMIT)}
    remember_name(names, b"another topic...", "too many")
    assert (len(names), names[bytes(16)]) == (NAMES_LIMIT, "x" * 249)


def test_a_topic_keeps_its_first_name() -> None:
    names: dict[bytes, str] = {}
    for name in ("first", "second"):
        remember_name(names, bytes(16), name)
    assert names == {bytes(16): "first"}


def test_texts_are_shared_until_there_are_too_many_or_too_long_ones() -> None:
    interner = Interner(limit=3, size_limit=390)
    for raw in (b"a", b"b", b"c"):
        assert interner.text(raw) is interner.text(raw)
    assert sorted(interner.texts) == [b"a", b"b", b"c"]
    interner.text(b"d")
    assert (list(interner.texts), interner.size) == ([b"d"], 98)
    interner.text(b"x" * 100)
    assert (list(interner.texts), interner.size) == ([b"x" * 100], 296)
