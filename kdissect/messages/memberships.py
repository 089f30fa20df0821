"""Request and response of a group API → events of the group's members.

    JoinGroup      join             the member's subscription, the generation it joined
    SyncGroup      assign, sync     the leader's plan, a row a member; this member's assignment
    Heartbeat      heartbeat        only with an error (a rebalance, a member that is not known)
    LeaveGroup     leave            a row a member
    Consumer-, Share- and StreamsGroupHeartbeat (KIP-848, 932, 1071), by the first that is true:
                   leave            epoch below 0 (-2: a static member that may come back)
                   join             epoch 0
                   heartbeat        the broker answers with an error
                   assign           the broker assigns partitions or tasks
                   owned            the member states what it owns
                   subscribe        the member states its subscription
                   epoch            the broker answers with another epoch

Heartbeats that change nothing are not events. Assignments are written ``topic:0,1 other:3``, with
the topic's id if the message has no name.

Where the response may have been sent, but was not captured in full, its fields are unknown, and so
is the choice among several protocols that the member offers. Whether a heartbeat above epoch 0 is
an event is unknown then, so it is none. Longer than other modules: a function for each group API.
"""

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from mypy_extensions import i64

from kdissect.messages.layout_choice import Body

JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
TASKS: Final = ("active", "standby", "warmup")


class Membership(NamedTuple):
    """One event; "" and None where the messages have no value.

    `generation` is the member epoch in groups of the new protocols. `error_code` is None without
    response. Unknown values are None and "", too.
    """

    event: str
    group_id: str
    member_id: str
    group_instance_id: str = ""
    generation: int | None = None
    protocol: str = ""
    is_leader: bool | None = None
    subscription: str = ""
    assignment: str = ""
    reason: str = ""
    error_code: int | None = None


def memberships(
    key: i64,
    request: Body,
    response: Body | None,
    protocol_name: str = "",
    is_response_known: bool = True,
) -> list[Membership]:
    """Events of one exchange, from its bodies as returned by `decode_frame`.

    `protocol_name` is the one that the group agreed on, which SyncGroup contains only from v5 on.
    Unless `is_response_known`, a response may exist where `response` is None.
    """
    answer = response or {}
    if not is_response_known:
        request = _certain(key, request)
    if key == JOIN_GROUP:
        return [_joined(request, answer)]
    if key == SYNC_GROUP:
        return _synced(request, answer, protocol_name)
    if key == LEAVE_GROUP:
        return _left(request, answer)
    if key == HEARTBEAT:
        return _missed(request, answer)
    beat = _beat(request, answer) if is_response_known else _beat_alone(request)
    return [] if beat is None else [beat]


def _certain(key: i64, request: Body) -> Body:
    """The request without the fields that its response decides."""
    if key == JOIN_GROUP and len(request.get("protocols") or ()) > 1:
        return {**request, "protocols": [], "topics": None}
    return request


def _joined(request: Body, answer: Body) -> Membership:
    error = answer.get("error_code")
    # JoinGroup of 0.8.2 had other names for these fields.
    member = answer.get("member_id") or request.get("member_id") or request.get("consumer_id")
    protocols = request.get("protocols") or []
    chosen = answer.get("protocol_name") or ""
    offered = [entry for entry in protocols if entry["name"] == chosen] or protocols
    generation = answer.get("generation_id", answer.get("group_generation_id"))
    topics = request.get("topics")
    return Membership(
        "join",
        _text(request["group_id"]),
        member or "",
        request.get("group_instance_id") or "",
        generation if error == 0 else None,
        chosen or _text(offered[0]["name"] if offered else None),
        answer.get("leader") == member if error == 0 and "leader" in answer else None,
        subscription_text(offered[0]["metadata"] if offered else {"topics": topics}),
        partitions_text(answer.get("assigned_partitions") or (), "topic"),
        request.get("reason") or "",
        error,
    )


def _synced(request: Body, answer: Body, protocol_name: str) -> list[Membership]:
    plan = request["assignments"] or []
    group, member = _text(request["group_id"]), _text(request["member_id"])
    generation, error = request["generation_id"], answer.get("error_code")
    protocol = answer.get("protocol_name") or request.get("protocol_name") or protocol_name
    events = [
        Membership(
            "assign",
            group,
            _text(entry["member_id"]),
            "",
            generation,
            protocol,
            entry["member_id"] == request["member_id"],
            assignment=assignment_text(entry["assignment"]),
            error_code=error,
        )
        for entry in plan
    ]
    own = assignment_text(answer.get("assignment"))
    instance = request.get("group_instance_id") or ""
    events.append(
        Membership(
            "sync", group, member, instance, generation, protocol, bool(plan), assignment=own,
            error_code=error,
        )
    )  # fmt: skip
    return events


def _left(request: Body, answer: Body) -> list[Membership]:
    group, error = _text(request["group_id"]), answer.get("error_code")
    if "members" not in request:
        return [Membership("leave", group, _text(request["member_id"]), error_code=error)]
    answers = answer.get("members") or []
    left = []
    for place, member in enumerate(request["members"] or ()):
        own = answers[place]["error_code"] if not error and place < len(answers) else error
        left.append(
            Membership(
                "leave",
                group,
                _text(member["member_id"]),
                _text(member["group_instance_id"]),
                reason=member.get("reason") or "",
                error_code=own,
            )
        )
    return left


