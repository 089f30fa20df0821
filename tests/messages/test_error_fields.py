"""Every error code of a response becomes a row: path, message and the entity concerned."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kdissect.messages.extracted import ErrorFact, FieldSink
from kdissect.messages.field_mapping import fact_plans
from kdissect.messages.interner import Interner
from kdissect.messages.partitions import NO_ID
from kdissect.protocol.apis import APIS
from kdissect.protocol.error_codes import error_codes
from kdissect.protocol.readers import NULL
from kdissect.protocol.specs import FieldSpec, snake_case
from tests.exchange_builders import ORDERS, Row, make_struct

# Fields with "Error" in their name that hold no code of Kafka's list.
NO_CODES = {
    ("ConsumerGroupHeartbeat", "Assignment.Error"): "an assignor's own number, in 3.5 and 3.6",
    ("ConsumerGroupDescribe", "Groups.Members.Assignment.Error"): "the same, in 3.7",
    ("ConsumerGroupDescribe", "Groups.Members.TargetAssignment.Error"): "the same, in 3.7",
}
CODE = 3
MESSAGE = "it went wrong"
ENTITY_TEXTS = {"topicName": "orders", "groupId": "workers", "transactionalId": "tx"}
PARTITIONS = ("PartitionIndex", "PartitionId", "Partition", "Index")
RESOURCES = ("ResourceName", "MemberId", "User", "Feature", "LogDir", "Key")


class Place(NamedTuple):
    """An error field of one response version, and the fields of all structs around it."""

    api: str
    version: int
    fields: tuple[FieldSpec, ...]
    path: tuple[FieldSpec, ...]
    is_flexible: bool

    def __repr__(self) -> str:
        return f"{self.api}-v{self.version}-{'.'.join(field.name for field in self.path)}"

    @property
    def structs(self) -> list[tuple[FieldSpec, ...]]:
        """The fields of the body and of each struct on the path, outermost first."""
        found = [self.fields, *(field.fields for field in self.path[:-1])]
        return [tuple(f for f in fields if self.version in f.versions) for fields in found]


def places(api: str, version: int, fields: tuple[FieldSpec, ...]) -> Iterator[Any]:
    for field in fields:
        if version not in field.versions:
            continue
        if field.name.endswith("ErrorCode"):
            yield (field,)
        for inner in places(api, version, field.fields):
            yield (field, *inner)


def all_places() -> list[Place]:
    found = []
    for api in APIS.values():
        spec = api.definition().layouts["response"]
        for version in sorted(spec.versions):
            found += [
                Place(api.name, version, spec.fields, path, version in spec.flexible)
                for path in places(api.name, version, spec.fields)
            ]
    return found


def text_of(field: FieldSpec) -> str | None:
    """Value that the test writes into a field that names the error's subject."""
    if field.type != "string" or field.is_array:
        return None
    if field.entity in ENTITY_TEXTS:
        return ENTITY_TEXTS[field.entity]
    if field.name.endswith("ErrorMessage"):
        return MESSAGE
    return "thing" if field.name in RESOURCES else None


def struct_values(place: Place, depth: int) -> Row:
    """The struct at `depth` of the path, with one element at each step and the code at its end."""
    values: Row = {}
    for field in place.structs[depth]:
        if (text := text_of(field)) is not None:
            values[snake_case(field.name)] = text
        elif field.name == "TopicId":
            values["topic_id"] = ORDERS
        elif field.name in PARTITIONS and field.full_type == "int32":
            values[snake_case(field.name)] = 5
        elif field.name == "ResourceType":
            values["resource_type"] = 4
    step = place.path[depth]
    inner: Any = CODE if depth == len(place.path) - 1 else struct_values(place, depth + 1)
    values[snake_case(step.name)] = [inner] if step.is_array else inner
    return values


def nearest(place: Place, wanted: Any) -> FieldSpec | None:
    """The innermost field around the error for which `wanted` holds."""
    for fields in reversed(place.structs):
        for field in fields:
            if wanted(field):
                return field
    return None


def expected(place: Place) -> tuple[Any, ...]:
    """Path, code, message, topic, topic id, partition, group and resource, from the definition."""
    steps = [snake_case(f.name) + ("[]" if f.is_array else "") for f in place.path]
    own = {field.name for field in place.structs[-1]}
    sibling = place.path[-1].name.replace("Code", "Message")
    is_body = len(place.path) == 1
    texts = {
        entity: ENTITY_TEXTS[entity]
        if nearest(place, lambda f, e=entity: f.entity == e and text_of(f))
        else ""
        for entity in ENTITY_TEXTS
    }
    topic_id = nearest(place, lambda f: f.name == "TopicId")
    partition = [f for f in place.structs[-1] if f.name in PARTITIONS and f.full_type == "int32"]
    resource = nearest(place, lambda f: text_of(f) == "thing")
    text = "thing" if resource else texts["transactionalId"]
    if "ResourceName" in own:
        text = "cluster thing" if place.api == "DeleteAcls" else "broker thing"
    return (
        ".".join(steps),
        CODE,
        MESSAGE if sibling in own else "",
        "" if is_body else texts["topicName"],
        ORDERS.bytes if topic_id and not is_body else NO_ID,
        5 if partition and not is_body else NULL,
        texts["groupId"],
        text,
    )


