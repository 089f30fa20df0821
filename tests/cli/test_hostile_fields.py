"""Hostile text in every field of every message, as the schema has them, in every output of text.

The schema is walked: each string and each bytes field of the request and the response of each API
has a text of its own, in drawn versions. What comes out is looked at with the means of
`test_hostile_text`, and each text is looked for, so that none of them was lost on the way.
"""

import base64
import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kdissect.cli.program import FOUND, NOTHING_FOUND, run
from kdissect.protocol.apis import APIS, request_header_version
from kdissect.protocol.specs import FieldSpec, snake_case
from kdissect.tables.schemas import TABLES
from tests.cli.test_hostile_text import HARMFUL, NEEDS_OTEL, STARTS, harmful_in, strings_of
from tests.exchange_builders import request, response
from tests.hostile_captures import Talk, capture_of
from tests.live.test_metrics import page, replayed, served
from tests.messages.record_builders import make_batch, make_record

SEED = int(os.environ.get("KDISSECT_SEED", random.SystemRandom().randrange(1 << 32)))
SIDES = ("request", "response")
AT_ONCE = 6  # harmful characters in a text
ERROR_CODES = (0, 3, 15, 25, 58)
STRINGS, BYTES, RECORDS = "string", "bytes", "records"


class Place(NamedTuple):
    """A field of a message: ``Fetch request v12 topics.topic``."""

    api: str
    version: int
    side: str
    path: str
    type: str


class Texts:
    """Gives each field a text that has its number, and remembers which field that is."""

    def __init__(self) -> None:
        self.chance = random.Random(SEED)
        self.places: list[Place] = []
        self.given: set[str] = set()

    def text(self, place: Place) -> str:
        """Formula start, harmful characters in turn, number, and the same at the end."""
        number = len(self.places)
        self.places.append(place)
        harmful = "".join(HARMFUL[(AT_ONCE * number + at) % len(HARMFUL)] for at in range(AT_ONCE))
        self.given.update(harmful)
        return f"{self.chance.choice(STARTS)}{harmful}<{number}>{self.chance.choice(HARMFUL)}"

    def values(self, api: str, version: int, side: str) -> dict[str, Any]:
        fields = APIS_BY_NAME[api].definition().layouts[side].fields
        return self.struct(fields, Place(api, version, side, "", ""))

    def struct(self, fields: tuple[FieldSpec, ...], place: Place) -> dict[str, Any]:
        return {
            snake_case(field.name): self.field(field, within(place, field))
            for field in fields
            if place.version in field.versions
            and (field.is_array or field.is_struct or field.type in (STRINGS, BYTES, RECORDS)
                 or field.name in ("ErrorCode", "Acks"))
        }  # fmt: skip

    def field(self, field: FieldSpec, place: Place) -> Any:
        if field.is_array:
            return [self.one(field, place)] if field.type in TEXTS or field.is_struct else []
        return self.one(field, place)

    def one(self, field: FieldSpec, place: Place) -> Any:
        if field.is_struct:
            return self.struct(field.fields, place)
        if field.type == STRINGS:
            return self.text(place)
        if field.type == BYTES:
            return self.text(place).encode()
        if field.type == RECORDS:
            key, value = self.text(place), self.text(place)
            return make_batch([make_record(key.encode(), value.encode())])
        # Without acknowledgements a Produce has no response.
        return -1 if field.name == "Acks" else self.chance.choice(ERROR_CODES)


TEXTS = (STRINGS, BYTES)
APIS_BY_NAME = {api.name: api for api in APIS.values()}


def within(place: Place, field: FieldSpec) -> Place:
    path = f"{place.path}.{field.name}" if place.path else field.name
    return place._replace(path=path, type=field.type)


def drawn_versions(api: str, chance: random.Random) -> list[int]:
    """The newest version that both sides have, and one more."""
    layouts = APIS_BY_NAME[api].definition().layouts
    versions = sorted(layouts["request"].versions & layouts["response"].versions)
    return sorted({versions[-1], chance.choice(versions)})


def talks(texts: Texts) -> Iterator[Talk]:
    """A connection for each API and version: a login is not what follows on the same one."""
    chance = random.Random(SEED)
    number = 0
    for api in APIS_BY_NAME:
        for version in drawn_versions(api, chance):
            number += 1
            talk = Talk(port=20_000 + number, begin_ns=number * 1_000_000_000)
            talk.client(request("ApiVersions", 0, 1)).broker(response("ApiVersions", 0, 1))
            client = None
            if request_header_version(APIS_BY_NAME[api].key, version):
                client = texts.text(Place(api, version, "request", "client id", STRINGS))
            asked, answered = (texts.values(api, version, side) for side in SIDES)
            talk.client(request(api, version, 2, client, **asked))
            yield talk.broker(response(api, version, 2, **answered))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Texts]:
    texts = Texts()
    path = tmp_path_factory.mktemp("fields") / "a.pcap"
    path.write_bytes(capture_of(talks(texts)))
    return path, texts


