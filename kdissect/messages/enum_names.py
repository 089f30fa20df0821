"""Adds names of Kafka's enumerated numbers: resource types, ACL operations, sources."""

from typing import Any

from kdissect.protocol.enums import EnumFields, enum_fields, enum_text


def with_names(message: str, side: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a decoded message with ``operation_name`` behind ``operation`` and so on.

    A list of values, or bits, gets a list of names. Numbers without a name get none. `side` is
    request, response or layout.
    """
    fields = enum_fields().get((message, side))
    if fields is None:
        return body
    named: dict[str, Any] = _named(fields, body)
    return named


def _named(fields: EnumFields, value: Any) -> Any:
    """Add names to `value`, a struct or an array of them."""
    if isinstance(value, list):
        return [_named(fields, item) for item in value]
    if not isinstance(value, dict):
        return value
    named: dict[str, Any] = {}
    for name, field in value.items():
        inner = fields.structs.get(name)
        named[name] = field if inner is None else _named(inner, field)
        text = enum_text(fields.enums[name], field) if name in fields.enums else None
        if text is not None:
            named[f"{name}_{'name' if isinstance(text, str) else 'names'}"] = text
    return named