def _missed(request: Body, answer: Body) -> list[Membership]:
    error = answer.get("error_code")
    if not error:
        return []
    instance = request.get("group_instance_id") or ""
    group, member = _text(request["group_id"]), _text(request["member_id"])
    generation = request["generation_id"]
    return [Membership("heartbeat", group, member, instance, generation, error_code=error)]


def _beat(request: Body, answer: Body) -> Membership | None:
    """Event of a heartbeat of the new protocols; None if nothing changes."""
    error = answer.get("error_code")
    epoch = request["member_epoch"]
    subscription = subscription_text(_subscribed(request))
    owned, assigned = _partitions(request), _partitions(answer.get("assignment") or answer)
    if epoch < 0:
        event = "leave"
    elif epoch == 0:
        event = "join"
    elif error:
        event = "heartbeat"
    elif assigned is not None:
        event = "assign"
    elif owned is not None:
        event = "owned"
    elif subscription:
        event = "subscribe"
    elif error == 0 and answer["member_epoch"] != epoch:
        event = "epoch"
    else:
        return None
    return Membership(
        event,
        _text(request["group_id"]),
        _text(answer.get("member_id") or request["member_id"]),
        request.get("instance_id") or "",
        answer["member_epoch"] if error == 0 else epoch,
        request.get("server_assignor") or "",
        subscription=subscription,
        assignment=(assigned if assigned is not None else owned) or "",
        reason=_reason(request, answer),
        error_code=error,
    )


def _beat_alone(request: Body) -> Membership | None:
    """Event of a heartbeat with unknown response; None if it may be none."""
    epoch = request["member_epoch"]
    if epoch > 0:
        return None
    return Membership(
        "leave" if epoch < 0 else "join",
        _text(request["group_id"]),
        _text(request["member_id"]),
        request.get("instance_id") or "",
        protocol=request.get("server_assignor") or "",
        subscription=subscription_text(_subscribed(request)),
    )


def _reason(request: Body, answer: Body) -> str:
    reasons = [_text(status["status_detail"]) for status in answer.get("status") or ()]
    if request.get("shutdown_application"):
        reasons.insert(0, "shutdown of the application")
    return "; ".join(reasons) or answer.get("error_message") or ""


def _subscribed(request: Body) -> Body:
    """Subscription in a heartbeat, as in a consumer's subscription."""
    topics = list(request.get("subscribed_topic_names") or ())
    patterns = [request["subscribed_topic_regex"]] if request.get("subscribed_topic_regex") else []
    for part in (request.get("topology") or {}).get("subtopologies") or ():
        topics += part["source_topics"] or ()
        patterns += part["source_topic_regex"] or ()
    return {"topics": topics, "patterns": patterns}


def _partitions(body: Body) -> str | None:
    """Partitions or tasks in a heartbeat or its answer; None if absent."""
    parts = body.get("topic_partitions")
    if parts is None:
        # 3.5 and 3.6 had other names.
        parts = body.get("assigned_topic_partitions")
    if parts is not None:
        return partitions_text(parts, "topic_id")
    tasks = {kind: body.get(f"{kind}_tasks") for kind in TASKS}
    if all(found is None for found in tasks.values()):
        return None
    return " ".join(
        f"{kind} {partitions_text(found, 'subtopology_id')}"
        for kind, found in tasks.items()
        if found
    )


def subscription_text(value: Any) -> str:
    """Format a member's subscription: topics, patterns between slashes, or other contents."""
    if not isinstance(value, dict):
        return ""
    if "topics" in value:
        patterns = [f"/{pattern}/" for pattern in value.get("patterns") or ()]
        return " ".join([*map(_text, value["topics"] or ()), *patterns])
    if "url" in value:
        return f"{value['url']} config offset {value['config_offset']}"
    return _other_text(value)


def assignment_text(value: Any) -> str:
    """Format a member's assignment: ``topic:0,1``, connectors with tasks, or other contents."""
    if not isinstance(value, dict):
        return ""
    if "assigned_partitions" in value:
        return partitions_text(value["assigned_partitions"] or (), "topic")
    if "config_offset" in value:
        texts = [partitions_text(value["assignment"] or (), "connector", "tasks")]
        revoked = partitions_text(value.get("revoked") or (), "connector", "tasks")
        return " ".join(text for text in [*texts, revoked and f"revoked {revoked}"] if text)
    return _other_text(value)


def partitions_text(entries: Iterable[Body], name: str, numbers: str = "partitions") -> str:
    """Format entries of a topic and its partitions as one text.

    >>> partitions_text([{"topic": "a", "partitions": [0, 2]}, {"topic": "b"}], "topic")
    'a:0,2 b:'
    """
    return " ".join(
        f"{_text(entry[name])}:{','.join(map(str, entry.get(numbers) or ()))}" for entry in entries
    )


def _other_text(value: Body) -> str:
    if "undecoded" in value:
        return f"{value['undecoded']} bytes, not decoded: {value['error']}"
    return json.dumps(value.get("json", value), ensure_ascii=False, default=repr)


def _text(value: str | None) -> str:
    """A field that the schema declares non-nullable, though the wire may have null anywhere."""
    return "" if value is None else value