def facts_of(api: str, version: int, data: bytes) -> list[ErrorFact]:
    sink = FieldSink(Interner(), {})
    key = next(known.key for known in APIS.values() if known.name == api)
    assert fact_plans().get(key, version, True).run(data, 0, sink) == len(data)
    return sink.errors


def as_tuple(fact: ErrorFact) -> tuple[Any, ...]:
    return (
        fact.path, fact.code, fact.message, fact.topic, fact.topic_id, fact.partition, fact.group,
        fact.resource,
    )  # fmt: skip


def error_names() -> set[tuple[str, str]]:
    def walk(fields: tuple[FieldSpec, ...], path: str) -> Iterator[tuple[FieldSpec, str]]:
        for field in fields:
            yield field, f"{path}{field.name}"
            yield from walk(field.fields, f"{path}{field.name}.")

    found = set()
    for api in APIS.values():
        definition = api.definition()
        specs = [definition.layouts["response"]]
        specs += [spec for side, spec in definition.variants if side == "response"]
        for spec in specs:
            for field, path in walk(spec.fields, ""):
                if "Error" in field.name and field.type.startswith("int"):
                    found.add((api.name, path))
    return found


def test_each_error_field_of_each_response_is_found_where_it_stands() -> None:
    found = all_places()
    assert len(found) == 471
    wrong = []
    for place in found:
        data = make_struct(place.fields, place.version, place.is_flexible, struct_values(place, 0))
        facts = [as_tuple(fact) for fact in facts_of(place.api, place.version, data)]
        if facts != [expected(place)]:
            wrong.append((place, facts, expected(place)))
    assert wrong == []


def test_no_error_field_is_left_out_without_a_reason() -> None:
    tested = {(p.api, ".".join(field.name for field in p.path)) for p in all_places()}
    in_variants = {("ConsumerGroupDescribe", "Groups.ErrorCode")}
    assert error_names() - tested - set(NO_CODES) - in_variants == set()


@pytest.mark.parametrize("version", range(8, 14))
def test_records_that_a_broker_refuses_are_rows_with_their_own_messages(version: int) -> None:
    partition = {
        "index": 5, "error_code": 87, "error_message": "refused",
        "record_errors": [
            {"batch_index": 0, "batch_index_error_message": "no key"},
            {"batch_index": 7, "batch_index_error_message": None},
        ],
    }  # fmt: skip
    fine = {"index": 6, "record_errors": [{"batch_index": 1, "batch_index_error_message": "?"}]}
    topic: Row = {"topic_id": ORDERS} if version >= 13 else {"name": "orders"}
    values = {"responses": [topic | {"partition_responses": [partition, fine]}]}
    spec = APIS[0].definition().layouts["response"]
    data = make_struct(spec.fields, version, version in spec.flexible, values)
    at = "responses[].partition_responses[]"
    what = ("orders", NO_ID) if version < 13 else ("", ORDERS.bytes)
    assert [as_tuple(fact) for fact in facts_of("Produce", version, data)] == [
        (f"{at}.error_code", 87, "refused", *what, 5, "", ""),
        (f"{at}.record_errors[].batch_index_error_message", 87, "no key", *what, 5, "", "record 0"),
        (f"{at}.record_errors[].batch_index_error_message", 87, "", *what, 5, "", "record 7"),
    ]


def test_the_error_of_a_quota_names_its_entity() -> None:
    entity = [
        {"entity_type": "user", "entity_name": "alice"},
        {"entity_type": "client-id", "entity_name": None},
    ]
    fine = {"entity": [{"entity_type": "user", "entity_name": "bob"}]}
    entries = [fine, {"error_code": 42, "error_message": "no", "entity": entity}]
    spec = APIS[49].definition().layouts["response"]
    data = make_struct(spec.fields, 1, True, {"entries": entries})
    assert [as_tuple(fact) for fact in facts_of("AlterClientQuotas", 1, data)] == [
        ("entries[].error_code", 42, "no", "", NO_ID, NULL, "", "user alice, client-id <default>"),
    ]


@pytest.mark.parametrize(
    ("kind", "topic", "group", "resource"),
    [
        (2, "orders", "", "topic orders"),
        (32, "", "orders", "group orders"),
        (8, "", "", "broker logger orders"),
        (77, "", "", "resource type 77 orders"),
    ],
)
def test_the_resource_of_a_config_includes_its_kind(
    kind: int, topic: str, group: str, resource: str
) -> None:
    result = {"error_code": 40, "resource_type": kind, "resource_name": "orders"}
    spec = APIS[32].definition().layouts["response"]
    data = make_struct(spec.fields, 4, True, {"results": [result]})
    assert [as_tuple(fact) for fact in facts_of("DescribeConfigs", 4, data)] == [
        ("results[].error_code", 40, "", topic, NO_ID, NULL, group, resource)
    ]


def test_all_138_codes_have_a_name_and_say_whether_to_retry() -> None:
    codes = error_codes()
    assert sorted(codes) == list(range(-1, 137))
    assert len({code.name for code in codes.values()}) == 138
    assert (codes[-1].name, codes[0].name, codes[6].is_retriable) == (
        "UNKNOWN_SERVER_ERROR", "NONE", True,
    )  # fmt: skip
