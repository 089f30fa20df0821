"""`show --hex`: fields with the bytes where they lie; `show --packet`: exchanges by frame."""

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.api.dissected import DissectedExchange
from kdissect.cli.hex_view import field_lines, hex_lines
from kdissect.cli.program import run
from kdissect.cli.tree import exchange_lines
from kdissect.messages.field_places import SURPLUS, UNREAD, field_places
from tests.exchange_builders import request
from tests.seeds import SEED

QUICKSTART = Path("captures/quickstart.pcapng")
SASL = Path("captures/sasl-4.3.1.pcapng")
UNCOMPARED = ("records", "unaligned_records", "auth_bytes")


def exchanges(path: Path) -> list[DissectedExchange]:
    return list(kdissect.dissect(path))


def at_path(body: Any, path: str) -> Any:
    """The value of a body at ``topics[0].name``; KeyError where it has none."""
    for step in path.replace("[", ".[").split("."):
        body = body[int(step[1:-1])] if step.startswith("[") else body[step]
    return body


def test_the_places_of_fields_are_all_bytes_and_their_values_those_of_the_body() -> None:
    compared = 0
    for exchange in exchanges(QUICKSTART):
        for side in ("request", "response"):
            data = exchange.raw_frame(side)
            if not data:
                continue
            is_response = side == "response"
            places = list(field_places(exchange.api_key, exchange.api_version, data, is_response))
            assert (places[0].start, places[-1].end) == (0, len(data))
            assert all(one.end == other.start for one, other in pairwise(places))
            body = exchange.body(side)
            paths = {place.path for place in places}
            assert UNREAD not in paths
            assert (SURPLUS in paths) == ("trailing_size" in body)
            for place in places:
                if place.path.endswith(UNCOMPARED) or not isinstance(place.value, int | str):
                    continue
                try:
                    value = at_path(body, place.path)
                except (KeyError, TypeError):  # of the header, of tags, counts of arrays
                    continue
                if not isinstance(value, list | dict):
                    assert value == place.value, place
                    compared += 1
    assert compared > 10_000


def test_any_bytes_have_places_to_their_end() -> None:
    chance = random.Random(SEED)
    chosen = chance.sample([one for one in exchanges(QUICKSTART) if one.raw_frame("response")], 40)
    for exchange in chosen:
        data = bytearray(exchange.raw_frame("response"))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(4, len(data))] = chance.randrange(256)
        short = bytes(data[: chance.randint(4, len(data))])
        for bytes_ in (bytes(data), short, bytes(data) + b"\1\2\3"):
            places = list(field_places(exchange.api_key, exchange.api_version, bytes_, True))
            assert places[-1].end == len(bytes_)
            assert all(one.end == other.start for one, other in pairwise(places))


@pytest.mark.parametrize("text", ["\x1b[31m3 elements", "\x1b[2Jpresent", "1 elements\u202e"])
def test_a_text_is_escaped_even_if_it_reads_like_a_count(text: str) -> None:
    frame = request("Heartbeat", 4, 7, client_id="shop", group_id=text, member_id=text)[4:]
    places = list(field_places(12, 4, frame, False))
    lines = [line for place in places for line in field_lines(place, frame, [], False, {})]
    assert [place.value for place in places if place.path == "group_id"] == [text]
    assert "\x1b" not in "".join(lines)
    assert "\u202e" not in "".join(lines)


def test_nested_tags_are_not_copied() -> None:
    """A field with a tag of a too short size ends the fields, and costs no copy of the frame."""
    frame = request("Heartbeat", 4, 7, client_id="shop", group_id="g")[4:]
    tags = b"\xff\x01" + b"".join(bytes([number, 2]) + b"ab" for number in range(127))
    places = list(field_places(12, 4, frame[:-1] + tags + bytes(100_000), False))
    assert sum(place.end - place.start for place in places) == len(frame) - 1 + len(tags) + 100_000


def test_surplus_bytes_are_shown() -> None:
    one = next(one for one in exchanges(QUICKSTART) if one.api == "Heartbeat")
    data = one.raw_frame("request") + b"\xde\xad"
    places = list(field_places(one.api_key, one.api_version, data, False))
    assert (places[-1].path, places[-1].start) == (SURPLUS, len(data) - 2)


def test_credentials_are_dots_and_records_only_with_payload() -> None:
    secret = b"plain-secret".hex(" ")
    logins = [one for one in exchanges(SASL) if one.api == "SaslAuthenticate"]
    text = "\n".join(line for one in logins for line in hex_lines(one, True, False))
    raw = "\n".join(line for one in logins for line in hex_lines(one, False, True))
    assert "auth_bytes: not shown" in text
    assert raw.count("··") == 0 < text.count("··")
    assert secret not in text.replace("\n", " ")
    produce = next(one for one in exchanges(QUICKSTART) if one.api == "Produce")
    hidden, shown = ("\n".join(hex_lines(produce, has, False)) for has in (False, True))
    assert "records: not shown" in hidden
    assert "not shown" not in shown


def test_a_topic_id_has_its_name_beside_it() -> None:
    produce = next(one for one in exchanges(QUICKSTART) if one.api == "Produce")
    topic = produce.partitions[0].topic
    for lines in (
        hex_lines(produce, False, False),
        exchange_lines(produce, False, topics=produce.topic_names()),
    ):
        named = [line for line in lines if "topic_id: " in line]
        assert named
        assert all(line.rstrip(",").count(f'"{topic}"') == 1 for line in named)


@pytest.mark.parametrize("column", ["request_packet", "response_packet"])
def test_an_exchange_is_found_by_its_frame(column: str, capfd: pytest.CaptureFixture[str]) -> None:
    rows = kdissect.read(QUICKSTART, table="exchanges").to_arrow().to_pylist()
    row = random.Random(f"{SEED}{column}").choice([one for one in rows if one[column]])
    number = row[column]
    assert run(["show", str(QUICKSTART), "--packet", str(number), "--json"]) == 0
    found = [one["exchange_id"] for one in json.loads(capfd.readouterr().out)["rows"]]
    assert found == [
        one["exchange_id"]
        for one in rows
        if number in (one["request_packet"], one["response_packet"])
    ]


def test_a_frame_without_a_message_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["show", str(QUICKSTART), "--packet", "1"]) == 0
    said = capfd.readouterr()
    assert said.out == ""
    assert "no message is in frame 1" in said.err
    assert run(["show", str(QUICKSTART), "--hex", "--json"]) == 2
