"""What a generated decode does in place of `FactSink.row`, for structs where nothing went wrong.

Nearly all structs are such: the values go to the sink without a detour through its slots.
"""

from collections.abc import Callable
from typing import Final

from kdissect.messages import facts
from kdissect.protocol.generated import ShortWay
from kdissect.protocol.readers import Shape

# Structs that only count together with others, and roles that few bodies have.
_LONG_KINDS: Final = (
    facts.HAS_RECORD_ERROR | facts.HAS_ENTITY | facts.HAS_ABORTED | facts.HAS_GROUP
    | facts.HAS_REPLICA
)  # fmt: skip
_LONG_ROLES: Final = (
    facts.SOFTWARE_NAME, facts.PROTOCOL_TYPE, facts.PROTOCOL_NAME, facts.MECHANISM,
    facts.AUTH_BYTES, facts.PRODUCER_ID, facts.TRANSACTION_TIMEOUT,
)  # fmt: skip
_PARTITION_ROLES: Final = (
    facts.PARTITION, facts.ERROR, facts.BASE_OFFSET, facts.FETCH_OFFSET, facts.COMMITTED_OFFSET,
    facts.HIGH_WATERMARK, facts.LAST_STABLE_OFFSET, facts.LOG_START_OFFSET, facts.LEADER_EPOCH,
    facts.PREFERRED_READ_REPLICA,
)  # fmt: skip
_BODY_ATTRIBUTES: Final = {
    facts.THROTTLE: "throttle_ms", facts.ACKS: "acks", facts.MAX_WAIT: "max_wait_ms",
    facts.MIN_BYTES: "min_bytes", facts.REPLICA_ID: "replica_id",
    facts.SESSION_ID: "session_id", facts.SESSION_EPOCH: "session_epoch",
}  # fmt: skip


def short_way_of(shape: Shape, value: Callable[[int], str]) -> ShortWay | None:
    """The short way of a struct, by its kind; None when it must go the long one."""
    kind = shape.kind
    if kind & _LONG_KINDS or any(shape.slots[role] for role in _LONG_ROLES):
        return None
    lines: list[str] = []
    if kind & (facts.HAS_PARTITION | facts.HAS_TOPIC):
        lines += _topic_lines(value)
    if kind & facts.HAS_PARTITION:
        values = ", ".join(value(role) for role in _PARTITION_ROLES)
        lines.append(f"sink.add_partition({values})")
        if shape.slots[facts.RECORDS]:
            roles = (facts.RECORDS, facts.POSITION, facts.ABORTED_COUNT)
            lines.append(f"sink.add_records(data, {', '.join(value(role) for role in roles)})")
    elif kind & facts.HAS_TOPIC:
        lines.append("sink.topic_count += 1")
    if kind & facts.BODY:
        lines += _body_lines(shape, value)
    return ShortWay(_without_error(shape, value), lines)


def _without_error(shape: Shape, value: Callable[[int], str]) -> str:
    """The condition that the struct has no error code other than 0."""
    if not shape.kind & facts.HAS_ERROR:
        return ""
    roles = [role for role in (facts.ERROR, facts.SECOND_ERROR) if shape.slots[role]]
    conditions = [f"{value(role)} == 0" for role in roles]
    # What was said of single records, or of parts of an entity's name, belongs to this code.
    return " and ".join([*conditions, "not sink.record_errors", "not sink.entities"])


def _topic_lines(value: Callable[[int], str]) -> list[str]:
    spans = value(facts.TOPIC), value(facts.TOPIC_ID)
    return [
        f"if sink.topic_span != {spans[0]} or sink.topic_id_span != {spans[1]}:",
        f"    sink.set_topic(data, {spans[0]}, {spans[1]})",
    ]


def _body_lines(shape: Shape, value: Callable[[int], str]) -> list[str]:
    """What the body itself says; the rest is as `FactSink.begin` left it."""
    lines = [
        f"sink.{name} = {value(role)}"
        for role, name in _BODY_ATTRIBUTES.items()
        if shape.slots[role]
    ]
    if shape.slots[facts.ERROR]:
        lines.append("sink.top_error = 0")
    if shape.slots[facts.GROUP]:
        lines.append(f"sink.group = sink.span_text(data, {value(facts.GROUP)}) or sink.group")
    if shape.slots[facts.TRANSACTIONAL_ID]:
        text = f"sink.span_text(data, {value(facts.TRANSACTIONAL_ID)})"
        lines.append(f"sink.transactional_id = {text}")
    if shape.slots[facts.RACK_ID]:
        lines.append(f"sink.rack_id = sink.span_text(data, {value(facts.RACK_ID)})")
    return lines
