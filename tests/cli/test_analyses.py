"""Commands of the analyses: options, formats, output for people."""

import csv
import io
import json
from pathlib import Path

import pytest

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.cli.analyses import UNITS, duration_text
from kdissect.cli.program import ANALYSES, COMMANDS, run

QUICKSTART = "captures/quickstart.pcapng"


def test_every_question_is_a_command() -> None:
    commands = [name for name, module in COMMANDS.items() if module == ANALYSES]
    assert sorted(commands) == sorted(QUESTIONS)


@pytest.fixture(scope="module")
def quickstart_tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Dissected once for all questions: a capture takes longer than an answer."""
    directory = tmp_path_factory.mktemp("quickstart") / "tables"
    kdissect.write(QUICKSTART, directory)
    return str(directory)


@pytest.mark.sweep
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_has_an_answer_about_a_real_capture_in_every_format(
    name: str, quickstart_tables: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, quickstart_tables, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    for format_ in ("table", "csv", "parquet"):
        path = tmp_path / f"answer.{format_}"
        assert run([name, quickstart_tables, "--format", format_, "-o", str(path)]) == 0
        assert path.stat().st_size > 0 or not rows


def test_a_person_reads_units(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["latency", QUICKSTART, "--where", "api = 'Fetch'", "--format", "table"]
    assert run([*words, "--columns", "api,exchanges,p99_ns,waited"]) == 0
    assert capsys.readouterr().out.split("\n")[2].split() == ["Fetch", "35", "508", "ms", "91.6%"]


def test_nothing_found_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["latency", QUICKSTART, "--where", "api = 'Vote'"]) == 0
    assert "nothing for latency" in capsys.readouterr().err


@pytest.mark.sweep
@pytest.mark.parametrize("name", QUESTIONS)
def test_nothing_found_in_stored_tables_is_explained(
    name: str, quickstart_tables: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, quickstart_tables, "--format", "csv"]) == 0
    found = capsys.readouterr()
    has_rows = len(list(csv.reader(io.StringIO(found.out)))) > 1
    nothing = f"kdissect: nothing for {name}: "
    said = "" if has_rows else f"{nothing}the tables have no rows for it.\n"
    assert found.err == said
    assert run([name, quickstart_tables]) == 0
    assert capsys.readouterr().err == said
    assert run([name, quickstart_tables, "--having", "false"]) == 0
    filtered = f"{nothing}no row of the tables passes --having 'false'.\n"
    assert capsys.readouterr().err == filtered


@pytest.mark.parametrize("unit", UNITS)
def test_durations_are_read_as_they_are_shown(unit: str) -> None:
    assert duration_text(7 * UNITS[unit]) == f"7{unit}"


@pytest.mark.parametrize("text", ["", "10", "s", "-1s", "0s", "tens", "1x", "nans"])
def test_invalid_times_are_rejected(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["latency", QUICKSTART, "--by", "window", "--window", text]) == 2
    assert "Invalid value for '--window'" in capsys.readouterr().err


def test_columns_that_there_are_not_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["latency", QUICKSTART, "--columns", "api,colour"]) == 2
    assert "latency has no column 'colour'; it has api, requests, exchanges, p50_ns" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_duration_and_a_number_are_not_shown_under_one_name(name: str) -> None:
    shown = [column.name.removesuffix("_ns") for column in QUESTIONS[name].columns]
    assert len(set(shown)) == len(shown)


def test_latency_lists_the_slowest_when_it_is_asked_for(
    quickstart_tables: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["latency", quickstart_tables, "--slowest", "3", "--of", "work"]) == 0
    listed = capsys.readouterr().out
    assert run(["slowest", quickstart_tables, "--number", "3", "--of", "work"]) == 0
    assert listed == capsys.readouterr().out
    assert len(listed.splitlines()) == 3


def test_the_frame_numbers_of_the_slowest_are_seen_on_a_terminal(
    quickstart_tables: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["latency", quickstart_tables, "--slowest", "1", "--format", "table"]) == 0
    head, _, row = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["request_packet", "response_packet", "latency"]
    assert row.split()[:4] == ["1241", "1247", "1.2", "s"]


@pytest.mark.parametrize("option", ["by", "window"])
def test_the_slowest_are_not_grouped(
    option: str, quickstart_tables: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["latency", quickstart_tables, "--slowest", "3", f"--{option}"]
    assert run([*words, "client" if option == "by" else "1s"]) == 2
    reason = (
        f"latency: 'slowest' gives single exchanges, '{option}' groups them: use one of the two"
    )
    assert capsys.readouterr().err == f"kdissect: {reason}\n"
    options = {option: ["client"] if option == "by" else 1_000_000_000}
    with pytest.raises(kdissect.KdissectError, match="use one of the two"):
        kdissect.analyse("latency", quickstart_tables, slowest=3, **options)
