"""Output of --json, validated against the published schema by an independent validator."""

import json
import random
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.cli.program import program, run
from tests.seeds import SEED
from tools.json_schema import commands_with_json

CAPTURE = "captures/quickstart.pcapng"
SCHEMA = json.loads(Path("docs/json.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
# Commands whose documents need Spark, or a dataset; tests/spark and tests/dataset have theirs.
ON_SPARK = (
    "spark dissect", "spark stream", "spark rollup", "dataset check", "dataset expire",
    "dataset compact", "dataset forget", "dataset ingest",
)  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("quickstart") / "tables"
    kdissect.write(CAPTURE, directory)
    return str(directory)


def words_of(command: str, tables: str, made: Path) -> list[str]:
    """A command line of each command with --json, but questions."""
    return {
        "summary": ["summary", CAPTURE],
        "compare": ["compare", tables, "--before", "api = 'Fetch'", "--unchanged"],
        "dissect": ["dissect", CAPTURE, "-o", str(made / "tables")],
        "show": ["show", CAPTURE, "--limit", "40", "--payload"],
        "table": ["table", "exchanges", CAPTURE],
        "tables": ["tables"],
        "sql": ["sql", tables, "select * from exchanges join connections using (connection_id)"],
        "slice": ["slice", CAPTURE, "--where", "api = 'Fetch'", "-o", str(made / "x.pcapng")],
        "report": ["report", CAPTURE, "-o", str(made / "report.html")],
        "spans": ["spans", CAPTURE, "-o", str(made / "spans.jsonl")],
        "live": ["live", CAPTURE],
        "top": ["top", CAPTURE, "--once"],
        "protocol": ["protocol"],
    }.get(command, [command, tables])


def documents(words: list[str], capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The documents that a command prints."""
    capfd.readouterr()
    assert run([*words, "--json"]) == 0
    out = capfd.readouterr().out
    if words[0] in ("live", "top"):
        return [json.loads(line) for line in out.splitlines()]
    return [json.loads(out)]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_command_that_prints_rows_has_json() -> None:
    without = {"completion", "tls-keys"}
    top_level = {command.split()[0] for command in commands_with_json()}
    assert set(program.list_commands(click.Context(program))) - top_level == without


@pytest.mark.slow
@pytest.mark.sweep(6)
@pytest.mark.parametrize("command", [one for one in commands_with_json() if one not in ON_SPARK])
def test_output_of_every_command_matches_the_schema(
    command: str, tables: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for document in documents(words_of(command, tables, tmp_path), capfd):
        VALIDATOR.validate(document)
        assert document["schema_version"] == 1
        assert document["command"] == command
        if "columns" in document:
            names = [column["name"] for column in document["columns"]]
            assert all(list(row) == names for row in document["rows"])


@pytest.mark.slow
@pytest.mark.parametrize("table", ["connections", "records", "bodies", "members", "problems"])
def test_the_rows_of_a_table_match_the_schema(
    table: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["table", table, CAPTURE, "--payload", "--limit", "50"]
    (document,) = documents(words, capfd)
    VALIDATOR.validate(document)
    assert document["table"] == table


def test_the_schema_refuses_another_column_and_another_version(
    tables: str, capfd: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    name = chance.choice([name for name, question in QUESTIONS.items() if not question.turns])
    for document in (
        {"schema_version": 1, "command": name, "columns": [], "rows": [{"colour": "red"}]},
        {"schema_version": 2, "command": name, "columns": [], "rows": []},
        {"schema_version": 1, "command": "latencies", "rows": []},
        {"schema_version": 1, "command": "latency", "rows": [{"p99_ns": "slow"}]},
        {"command": "latency", "rows": []},
    ):
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(document)
    (document,) = documents(["latency", tables, "--columns", "api,p99_ns"], capfd)
    assert [one["unit"] for one in document["columns"]] == ["", "ns"]


def test_a_document_without_rows_is_one(tables: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["latency", tables, "--where", "api = 'Vote'"]
    (document,) = documents(words, capfd)
    VALIDATOR.validate(document)
    assert document["rows"] == []
    assert document["columns"][0] == {"name": "api", "type": "string", "unit": ""}
