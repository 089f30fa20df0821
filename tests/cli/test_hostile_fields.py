"""Hostile text in every place for text in messages, in every text output.

The output is checked with the means of `test_hostile_text`, and each text is searched for, so that
none was lost on the way.
"""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdissect.cli.program import ANSWERED, run
from kdissect.messages.old_protocols import MESSAGE_SET, OLD_APIS, Field
from kdissect.protocol.notation import load_file, read_index
from kdissect.protocol.specs import FieldSpec
from kdissect.tables.schemas import TABLES
from tests.cli.hostile_places import (
    APIS_BY_NAME,
    BYTES,
    DECODE_AS,
    LAYOUT,
    RECORDS,
    SEED,
    SIDES,
    STRINGS,
    Texts,
    old_name,
    talks,
    variant_name,
    variants,
)
from tests.cli.test_hostile_text import HARMFUL, NEEDS_OTEL, harmful_in, strings_of
from tests.hostile_captures import capture_of
from tests.live.test_metrics import page, replayed, served


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Texts]:
    texts = Texts()
    path = tmp_path_factory.mktemp("fields") / "a.pcap"
    path.write_bytes(capture_of(talks(texts)))
    return path, texts


def test_every_field_of_text_of_the_schema_is_there(hostile: tuple[Path, Texts]) -> None:
    """Messages of the newest version of every API; every harmful character is in a text."""
    texts = hostile[1]
    there = {(place.message, place.side, place.path) for place in texts.places}
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


def test_every_text_of_layouts_that_were_changed_in_place_is_there(
    hostile: tuple[Path, Texts],
) -> None:
    there = {(place.message, place.side, place.path) for place in hostile[1].places}
    for name, side, spec in variants():
        for path in paths_of(spec.fields, max(spec.versions)):
            assert (variant_name(name, spec), side, path) in there


def test_every_text_of_messages_inside_others_is_there(hostile: tuple[Path, Texts]) -> None:
    """Messages of the newest version, except files of brokers and headers."""
    there = {(place.message, place.path) for place in hostile[1].places if place.side == LAYOUT}
    known = set()
    for name, file, *_ in read_index("messages"):
        definition = load_file(f"messages/{file}")[name]
        if file != "header" and name not in ONLY_IN_FILES:
            newest = max(definition.versions)
            known |= {(name, path) for path in paths_of(definition.layouts[LAYOUT].fields, newest)}
    assert len(known) > 100
    # The assignment in a subscription has texts of its own.
    assert known - there == {("ConnectSubscription", "Allocation")}, f"seed {SEED}"


def test_every_text_of_the_protocols_before_0_8_is_there(hostile: tuple[Path, Texts]) -> None:
    there = {(place.message, place.side, place.path) for place in hostile[1].places}
    for protocol, apis in OLD_APIS.items():
        for api in apis.values():
            for side, fields in zip(SIDES, (api.request, api.response), strict=True):
                for path in old_paths(fields):
                    assert (old_name(protocol, api.name), side, path) in there


def old_paths(fields: tuple[Field, ...], before: str = "") -> Iterator[str]:
    for field in fields:
        if field.type in (STRINGS, MESSAGE_SET):
            yield before + field.name
        yield from old_paths(field.fields, f"{before}{field.name}.")


def outputs() -> list[list[str]]:
    """Commands that print text of a capture, with all that they can show."""
    made = [["summary", "--findings", "all"], ["summary", "--findings", "all", "--json"]]
    made += [["show", "--payload", "--undecoded"], ["show", "--payload", "--format", "jsonl"]]
    made.append(["show", "--payload", "--undecoded", "--hex"])
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
        assert run([*words, *DECODE_AS, str(hostile[0])]) == ANSWERED, f"seed {SEED}, {words}"
        out, err = capfd.readouterr()
        assert not harmful_in(out, "\n"), f"seed {SEED}, {words}"
        assert not harmful_in(err, "\n"), f"seed {SEED}, {words}"
        assert "Traceback" not in err, f"seed {SEED}, {words}"
        if "json" in words:
            json.loads(out)


@pytest.mark.slow
def test_dissect_prints_no_harmful_characters(
    hostile: tuple[Path, Texts], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = ["--bodies", "--records", "--payload", "-o", str(tmp_path / "made")]
    assert run(["dissect", str(hostile[0]), *DECODE_AS, *options]) == ANSWERED
    out, err = capfd.readouterr()
    assert not harmful_in(out + err, "\n"), f"seed {SEED}"


@NEEDS_OTEL
@pytest.mark.slow
def test_no_span_has_a_harmful_character(
    hostile: tuple[Path, Texts], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["spans", "--parts", *DECODE_AS, str(hostile[0])]) == ANSWERED
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
    assert run(["show", "--payload", "--format", "jsonl", *DECODE_AS, str(path)]) == ANSWERED
    told = "".join(everything(json.loads(line)) for line in capfd.readouterr().out.splitlines())
    shown = {int(number) for number in re.findall(r"<(\d+)>", told)}
    hidden = {
        f"{place.message} {place.side} {place.path}"
        for number, place in enumerate(texts.places)
        if number not in shown | texts.withheld
    }
    assert {one for one in hidden if not NOT_SHOWN.search(one)} == set(), f"seed {SEED}"
    assert len(shown) > 0.9 * len(texts.places)


ONLY_IN_FILES = {"AbortedTxn", "ProducerSnapshot"}  # never sent
# Fields that are shown as sizes: credentials (values of configs may be such), bytes that are
# messages of their own and no texts, and a host's bytes, which are an address when they have the
# right number.
NOT_SHOWN = re.compile(
    r"(Configs(\.Synonyms)?\.Value|Hmac|Salt|SaltedPassword|AuthBytes|ClientHostAddress"
    r"|(Member)?Metadata|(Member)?Assignment|RequestData|RequestPrincipal|ResponseData|Metrics"
    r"|UserData|members\.(subscription|assignment)|ConfigRecord layout Value|(Stored|Server)Key)$"
)


def everything(value: Any) -> str:
    """All texts in a value, and those that are base64."""
    if isinstance(value, dict):
        if value.keys() == {"base64"}:
            return base64.b64decode(value["base64"]).decode(errors="replace")
        return "".join(map(everything, [*value, *value.values()]))
    if isinstance(value, list):
        return "".join(map(everything, value))
    return value if isinstance(value, str) else ""
