"""Group messages with null where Kafka's definitions forbid it: some clients write it."""

from collections.abc import Iterator
from typing import Any

from kdissect.messages.bodies import decode
from kdissect.messages.group_protocols import opened_member
from kdissect.messages.memberships import Membership, memberships
from kdissect.protocol.apis import find_api
from tools.fuzz.seeds import vector_lines

GROUP_APIS = (
    "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat", "StreamsGroupHeartbeat",
)  # fmt: skip
SUBSCRIPTION = b"\0\1\0\0\0\1\0\5topic\0\0\0\0\0\0\0\1\0\5topic\0\0\0\1\0\0\0\3"
ASSIGNMENT = b"\0\1\0\0\0\1\0\5topic\0\0\0\1\0\0\0\3\0\0\0\0"
TEXTS = (
    "group_id", "member_id", "group_instance_id", "protocol", "subscription", "assignment",
    "reason",
)  # fmt: skip


def nulled(value: Any) -> Iterator[Any]:
    """The value with each string and array in it, one at a time, made null."""
    if isinstance(value, str | list):
        yield None
    if isinstance(value, list):
        for index, item in enumerate(value):
            for changed in nulled(item):
                yield [*value[:index], changed, *value[index + 1 :]]
    elif isinstance(value, dict):
        for name, field in value.items():
            for changed in nulled(field):
                yield value | {name: changed}


def bodies(api: str, side: str) -> Iterator[tuple[int, Any]]:
    for _, name, version, releases, raw in vector_lines():
        if name == api + side.capitalize() and not releases:
            yield version, decode(api, version, side, raw)


def opened(body: Any) -> Any:
    """A body with decodable member bytes."""
    if isinstance(body, list):
        return [opened(item) for item in body]
    if not isinstance(body, dict):
        return body
    changed = {name: opened(field) for name, field in body.items()}
    for name, part, data in (
        ("metadata", "Subscription", SUBSCRIPTION),
        ("assignment", "Assignment", ASSIGNMENT),
    ):
        if isinstance(changed.get(name), dict) and "undecoded" in changed[name]:
            changed[name] = opened_member(data, part, "consumer", "range")
    return changed


def test_null_anywhere_in_a_group_message_gives_events_with_texts() -> None:
    count = 0
    for api in GROUP_APIS:
        key = find_api(api).key
        answers = dict(bodies(api, "response"))
        for version, plain in bodies(api, "request"):
            request, response = opened(plain), opened(answers[version])
            pairs = [(changed, response) for changed in nulled(request)]
            pairs += [(request, changed) for changed in nulled(response)]
            for asked, answered in pairs:
                count += 1
                for event in memberships(key, asked, answered):
                    assert all(isinstance(getattr(event, name), str) for name in TEXTS), event
    assert count > 500


def test_an_assignment_of_null_partitions_is_empty() -> None:
    request = {"group_id": None, "member_id": None, "generation_id": 1, "assignments": [
        {"member_id": None, "assignment": {"version": 0, "assigned_partitions": None}},
    ]}  # fmt: skip
    sync = Membership("sync", "", "", "", 1, "", True)
    assert memberships(14, request, None) == [sync._replace(event="assign"), sync]


def test_every_group_api_has_vectors() -> None:
    for api in GROUP_APIS:
        assert list(bodies(api, "request"))
        assert list(bodies(api, "response"))
