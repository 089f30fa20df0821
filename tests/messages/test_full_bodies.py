"""Bodies as JSON: the C encoder gives the same text and charges as the slow path."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdissect
from kdissect.errors import DecodeError
from kdissect.messages.embedded import ENVELOPE
from kdissect.messages.full_bodies import body_json, full_body, jsonable
from kdissect.messages.opened_records import (
    RECORDS_FIELDS,
    WITH_RECORDS,
    shaped,
    with_headers,
    with_sizes,
)
from kdissect.protocol.apis import find_api
from kdissect.protocol.readers import ValueBudget

CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("*.pcap*"))
SCHEMA = Path(kdissect.__file__).parent / "protocol" / "schema" / "apis"
RECORD = st.fixed_dictionaries({
    "offset": st.integers(0, 9), "time_ms": st.integers(0, 9), "key": st.none() | st.binary(),
    "value": st.none() | st.binary(), "headers": st.lists(st.tuples(st.text(), st.binary())),
})  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | RECORD
NAMES = st.sampled_from(("topics", "responses", "records", "name", "topic_data")) | st.text()
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(NAMES, inner),
    max_leaves=30,
)


@pytest.mark.slow
@given(st.dictionaries(NAMES, VALUES), st.booleans(), st.integers(0, 200))
def test_json_equals_values_encoded_one_by_one(
    body: dict[str, object], has_payload: bool, limit: int
) -> None:
    one, other = ValueBudget(limit), ValueBudget(limit)
    expected = json.dumps(jsonable(shaped(body, has_payload), other), ensure_ascii=False)
    assert body_json(body, has_payload, one) == expected
    assert (int(one.left), int(one.left_out)) == (int(other.left), int(other.left_out))


def test_the_apis_with_records_are_those_whose_layouts_have_them() -> None:
    field = re.compile(rf"\b({'|'.join(RECORDS_FIELDS)})\b", re.IGNORECASE)
    found = {
        find_api(path.stem).key
        for path in SCHEMA.glob("*.txt")
        if field.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", path.read_text()))
    }
    assert found | {ENVELOPE} == WITH_RECORDS


@pytest.mark.sweep(4)
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_all_records_are_opened_and_shaped_at_once_as_afterwards(capture: Path) -> None:
    for exchange in kdissect.dissect(capture):
        if exchange.api_key not in WITH_RECORDS or exchange.dialect or exchange.api_version is None:
            continue
        for side in ("request", "response"):
            data = exchange.raw_frame(side)
            asked = (exchange.api_key, exchange.api_version, data, side == "response")
            try:
                body = full_body(*asked)
            except DecodeError:
                continue
            assert not any(isinstance(one, bytes) for one in records_fields(body))
            sizes, payload = (
                full_body(*asked, shape=with_sizes),
                full_body(*asked, shape=with_headers),
            )
            assert body_json(sizes, False, is_shaped=True) == body_json(body, False)
            assert body_json(payload, True, is_shaped=True) == body_json(body, True)


def records_fields(value: Any) -> Iterator[Any]:
    """Every field of a name that has records, anywhere in a body."""
    if isinstance(value, dict):
        for name, field in value.items():
            if name in RECORDS_FIELDS:
                yield field
            yield from records_fields(field)
    elif isinstance(value, list):
        for item in value:
            yield from records_fields(item)
