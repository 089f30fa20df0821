"""Analyses of live directories: the results are those of the capture itself."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import kdissect
from kdissect.analysis.engines.live_tables import ATTEMPTS, FilesGone, live_places
from kdissect.api import answers
from kdissect.api.answers import analyse
from kdissect.api.comparison import compare
from kdissect.api.reading import run_over
from kdissect.api.summary_pass import findings
from kdissect.cli.program import run as run_program
from kdissect.errors import KdissectError
from kdissect.pipeline import Balance, Options
from kdissect.tables.rotations import OPEN_CONNECTIONS, rotations_in, runs_in
from tests.live.replays import CAPTURES, EVERY, only_run, replay, rows_of

CAPTURE = CAPTURES / "cluster-4.3.1.pcapng"
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("latency", {"by": ["client"]}),
    ("latency", {"by": ["api", "topic"]}),
    ("errors", {}),
    ("clients", {}),
    ("rebalances", {}),
    ("health", {}),
    ("lag", {}),
    ("topology", {}),
    ("traffic", {}),
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("live")
    replay(CAPTURE, directory, EVERY, count=50, every_s=4)
    assert len(rotations_in(only_run(directory))) > 5
    return directory


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the capture itself."""
    directory = tmp_path_factory.mktemp("whole")
    kdissect.write(CAPTURE, directory, tables=EVERY)
    return directory


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "options"), QUESTIONS, ids=str)
def test_a_question_of_a_live_directory_has_the_answer_of_the_capture(
    live: Path, whole: Path, name: str, options: dict[str, Any]
) -> None:
    of_capture = rows_of(analyse(name, whole, **options).to_arrow())
    assert of_capture
    assert rows_of(analyse(name, live, **options).to_arrow()) == of_capture


