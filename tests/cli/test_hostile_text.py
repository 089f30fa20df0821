"""Text from the wire that is made to harm terminals, readers, spreadsheets and parsers.

Every command prints conversations whose names hold every control, invisible and formula character;
the output is checked by other means than the code that escapes it.
"""

import csv
import io
import json
import os
import random
import re
import sys
import unicodedata
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from pyarrow import parquet
from rich.cells import cell_len

from kdissect.analysis.catalogue import QUESTIONS
from kdissect.cli.program import ANSWERED, FAILED, MISUSED, program, run
from kdissect.tables.schemas import TABLES
from kdissect.text.escape import escaped
from tests.conversation import conversation
from tests.exchange_builders import request, response
from tests.seeds import SEED

NEEDS_OTEL = pytest.mark.skipif(
    find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None,
    reason="needs the extra otel",
)
CONTROL = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))]
BIDI = list("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
# Zero-width characters, fillers and selectors, as lists of confusing characters have them.
INVISIBLE = list(
    "\u00ad\u034f\u115f\u1160\u17b4\u180b\u180e\u200b\u200c\u200d\u2060\u2061\u2064\u206a\u206f"
    "\u3164\ufe00\ufe0f\ufeff\uffa0\ufff9\U000e0001\U000e0020\U000e0041\U000e007f\U000e0100"
    "\U0001d173\U000110bd"
)
CATEGORIES = ("Cc", "Cf", "Co", "Zl", "Zp")
DRAWN = 15  # of each category; lone surrogates (Cs) cannot be UTF-8, they are in names of files
STARTS = [
    "=", "+", "-", "@", "\t=", "\r=", "\n=", "\n \n=", " =", "\u00a0@", "\uff1d", "\uff0b",
    "\uff0d", "\uff20", "\ufe66", "\u200b=", "\u2212", "\x1b=", "\ufeff=", "\u3000+",
]  # fmt: skip
SIGNS = ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\u2212"]
PLAIN = ["\u0437\u0430\u043a\u0430\u0437\u044b", "\u6ce8\u6587", "\U0001f389", "caf\u00e9", "a b"]


def of_categories() -> list[str]:
    """Characters of each category that is never printed, drawn."""
    chance = random.Random(SEED)
    every = {name: [] for name in CATEGORIES}  # type: dict[str, list[str]]
    for code in range(sys.maxunicode + 1):
        every.get(unicodedata.category(chr(code)), []).append(chr(code))
    return [one for few in every.values() for one in chance.sample(few, min(DRAWN, len(few)))]


HARMFUL = list(dict.fromkeys(CONTROL + BIDI + INVISIBLE + of_categories()))


def formulas() -> list[str]:
    """Formulas after spaces, line ends and invisible characters, drawn."""
    chance = random.Random(SEED)
    before = [
        " ",
        "\t",
        "\r",
        "\n",
        "\u00a0",
        "\u3000",
        "\u2028",
        "\ufeff",
        "\u200b",
        "\0",
        "\ue000",
    ]
    return [
        "".join(chance.choices(before, k=chance.randrange(4))) + chance.choice(SIGNS) + "1+1"
        for _ in range(20)
    ]


def texts() -> list[str]:
    chance = random.Random(SEED)
    drawn = ["".join(chance.choices(HARMFUL + PLAIN + STARTS, k=6)) for _ in range(12)]
    alone = [f"{one}cmd|' /C calc'!A0" for one in STARTS]
    several = ["a" + "".join(HARMFUL[at : at + 4]) + "b" for at in range(0, len(HARMFUL), 4)]
    return list(dict.fromkeys(several + alone + formulas() + drawn + PLAIN))


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Names of clients, topics and groups, and messages of errors, on one connection."""
    talk = conversation().open().client(request("ApiVersions", 3, 999, "plain"))
    talk = talk.broker(response("ApiVersions", 3, 999))
    for number, text in enumerate(texts()):
        topics = [{"name": text, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
        asked = {"group_id": text, "topics": topics}
        talk = talk.client(request("OffsetCommit", 8, 2 * number, text, **asked))
        answered = [{"name": text, "partitions": [{"partition_index": 0, "error_code": 25}]}]
        talk = talk.broker(response("OffsetCommit", 8, 2 * number, topics=answered))
        talk = talk.client(request("FindCoordinator", 3, 2 * number + 1, text, key=text))
        told = {"error_code": 15, "error_message": text, "host": text}
        talk = talk.broker(response("FindCoordinator", 3, 2 * number + 1, **told))
    path = tmp_path_factory.mktemp("hostile") / "a.pcap"
    path.write_bytes(talk.close().pcap())
    return path


def harmful_in(text: str, kept: str) -> set[str]:
    """Characters that are not to be there: by category, by width, and those that are listed."""
    found = set(text) - set(kept)
    listed = {one for one in HARMFUL if one in found}
    by_category = {one for one in found if unicodedata.category(one) in (*CATEGORIES, "Cs")}
    by_width = {one for one in found if cell_len(one) == 0}
    return listed | by_category | by_width


def strings_of(value: object) -> Iterator[str]:
    """All texts in a value of JSON, names of fields too."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from strings_of(one)
    if isinstance(value, str):
        yield value


def lines() -> list[list[str]]:
    """Every command that prints rows of a capture, in every format of text."""
    context = click.Context(program)
    made = []
    for name in ["summary", "show", "table", *QUESTIONS]:
        command = program.get_command(context, name)
        assert command is not None
        kinds = [one.type for one in command.params if isinstance(one.type, click.Choice)]
        choices = next(
            (kind.choices for kind in kinds if "json" in kind.choices), ("text", "jsonl")
        )
        for format_ in (one for one in choices if one != "parquet"):
            for table in TABLES if name == "table" else [""]:
                made.append([name, *([table] if table else []), "--format", format_])
    for format_ in ("table", "json", "jsonl", "csv"):
        made.append(["compare", "--by", "client", "--unchanged", "--format", format_])
    return [*made, ["live"], ["live", "--json"], ["top"], ["top", "--once", "--window", "1h"]]


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("words", lines(), ids=" ".join)
def test_no_output_has_a_harmful_character(
    words: list[str], capture: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [str(capture)] * (2 if words[0] == "compare" else 1)
    assert run([*words, *files]) == ANSWERED
    out, err = capfd.readouterr()
    assert not harmful_in(out, "\n")
    assert not harmful_in(err, "\n")
    if "json" in words or "jsonl" in words or "--json" in words:
        for document in [out] if "json" in words else out.splitlines():
            json.loads(document)


@NEEDS_OTEL
@pytest.mark.parametrize("parts", [[], ["--parts"]])
def test_no_span_has_a_harmful_character(
    parts: list[str], capture: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["spans", *parts, str(capture)]) == ANSWERED
    out = capfd.readouterr().out
    assert not harmful_in(out, "\n")
    told = {text for line in out.splitlines() for text in strings_of(json.loads(line))}
    # A viewer of spans is a page or a terminal too, and decodes them.
    assert not harmful_in("".join(told), "")
    assert all(escaped(text) in told for text in texts())


@pytest.mark.parametrize("format_", ["json", "jsonl"])
def test_json_decodes_to_the_text_of_the_wire(
    format_: str, capture: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["table", "exchanges", "--format", format_, str(capture)]) == 0
    out = capfd.readouterr().out
    rows = json.loads(out) if format_ == "json" else [json.loads(line) for line in out.splitlines()]
    assert {row["client_id"] for row in rows} == {*texts(), "plain"}


def test_show_as_json_decodes_to_the_text_of_the_wire(
    capture: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", "--format", "jsonl", str(capture)]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert {row["client_id"] for row in rows} == {*texts(), "plain"}
    bodies = {row["request"]["key"] for row in rows if row["api"] == "FindCoordinator"}
    assert bodies == set(texts())


def test_parquet_has_the_text_of_the_wire(capture: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.parquet"
    assert run(["table", "exchanges", str(capture), "-o", str(target)]) == 0
    assert set(parquet.read_table(target)["client_id"].to_pylist()) == {*texts(), "plain"}


def test_no_cell_of_csv_is_a_formula(capture: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Normalize like a spreadsheet: skip spaces and invisible characters."""
    assert run(["table", "exchanges", "--format", "csv", str(capture)]) == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    assert len(rows) == 2 * len(texts()) + 1
    for row in rows:
        for name, cell in row.items():
            seen = unicodedata.normalize("NFKC", cell).strip()
            is_number = seen.lstrip("-").isdigit()
            assert seen[:1] not in ("=", "+", "@", "\u2212") or not seen, (name, cell)
            assert seen[:1] != "-" or is_number, (name, cell)


def test_numbers_of_csv_are_numbers(capture: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["table", "partitions", "--format", "csv", "--columns", "committed_offset,partition"]
    assert run([*words, str(capture)]) == 0
    assert set(capfd.readouterr().out.splitlines()[1:]) == {"5,0"}


def test_cells_of_csv_are_escaped_and_nothing_of_them_is_lost(
    capture: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The escapes are undone independently here; no text has a backslash of its own."""
    short = {"t": "\t", "n": "\n", "r": "\r", "e": "\x1b"}
    escape = re.compile(r"\\(?:x(..)|u(.{4})|U(.{8})|([tnre]))")
    assert run(["table", "exchanges", "--format", "csv", str(capture)]) == 0
    rows = csv.DictReader(io.StringIO(capfd.readouterr().out))
    cells = {row["client_id"].removeprefix("'") for row in rows}
    undone = {
        escape.sub(
            lambda one: short[one[4]] if one[4] else chr(int(one[1] or one[2] or one[3], 16)), cell
        )
        for cell in cells
    }
    assert undone == {*texts(), "plain"}


@pytest.mark.sweep
@pytest.mark.parametrize(
    "name", ["a\x1b[31mb", "a\nb", "a\u202eb", "a\u200bb", "a\U000e0041b", "a\ue000b"]
)
def test_names_of_files_are_escaped_too(
    name: str, capture: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / name
    place.mkdir()
    (place / "a.pcap").write_bytes(capture.read_bytes())
    for words in (
        ["summary", str(place / "a.pcap")],
        ["summary", str(place / "gone.pcap")],
        ["table", "problems", str(place / "a.pcap"), "--format", "table"],
        ["dissect", str(place / "a.pcap"), "-o", str(place / "made")],
        ["dissect", str(place / "a.pcap"), "-o", str(place / "made")],
        ["latency", str(place / "made"), "--where", f"'{name}' = api"],
        ["latency", str(place / "made"), "--where", f"'{name}' = nothing"],
        ["slice", str(place / "a.pcap"), "-o", str(place / "no" / "where.pcap")],
        ["live", str(place / "a.pcap"), "-o", str(place / "live")],
    ):
        run(words)
        out, err = capfd.readouterr()
        assert not harmful_in(out, "\n"), words
        assert not harmful_in(err, "\n"), words


@pytest.mark.parametrize(
    "words",
    [
        ["live", "--disk", "{}"], ["live", "-o", "{made}", "--tables", "{}"],
        ["live", "--max", "{}"], ["live", "--rotate", "{}"], ["summary", "--top", "{}"],
        ["summary", "--format", "{}"], ["summary", "--{}"], ["{}"], ["table", "{}"],
        ["protocol", "{}"], ["protocol", "Fetch", "{}"], ["latency", "--by", "{}"],
        ["dissect", "--tables", "{}", "-o", "{made}"], ["slice", "--before", "{}", "-o", "{made}"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_arguments_are_escaped_in_error_messages(
    words: list[str], capture: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = str(tmp_path / "made")
    for text in ("\u202a\uffa0b", "a\u17b4", "\x1b[31mred", "a\x9b", "\u3164", "\u115f="):
        given = [one.replace("{made}", made).replace("{}", text) for one in words]
        # A word that is no command is a file, which cannot be read.
        assert run([*given, str(capture)]) == (FAILED if words == ["{}"] else MISUSED)
        out, err = capfd.readouterr()
        assert err
        assert not harmful_in(out + err, "\n"), given


@pytest.mark.parametrize("format_", ["table", "csv", "json", "jsonl"])
def test_a_name_of_a_file_that_is_no_utf_8_is_escaped(
    format_: str,
    capture: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(os.fsdecode(b"a\xffb.pcap"))
    path.write_bytes(capture.read_bytes())
    words = ["table", "exchanges", "--columns", "capture", "--format", format_]
    assert run([*words, str(path)]) == ANSWERED
    assert "udcffb.pcap" in capfd.readouterr().out
    assert run(["show", "--format", "jsonl", "--limit", "1", str(path)]) == ANSWERED
    assert json.loads(capfd.readouterr().out)["capture"].endswith("a\\udcffb.pcap")
