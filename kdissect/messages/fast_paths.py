"""Fast paths of generated readers in place of `FieldSink.row`, for structs without errors.

Nearly all structs are such: their values go directly to the sink, without its slots.
"""

from collections.abc import Callable
from typing import Final

from kdissect.messages import extracted
from kdissect.protocol.generated import FastPath
from kdissect.protocol.readers import Shape

# Structs that only count together with others, and roles that few bodies have.
_LONG_KINDS: Final = (
    extracted.HAS_RECORD_ERROR | extracted.HAS_ENTITY | extracted.HAS_ABORTED | extracted.HAS_GROUP
    | extracted.HAS_REPLICA
)  # fmt: skip
_LONG_ROLES: Final = (
    extracted.SOFTWARE_NAME, extracted.PROTOCOL_TYPE, extracted.PROTOCOL_NAME, extracted.MECHANISM,
    extracted.AUTH_BYTES, extracted.PRODUCER_ID, extracted.TRANSACTION_TIMEOUT,
)  # fmt: skip
_PARTITION_ROLES: Final = (
    extracted.PARTITION, extracted.ERROR, extracted.BASE_OFFSET, extracted.FETCH_OFFSET,
    extracted.COMMITTED_OFFSET, extracted.HIGH_WATERMARK, extracted.LAST_STABLE_OFFSET,
    extracted.LOG_START_OFFSET, extracted.LEADER_EPOCH, extracted.PREFERRED_READ_REPLICA,
)  # fmt: skip
_BODY_ATTRIBUTES: Final = {
    extracted.THROTTLE: "throttle_ms", extracted.ACKS: "acks", extracted.MAX_WAIT: "max_wait_ms",
    extracted.MIN_BYTES: "min_bytes", extracted.REPLICA_ID: "replica_id",
    extracted.SESSION_ID: "session_id", extracted.SESSION_EPOCH: "session_epoch",
}  # fmt: skip


def fast_path_of(shape: Shape, value: Callable[[int], str]) -> FastPath | None:
    """Fast path of a struct, by its kind; None if it must take the slow path."""
    kind = shape.kind
    if kind & _LONG_KINDS or any(shape.slots[role] for role in _LONG_ROLES):
        return None
    lines: list[str] = []
    if kind & (extracted.HAS_PARTITION | extracted.HAS_TOPIC):
        lines += _topic_lines(value)
    if kind & extracted.HAS_PARTITION:
        values = ", ".join(value(role) for role in _PARTITION_ROLES)
        lines.append(f"sink.add_partition({values})")
        if shape.slots[extracted.RECORDS]:
            roles = (
                extracted.RECORDS,
                extracted.POSITION,
                extracted.ABORTED_COUNT,
            )
            lines.append(f"sink.add_records(data, {', '.join(value(role) for role in roles)})")
    elif kind & extracted.HAS_TOPIC:
        lines.append("sink.topic_count += 1")
    if kind & extracted.BODY:
        lines += _body_lines(shape, value)
    return FastPath(_without_error(shape, value), lines)


def _without_error(shape: Shape, value: Callable[[int], str]) -> str:
    """Condition that the struct has no error code other than 0."""
    if not shape.kind & extracted.HAS_ERROR:
        return ""
    roles = [role for role in (extracted.ERROR, extracted.SECOND_ERROR) if shape.slots[role]]
    conditions = [f"{value(role)} == 0" for role in roles]
    # Errors of single records, or of parts of an entity's name, belong to this code.
    return " and ".join([*conditions, "not sink.record_errors", "not sink.entities"])


def _topic_lines(value: Callable[[int], str]) -> list[str]:
    spans = value(extracted.TOPIC), value(extracted.TOPIC_ID)
    return [
        f"if sink.topic_span != {spans[0]} or sink.topic_id_span != {spans[1]}:",
        f"    sink.set_topic(data, {spans[0]}, {spans[1]})",
    ]


def _body_lines(shape: Shape, value: Callable[[int], str]) -> list[str]:
    """Fields of the body itself; the rest is as `FieldSink.begin` left it."""
    lines = [
        f"sink.{name} = {value(role)}"
        for role, name in _BODY_ATTRIBUTES.items()
        if shape.slots[role]
    ]
    if shape.slots[extracted.ERROR]:
        lines.append("sink.top_error = 0")
    if shape.slots[extracted.GROUP]:
        lines.append(f"sink.group = sink.span_text(data, {value(extracted.GROUP)}) or sink.group")
    if shape.slots[extracted.TRANSACTIONAL_ID]:
        text = f"sink.span_text(data, {value(extracted.TRANSACTIONAL_ID)})"
        lines.append(f"sink.transactional_id = {text}")
    if shape.slots[extracted.RACK_ID]:
        lines.append(f"sink.rack_id = sink.span_text(data, {value(extracted.RACK_ID)})")
    return lines