def test_the_command_gives_the_same_lines_for_all_of_them(
    live: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for source in (CAPTURE, live, only_run(live)):
        assert run_program(["latency", str(source), "--by", "client", "--format", "csv"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]


def test_comparing_parts_of_a_live_directory_is_comparing_those_of_the_capture(
    live: Path, whole: Path
) -> None:
    of_capture = compare(whole, at="+10s", by=["client"], unchanged=True)
    of_live = compare(live, at="+10s", by=["client"], unchanged=True)
    assert (of_live.before, of_live.after) == (of_capture.before, of_capture.after)
    assert rows_of(of_live.to_arrow()) == rows_of(of_capture.to_arrow())


def test_the_first_page_of_a_live_directory_is_that_of_the_capture(
    live: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = []
    for source in (CAPTURE, live, only_run(live)):
        assert run_program([str(source), "--json"]) == 0
        pages.append(json.loads(capsys.readouterr().out))
    whole, *lives = pages
    for page in lives:
        # Examples of errors are the first that come: rows come in another order.
        for one in (page, whole):
            one.pop("findings", None)
            for row in [*one["errors"], *one["problems"]]:
                for name in ("path", "packet_number", "message", "topic", "example", "where"):
                    row.pop(name, None)
        assert page == whole
    assert findings(live) == findings(CAPTURE)


@pytest.mark.parametrize("table", ["exchanges", "partitions", "problems"])
def test_a_table_of_a_live_directory_is_that_of_the_capture(live: Path, table: str) -> None:
    of_capture = rows_of(kdissect.read(CAPTURE, table=table).to_arrow())
    assert rows_of(kdissect.read(live, table=table).to_arrow()) == of_capture
    assert rows_of(kdissect.read([only_run(live)], table=table).to_arrow()) == of_capture


def test_chosen_rows_and_columns_of_a_live_directory_come_from_the_command(
    live: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for source in (CAPTURE, live):
        command = ["table", "exchanges", str(source), "--columns", "client_id,latency_ns"]
        where = ["--where", "api = 'Produce' and latency_ns > 1e6"]
        assert run_program([*command, *where]) == 0
        said.append(sorted(capsys.readouterr().out.splitlines()))
        assert run_program([*command, "--limit", "3"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 3
    assert said[0] == said[1] != []


def test_a_table_that_a_live_capture_was_made_without_is_an_error(tmp_path: Path) -> None:
    replay(CAPTURES / "quickstart.pcapng", tmp_path, ("exchanges", "connections"), count=500)
    with pytest.raises(KdissectError, match="has no table records; it was made with"):
        kdissect.read(tmp_path, table="records").to_arrow()


def test_all_rotations_are_asked_as_they_are_and_single_ones_alone(live: Path) -> None:
    rotations = rotations_in(only_run(live))
    counts = [analyse("latency", one, by=["api"]).to_arrow()["exchanges"] for one in rotations]
    whole = analyse("latency", live, by=["api"]).to_arrow()["exchanges"]
    assert sum(sum(one.to_pylist()) for one in counts) == sum(whole.to_pylist())


def test_connections_of_a_rotation_are_those_that_ended_and_those_that_are_open(
    live: Path,
) -> None:
    rotation = rotations_in(only_run(live))[-2]
    names = ("connections", OPEN_CONNECTIONS)
    own = [parquet.read_table(rotation / f"{name}.parquet").num_rows for name in names]
    with run_over(rotation, Options(tables=("connections",))) as run:
        assert sum(batch.num_rows for _, batch in run) == sum(own)
    assert min(own) > 0


def balance_of(place: Path) -> Balance:
    with run_over(place, Options(tables=("exchanges",))) as run:
        balance: Balance = run.balance
    return balance


def test_balances_of_rotations_add_up_to_that_of_the_run(live: Path) -> None:
    rotations = rotations_in(only_run(live))
    whole = balance_of(live)
    parts = [balance_of(one) for one in rotations]
    for name in ("packets", "captured_bytes", "payload_bytes", "framed_bytes", "exchanges"):
        assert sum(getattr(one, name) for one in parts) == getattr(whole, name)
    _, balance = kdissect.write(CAPTURE, live.parent / "whole", tables=["exchanges"], force=True)
    assert whole == balance


@pytest.mark.slow
def test_several_runs_are_asked_together_and_their_ids_do_not_mix(tmp_path: Path) -> None:
    for name in ("groups-4.3.1.pcapng", "transactions-4.3.1.pcapng"):
        replay(CAPTURES / name, tmp_path / "live", EVERY, every_s=4)
    captures = [CAPTURES / "groups-4.3.1.pcapng", CAPTURES / "transactions-4.3.1.pcapng"]
    directories = []
    for number, capture in enumerate(captures):
        kdissect.write(capture, tmp_path / str(number), tables=EVERY)
        directories.append(tmp_path / str(number))
    assert len(live_places(tmp_path / "live")) == 2
    for name, options in (("latency", {"by": ["client"]}), ("clients", {}), ("rebalances", {})):
        of_both = rows_of(analyse(name, directories, **options).to_arrow())
        assert rows_of(analyse(name, tmp_path / "live", **options).to_arrow()) == of_both


def test_a_directory_without_rotations_is_reported(tmp_path: Path) -> None:
    (tmp_path / "20261122T060000Z" / ".open-000001-20261122T060000Z").mkdir(parents=True)
    with pytest.raises(KdissectError, match="nothing is rotated yet; ask again"):
        analyse("latency", tmp_path)


def test_a_table_that_was_not_made_is_named(tmp_path: Path) -> None:
    replay(CAPTURES / "groups-4.3.1.pcapng", tmp_path, ["exchanges"])
    with pytest.raises(KdissectError, match="has no table partitions; it was made with exchanges"):
        analyse("latency", tmp_path, by=["topic"])


def test_a_question_is_asked_again_when_rotations_go_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay(CAPTURE, tmp_path, count=50, every_s=4)
    run = only_run(tmp_path)
    asked = answers.ask
    tries = 0

    def late(*values: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            rotations_in(run)[0].rename(run / ".gone-000001")
        return asked(*values)

    monkeypatch.setattr(answers, "ask", late)
    found = analyse("latency", tmp_path, by=["api"]).to_arrow()
    assert tries == 2
    left = rows_of(analyse("latency", tmp_path, by=["api"]).to_arrow())
    assert rows_of(found) == left


def test_analysis_whose_rotations_keep_disappearing_ends_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay(CAPTURE, tmp_path, count=50, every_s=4)
    run = only_run(tmp_path)
    asked = answers.ask
    tries = 0

    def late(*values: Any) -> Any:
        nonlocal tries
        tries += 1
        oldest = rotations_in(run)[0]
        oldest.rename(run / f".gone-{oldest.name}")
        return asked(*values)

    monkeypatch.setattr(answers, "ask", late)
    with pytest.raises(FilesGone, match=r"was taken away while it was read: .* let it keep more"):
        analyse("latency", tmp_path, by=["api"])
    assert tries == ATTEMPTS


@pytest.mark.slow
def test_the_command_answers_while_the_capture_goes_on(tmp_path: Path) -> None:
    given = [CAPTURE, tmp_path / "live", tmp_path / "log", 0.02]
    command = [sys.executable, "-m", "tests.live.slow_replay", *map(str, given)]
    process = subprocess.Popen(command, cwd=CAPTURES.parent)
    counts = []
    try:
        while process.poll() is None:
            if runs_in(tmp_path / "live") and rotations_in(only_run(tmp_path / "live")):
                found = analyse("latency", tmp_path / "live", by=["client"]).to_arrow()
                counts.append(sum(found["exchanges"].to_pylist()))
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert len(counts) > 2
    assert counts == sorted(counts)
