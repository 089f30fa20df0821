"""kdissect and tshark 4.0 agree on every field that tshark knows and decodes correctly.

tshark's output is in tshark.jsonl.xz (tools/tshark writes it): messages of the captures, and of kio
for the layouts in tshark's table.
"""

import shutil
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kdissect.messages.headers import read_request_header
from tests.captures.tshark_fields import shown
from tests.captures.tshark_messages import body_of, by_name, comparable, frame_bytes
from tests.captures.tshark_mistakes import BYTES, LOST_REQUESTS, MISTAKES, Mistake, mistakes_in
from tools.golden import captures
from tools.tshark.__main__ import all_told, crafted_lines
from tools.tshark.crafted import KEY
from tools.tshark.oracle import CRAFTED, NEWEST_OF_TSHARK, ORACLE, Line, is_in_table, read_oracle
from tools.tshark.pdml import Told, field_types, short, tshark_version

SIZE_LIMIT = 1_500_000


@cache
def messages() -> list[tuple[Line, bytes]]:
    lines = read_oracle()[1]
    return [(line, data) for line, (_, data) in zip(lines, frame_bytes(lines), strict=True)]


def differences(told: Told, data: bytes, mistakes: list[Mistake]) -> dict[str, tuple[Any, Any]]:
    """Field → values of kdissect and of tshark, where tshark's known errors leave some."""
    if any(not mistake.fields for mistake in mistakes):
        return {}
    cuts = [field for mistake in mistakes for field in mistake.fields]
    body = body_of(told, data)
    tokens = shown(told.api_key, told.api_version, told.is_response, body)
    ours, theirs = by_name(comparable(tokens, cuts)), by_name(comparable(told.tokens, cuts))
    names = ours.keys() | theirs.keys()
    return {
        name: (ours.get(name), theirs.get(name))
        for name in names
        if ours.get(name) != theirs.get(name)
    }


def layout(told: Told) -> tuple[int, int, bool]:
    return told.api_key, told.api_version, told.is_response


def test_the_oracle_is_small() -> None:
    assert ORACLE.stat().st_size < SIZE_LIMIT


def test_every_message_that_tshark_finds_is_found_with_the_same_heading() -> None:
    for line, data in messages():
        told = line.told
        place = (line.capture, told.frame)
        assert (place, len(data)) == (place, told.length)
        if told.is_response:
            assert (place, data[:4]) == (place, told.correlation_id.to_bytes(4, "big", signed=True))
            continue
        header = read_request_header(data)
        client_id = None
        if header.client_id_size >= 0:
            end = header.client_id_start + header.client_id_size
            client_id = data[header.client_id_start : end].decode()
        heading = (header.api_key, header.api_version, header.correlation_id, client_id)
        told_heading = (told.api_key, told.api_version, told.correlation_id, told.client_id)
        assert (place, *heading) == (place, *told_heading)


def test_every_field_that_tshark_is_right_about_is_the_same() -> None:
    for line, data in messages():
        if is_in_table(line.told):
            known = mistakes_in(*layout(line.told))
            place = (line.capture, line.told.frame, *layout(line.told))
            assert (place, differences(line.told, data, known)) == (place, {})


def test_the_whole_table_of_tshark_is_compared() -> None:
    compared = {layout(line.told) for line, _ in messages() if is_in_table(line.told)}
    table = {
        (key, version, is_response)
        for key, newest in NEWEST_OF_TSHARK.items()
        for version in range(newest + 1)
        for is_response in (False, True)
    }
    missing = table - compared
    assert {key for key, _, _ in missing} <= LOST_REQUESTS
    assert all(is_response for _, _, is_response in missing)
    assert len(missing) < 30


def test_tshark_shows_other_times_than_the_broker_set() -> None:
    times = [
        by_name(line.told.tokens)["message_timestamp"]
        for line, _ in messages()
        if line.capture == CRAFTED
        and 1 in by_name(line.told.tokens).get("batch_timestamp_type", [])
    ]
    assert times
    # record_builders has 1 700 000 000 999 as the time of the broker.
    assert all(found == [1_700_000_000_000, 1_700_000_000_250] for found in times)


def test_fields_of_records_are_compared_in_every_codec() -> None:
    codecs: Counter[int] = Counter()
    for line, _ in messages():
        values = by_name(line.told.tokens)
        if "record_attributes" in values:
            codecs.update(values["batch_codec"])
    assert set(codecs) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: f"{mistake.key} {mistake.fields}")
def test_a_mistake_of_tshark_shows_in_a_message_that_kio_wrote(mistake: Mistake) -> None:
    """kdissect's values are kio's input (test_vectors); tshark's differ."""
    others = [other for other in MISTAKES if other is not mistake]
    shown_by = [
        line.told
        for line, data in messages()
        if line.capture == CRAFTED
        and mistake in mistakes_in(*layout(line.told))
        and differences(
            line.told, data, [one for one in others if one in mistakes_in(*layout(line.told))]
        )
    ]
    assert shown_by
    if mistake.reason == BYTES:
        assert any(told.complaints for told in shown_by)


def test_old_messages_have_other_keys_than_in_tshark() -> None:
    keys = [
        by_name(line.told.tokens)["message_key"]
        for line, data in messages()
        if line.capture == CRAFTED and "message_crc" in by_name(line.told.tokens)
    ]
    assert keys
    assert all(short(KEY) not in found for found in keys)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_still_agrees_with_the_oracle() -> None:
    version, lines = read_oracle()
    if tshark_version() != version:
        pytest.skip(f"the oracle is of {version}")
    types = field_types()
    pairs: dict[int, list[bytes]] = {}
    for line in lines:
        if line.capture == CRAFTED:
            pairs.setdefault(line.told.correlation_id, []).append(bytes.fromhex(line.data))
    whole = {number: (pair[0], pair[1]) for number, pair in pairs.items() if len(pair) == 2}
    fresh = {place_of(line.told): line.told for line in crafted_lines(list(whole.values()), types)}
    for line in lines:
        if line.capture == CRAFTED and line.told.correlation_id in whole:
            assert fresh[place_of(line.told)] == line.told._replace(
                frame=fresh[place_of(line.told)].frame
            )


def place_of(told: Told) -> tuple[int, bool]:
    return told.correlation_id, told.is_response


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_still_agrees_with_the_oracle_of_a_capture() -> None:
    version, lines = read_oracle()
    if tshark_version() != version:
        pytest.skip(f"the oracle is of {version}")
    names = {line.capture for line in lines}
    known_captures = [path for path in captures() if path.name in names]
    smallest = min(known_captures, key=lambda path: path.stat().st_size)
    fresh = {told for _, told in all_told([Path(smallest)], field_types())}
    known = {line.told for line in lines if line.capture == smallest.name}
    assert known
    assert {told._replace(tokens=()) for told in known} <= {
        told._replace(tokens=()) for told in fresh
    }
    assert {told for told in known if told.tokens} <= fresh
