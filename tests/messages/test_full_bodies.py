"""Bodies as JSON: the C encoder gives the same text and charges as the slow path."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdissect
from kdissect.messages.embedded import ENVELOPE
from kdissect.messages.full_bodies import RECORDS_FIELDS, WITH_RECORDS, body_json, jsonable, shaped
from kdissect.protocol.apis import find_api
from kdissect.protocol.readers import ValueBudget

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
