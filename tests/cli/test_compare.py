"""The command: its sources, its output for people, every exit code."""

import json
from pathlib import Path

import pytest

from kdissect.cli.program import run
from kdissect.text.human import counted

ONE = "captures/consumer-groups-4.0.1.pcapng"
OTHER = "captures/consumer-groups-4.3.1.pcapng"


def test_two_captures_are_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", ONE, OTHER, "--of", "work", "--format", "jsonl"]) == 0
    out, err = capsys.readouterr()
    rows = {(row["measure"], row["what"]): row for row in map(json.loads, out.splitlines())}
    fetch = rows["version", "Fetch 17"]
    assert (fetch["verdict"], fetch["before"], fetch["after"]) == ("gone", 0.5, 0.0)
    assert err.startswith("kdissect: before 1")
    assert "comparisons: " in err
    assert err.endswith("too few (--unchanged shows them)\n")


def test_a_person_reads_units_and_signs(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", ONE, OTHER, "--where", "api = 'Fetch'", "--of", "work", "--unchanged"]
    columns = "verdict,measure,what,before,after,difference"
    assert run([*words, "--columns", columns, "--format", "table"]) == 0
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    told = {(line[1], line[2].split("  ")[0]): line for line in lines if len(line) == 3}
    gone = told["version", "Fetch 17"]
    assert (gone[0], gone[2].split()[2:]) == ("gone", ["50", "%", "0", "%", "-50", "%"])
    assert told["traffic", "requests"][2].endswith("/s")
    assert "ms" in told["work", "p50"][2]


def test_a_file_can_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "changes.csv"
    assert run(["compare", ONE, OTHER, "-o", str(path), "--limit", "2"]) == 0
    assert path.read_text().splitlines()[0].startswith('"api","measure","what","verdict","before",')
    assert len(path.read_text().splitlines()) == 3
    assert capsys.readouterr().out == ""


def test_nothing_changed_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", ONE, ONE, "--of", "work"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert ": 0 changed, " in err


def test_several_files_are_one_source_when_parts_are_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["compare", ONE, OTHER, "--at", "06:33:27", "--of", "work"]
    assert run(words) == 0
    assert "before 165 exchanges in 31.5 s, after 161 exchanges in" in capsys.readouterr().err


@pytest.mark.parametrize("files", [[ONE], [ONE, OTHER, ONE]])
def test_there_are_two_sources_or_parts(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *files]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert f"{counted(len(files), 'source')}, not two: name BEFORE and AFTER" in err


def test_a_condition_that_no_request_meets_leaves_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["compare", ONE, OTHER, "--where", "api = 'None'"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        "kdissect: there is nothing before: no request meets \"api = 'None'\"\n",
    )


def test_time_outside_the_capture_is_an_error_with_the_captures_range(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["compare", ONE, "--at", "2020-01-01"]) == 2
    assert "there is nothing before: the source is from 2026-11-2" in capsys.readouterr().err
