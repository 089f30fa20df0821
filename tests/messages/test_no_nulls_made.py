"""A null in a decoded body is one on the wire: empty values there stay empty."""

from collections.abc import Iterator
from typing import Any

import pytest

from kdissect.messages.bodies import decode
from kdissect.protocol.apis import APIS, ApiKey
from kdissect.protocol.specs import FieldSpec, snake_case
from tests.exchange_builders import INTEGERS, make_struct


def emptied(fields: tuple[FieldSpec, ...], version: int) -> dict[str, Any]:
    """Values of all fields of a version, none of them null: arrays have one element."""
    values: dict[str, Any] = {}
    for field in fields:
        if version not in field.versions or field.type in INTEGERS or field.type == "uuid":
            continue
        value: Any = "" if field.type == "string" else b""
        if field.is_struct:
            value = emptied(field.fields, version)
        values[snake_case(field.name)] = [value] if field.is_array else value
    return values


def nulls(value: Any, path: str = "") -> Iterator[str]:
    """The paths of all nulls."""
    if value is None:
        yield path
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from nulls(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from nulls(inner, path)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: str(api.name))
def test_a_body_without_a_null_is_decoded_without_one(api: ApiKey) -> None:
    for side, spec in api.definition().layouts.items():
        for version in sorted(spec.versions):
            body = make_struct(
                spec.fields, version, version in spec.flexible, emptied(spec.fields, version)
            )
            found = list(nulls(decode(api.key, version, side, body)))
            assert (side, version, found) == (side, version, [])
