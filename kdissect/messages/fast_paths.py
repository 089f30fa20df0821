"""Fast paths of generated code in place of `FieldSink.row`, for structs without errors.

Nearly all structs are such: their values go directly to the sink, without its slots.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from kdissect.messages import roles
from kdissect.messages.declared_roles import PARTITION_ROLES, REQUEST_ROLES
from kdissect.messages.partitions import FIELDS as PARTITION_FIELDS
from kdissect.messages.request_fields import FIELDS
from kdissect.protocol.readers import Shape

# Structs that only count together with others, and roles that few bodies have.
_LONG_KINDS: Final = (
    roles.HAS_RECORD_ERROR | roles.HAS_ENTITY | roles.HAS_ABORTED | roles.HAS_GROUP
    | roles.HAS_REPLICA | roles.HAS_ACQUIRED
)  # fmt: skip
_LONG_ROLES: Final = (
    roles.SOFTWARE_NAME, roles.PROTOCOL_TYPE, roles.PROTOCOL_NAME, roles.MECHANISM,
    roles.AUTH_BYTES,
)  # fmt: skip
_BODY_ATTRIBUTES: Final = {
    roles.THROTTLE: "throttle_ms", roles.SESSION_ID: "session_id",
    roles.SESSION_EPOCH: "session_epoch",
}  # fmt: skip


class FastPath(NamedTuple):
    """Code equivalent to ``sink.row(shape, data)`` when all conditions hold."""

    conditions: list[str]
    lines: list[str]


def fast_path_of(shape: Shape, kinds: int, value: Callable[[int], str]) -> FastPath | None:
    """Fast path of a struct; None if it must take the slow path.

    `kinds` are those of all structs of its layout, `value` gives the expression of a role's value.
    """
    kind = int(shape.kind)
    if kind & _LONG_KINDS or any(shape.slots[role] for role in _LONG_ROLES):
        return None
    lines: list[str] = []
    if kind & (roles.HAS_PARTITION | roles.HAS_TOPIC):
        lines += _topic_lines(value)
    if kind & roles.HAS_PARTITION:
        lines += _partition_lines(value)
        if shape.slots[roles.RECORDS]:
            wanted = (roles.RECORDS, roles.POSITION, roles.ABORTED_COUNT)
            lines.append(f"sink.add_records(data, {', '.join(value(role) for role in wanted)})")
        if kinds & roles.HAS_ACQUIRED:
            lines.append("sink.add_acquired()")
    elif kind & roles.HAS_TOPIC:
        lines.append("sink.topic_count += 1")
    if kind & roles.BODY:
        lines += _body_lines(shape, value)
    return FastPath(_without_error(shape, kinds, value), lines)


def _without_error(shape: Shape, kinds: int, value: Callable[[int], str]) -> list[str]:
    """Conditions that the struct has no error code other than 0."""
    if not shape.kind & roles.HAS_ERROR:
        return []
    codes = [role for role in (roles.ERROR, roles.SECOND_ERROR) if shape.slots[role]]
    conditions = [f"{value(role)} == 0" for role in codes]
    # Errors of single records, or of parts of an entity's name, belong to this code.
    if kinds & roles.HAS_RECORD_ERROR:
        conditions.append("not sink.record_errors")
    if kinds & roles.HAS_ENTITY:
        conditions.append("not sink.entities")
    return conditions


def _topic_lines(value: Callable[[int], str]) -> list[str]:
    spans = value(roles.TOPIC), value(roles.TOPIC_ID)
    return [
        f"if sink.topic_span != {spans[0]} or sink.topic_id_span != {spans[1]}:",
        f"    sink.set_topic(data, {spans[0]}, {spans[1]})",
    ]


def _partition_lines(value: Callable[[int], str]) -> list[str]:
    """Add a partition: all cells of its row but that of the topic."""
    values = [
        "NULL" if field.is_counted else value(PARTITION_ROLES[field.name])
        for field in PARTITION_FIELDS
    ]
    return [
        "row = sink.add_partition()",
        "if row >= 0:",
        "    cells = sink.cells",
        *[f"    cells[row + {place}] = {text}" for place, text in enumerate(values, 1)],
    ]


def _body_lines(shape: Shape, value: Callable[[int], str]) -> list[str]:
    """Fields of the body itself; the rest is as `FieldSink.begin` left it."""
    lines = [
        f"sink.{name} = {value(role)}"
        for role, name in _BODY_ATTRIBUTES.items()
        if shape.slots[role]
    ]
    if shape.slots[roles.ERROR]:
        lines.append("sink.top_error = 0")
    return lines + _request_lines(shape, value)


def _request_lines(shape: Shape, value: Callable[[int], str]) -> list[str]:
    """Fields of the request; a text that is absent here may be known from a struct."""
    lines = []
    for field in FIELDS:
        role = REQUEST_ROLES[field.name]
        if shape.slots[role]:
            read = value(role)
            text = f"sink.span_text(data, {read}) or asked.{field.name}"
            lines.append(f"asked.{field.name} = {text if field.is_text else read}")
    return ["asked = sink.asked", "sink.has_asked = True", *lines] if lines else []
