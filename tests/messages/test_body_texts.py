"""Bodies written as JSON from their bytes are those that are decoded first, or are left to that."""

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

import kdissect
from kdissect.messages.body_texts import regular_text, writer_of
from kdissect.messages.decompression_budget import Unpacking
from kdissect.messages.full_bodies import body_json, full_body
from kdissect.messages.opened_records import WITH_RECORDS, with_sizes
from kdissect.protocol.apis import APIS, find_api
from kdissect.protocol.json_writers import write_integer
from kdissect.protocol.readers import NO_LIMIT, ValueBudget
from tests.exchange_builders import request, response
from tests.protocol.test_vectors import ALL_VECTORS, Vector
from tests.seeds import SEED

CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("*.pcap*"))
SIDES = {"Request": "request", "Response": "response"}
TOPICS = {"AAAAAAAAAAAAAAAAAAAAAQ": "__cluster_metadata"}


def is_text(key: int, version: int, data: bytes, is_response: bool, limit: int = NO_LIMIT) -> bool:
    """Return whether a frame is regular; its text and what it spent are those of the other way."""
    spent, expected = Unpacking(), Unpacking()
    found = regular_text(key, version, data, is_response, lambda: TOPICS, limit, spent)
    if found is None:
        assert spent.unpacked == 0
        return False
    body = full_body(
        key, version, data, is_response,
        names=TOPICS, limit=limit, unpacking=expected, shape=with_sizes,
    )  # fmt: skip
    budget = ValueBudget(limit)
    assert found == body_json(body, False, budget, is_shaped=True)
    assert "left_out" not in body
    assert budget.left_out == 0
    assert spent.unpacked == expected.unpacked
    return True


def bodies_of(capture: Path) -> list[tuple[int, int, bytes, bool]]:
    return [
        (exchange.api_key, exchange.api_version, data, side == "response")
        for exchange in kdissect.dissect(capture)
        if not exchange.dialect and exchange.api_version is not None
        for side in ("request", "response")
        if (data := exchange.raw_frame(side))
    ]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_bodies_of_captures_have_the_same_text(capture: Path) -> None:
    source = Random(f"{SEED} {capture.name}")
    for body in bodies_of(capture):
        is_text(*body)
        is_text(*body, limit=source.randrange(1, 20_000))


def test_nearly_all_bodies_of_clients_are_regular() -> None:
    for name in ("quickstart", "groups-4.3.1", "incident-slow-follower-4.3.1"):
        (path,) = (one for one in CAPTURES if one.stem == name)
        data = [one for one in bodies_of(path) if one[0] in (0, 1, 2, 3, 8, 9, 12, 18)]
        assert sum(is_text(*one) for one in data) > 0.97 * len(data) > 100


def frame_of(vector: Vector, body: bytes) -> tuple[int, int, bytes, bool] | None:
    """The body in a frame; None for a message that is none of an API."""
    for end, side in SIDES.items():
        api = vector.name.removesuffix(end)
        if api != vector.name and api in {find_api(key).name for key in APIS}:
            make = request if side == "request" else response
            frame = make(api, vector.version, 1, body=body)[4:]
            return int(find_api(api).key), vector.version, frame, side == "response"
    return None


@pytest.fixture(scope="module")
def vectors() -> list[Vector]:
    return [one for one in ALL_VECTORS if not one.releases and frame_of(one, one.raw)]


@pytest.mark.slow
def test_messages_of_other_libraries_have_the_same_text(vectors: list[Vector]) -> None:
    regular = 0
    left = set()
    for vector in vectors:
        body = frame_of(vector, vector.raw)
        assert body is not None
        if is_text(*body):
            regular += 1
        elif writer_of(body[0], body[1], body[3]) is not None:
            left.add(vector.name)
    assert regular > len(vectors) / 3
    # Layouts that never are regular need no writer: these have texts or bytes that are not.
    assert left


def without_names(value: object, expected: object) -> object:
    """A value of the text, as the vectors write it.

    Names beside enumerated numbers go, and batches become the bytes that they account for.
    """
    if isinstance(expected, str) and expected.startswith("hex:"):
        if isinstance(value, list):
            size = sum(batch.get("size", 0) + batch.get("partial_size", 0) for batch in value)
            return expected if 2 * size == len(expected) - len("hex:") else value
        return f"hex:{value}"  # only empty ones are regular
    if isinstance(value, dict) and isinstance(expected, dict):
        return {
            name: without_names(field, expected.get(name))
            for name, field in value.items()
            if name in expected or not name.endswith("_name")
        }
    if isinstance(value, list) and isinstance(expected, list):
        return [without_names(*both) for both in zip(value, expected, strict=True)]
    return value


@pytest.mark.slow
def test_messages_of_other_libraries_have_their_values(vectors: list[Vector]) -> None:
    """Beside what Kafka, kio and kafka-python put into them: no decoder of kdissect's."""
    compared = 0
    for vector in vectors:
        body = frame_of(vector, vector.raw)
        assert body is not None
        text = regular_text(*body, lambda: TOPICS, NO_LIMIT, Unpacking())
        if text is not None:
            found = without_names(json.loads(text), vector.values)
            assert found == vector.values, (vector.name, vector.version)
            compared += 1
    assert compared > len(vectors) / 3


@given(data=st.data())
def test_any_other_bytes_have_the_same_text_or_are_left(
    vectors: list[Vector], data: st.DataObject
) -> None:
    vector = data.draw(st.sampled_from(vectors))
    changed = bytearray(vector.raw)
    for _ in range(data.draw(st.integers(1, 3))):
        if changed:
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(0, len(changed)) | st.just(len(changed)))
    body = frame_of(vector, bytes(changed[:size]) + data.draw(st.binary(max_size=2)))
    assert body is not None
    try:
        is_text(*body)
    except kdissect.KdissectError:
        pytest.fail("a body that cannot be decoded was taken as regular")


@pytest.mark.sweep(4)
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_damaged_records_have_the_same_text_or_are_left(capture: Path) -> None:
    source = Random(f"{SEED} damaged {capture.name}")
    bodies = [one for one in bodies_of(capture) if one[0] in WITH_RECORDS and len(one[2]) > 150]
    for key, version, data, is_response in source.sample(bodies, min(40, len(bodies))):
        changed = bytearray(data)
        for _ in range(source.randrange(1, 4)):
            changed[source.randrange(60, len(changed))] = source.randrange(256)
        is_text(key, version, bytes(changed), is_response)


@given(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-200, 200))
def test_an_integer_is_written_as_python_does(value: int) -> None:
    text = BytesWriter()
    text.write(b"1")
    write_integer(text, value)
    assert text.getvalue().decode() == f"1{value}"


@pytest.mark.parametrize("power", range(19))
def test_so_are_powers_of_ten(power: int) -> None:
    for value in (10**power - 1, 10**power, 10**power + 1, -(10**power), 1 - 10**power):
        text = BytesWriter()
        write_integer(text, value)
        assert json.loads(text.getvalue()) == value