def test_every_field_of_text_of_the_schema_is_there(hostile: tuple[Path, Texts]) -> None:
    """Of the newest version of every API; and every harmful character is in a text."""
    texts = hostile[1]
    there = {(place.api, place.side, place.path) for place in texts.places}
    for name, api in APIS_BY_NAME.items():
        layouts = api.definition().layouts
        newest = max(layouts["request"].versions & layouts["response"].versions)
        for side in SIDES:
            for path in paths_of(layouts[side].fields, newest):
                assert (name, side, path) in there, f"seed {SEED}"
    assert texts.given == set(HARMFUL)


def paths_of(fields: tuple[FieldSpec, ...], version: int, before: str = "") -> Iterator[str]:
    for field in fields:
        if version in field.versions:
            if field.type in (STRINGS, BYTES, RECORDS):
                yield before + field.name
            yield from paths_of(field.fields, version, f"{before}{field.name}.")


def outputs() -> list[list[str]]:
    """Commands that print text of a capture, with all that they can show."""
    made = [["summary", "--findings", "all"], ["summary", "--findings", "all", "--json"]]
    made += [["show", "--payload", "--undecoded"], ["show", "--payload", "--format", "jsonl"]]
    for table in TABLES:
        payload = ["--payload"] if table == "records" else []
        for format_ in ("table", "csv", "json"):
            made.append(["table", table, *payload, "--format", format_])
    return made


@pytest.mark.slow
def test_no_field_comes_out_as_it_is(
    hostile: tuple[Path, Texts], capfd: pytest.CaptureFixture[str]
) -> None:
    for words in outputs():
        assert run([*words, str(hostile[0])]) in (FOUND, NOTHING_FOUND), f"seed {SEED}, {words}"
        out, err = capfd.readouterr()
        assert not harmful_in(out, "\n"), f"seed {SEED}, {words}"
        assert not harmful_in(err, "\n"), f"seed {SEED}, {words}"
        assert "Traceback" not in err, f"seed {SEED}, {words}"
        if "json" in words:
            json.loads(out)


@pytest.mark.slow
def test_what_dissect_says_has_no_harmful_character(
    hostile: tuple[Path, Texts], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = ["--bodies", "--records", "--payload", "-o", str(tmp_path / "made")]
    assert run(["dissect", str(hostile[0]), *options]) == FOUND
    out, err = capfd.readouterr()
    assert not harmful_in(out + err, "\n"), f"seed {SEED}"


@NEEDS_OTEL
@pytest.mark.slow
def test_no_span_has_a_harmful_character(
    hostile: tuple[Path, Texts], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["spans", "--parts", str(hostile[0])]) == FOUND
    out, err = capfd.readouterr()
    assert not harmful_in(out + err, "\n"), f"seed {SEED}"
    told = [text for line in out.splitlines() for text in strings_of(json.loads(line))]
    assert told
    assert not harmful_in("".join(told), ""), f"seed {SEED}"


@pytest.mark.slow
def test_no_metric_has_a_harmful_character(hostile: tuple[Path, Texts]) -> None:
    metrics, _ = replayed(hostile[0])
    with served(metrics) as server:
        text = page(server)
    assert not harmful_in(text, "\n"), f"seed {SEED}"
    assert 'client="' in text


@pytest.mark.slow
def test_each_text_is_shown_unless_the_field_is_redacted_or_opaque(
    hostile: tuple[Path, Texts], capfd: pytest.CaptureFixture[str]
) -> None:
    """So the capture reaches the outputs: nothing above passes because a message was not read."""
    path, texts = hostile
    assert run(["show", "--payload", "--format", "jsonl", str(path)]) == FOUND
    told = "".join(everything(json.loads(line)) for line in capfd.readouterr().out.splitlines())
    shown = {int(number) for number in re.findall(r"<(\d+)>", told)}
    hidden = {
        f"{place.api} {place.side} {place.path}"
        for number, place in enumerate(texts.places)
        if number not in shown
    }
    assert {one for one in hidden if not NOT_SHOWN.search(one)} == set(), f"seed {SEED}"
    assert len(shown) > 0.9 * len(texts.places)


# Fields that are shown as their sizes: credentials (values of configs may be such), and bytes that
# are messages of their own, which a text is none of; and a host's bytes, which are an address where
# they are as many as one has.
NOT_SHOWN = re.compile(
    r"(Configs(\.Synonyms)?\.Value|Hmac|Salt|SaltedPassword|AuthBytes|ClientHostAddress"
    r"|(Member)?Metadata|(Member)?Assignment|RequestData|RequestPrincipal|ResponseData|Metrics)$"
)


def everything(value: Any) -> str:
    """All texts in a value, and those that are base64."""
    if isinstance(value, dict):
        if value.keys() == {"base64"}:
            return base64.b64decode(value["base64"]).decode(errors="replace")
        return "".join(map(everything, value.values()))
    if isinstance(value, list):
        return "".join(map(everything, value))
    return value if isinstance(value, str) else ""
