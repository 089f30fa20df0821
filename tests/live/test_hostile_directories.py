"""Tampered directories of live captures: nothing outside them is read or changed."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.api.answers import analyse
from kdissect.api.summary_pass import findings
from kdissect.errors import KdissectError
from kdissect.live.files.budget import Budget
from kdissect.live.files.runs import left_runs
from kdissect.tables.rotations import rotations_in, runs_in
from tests.live.replays import CAPTURES, only_run, read_run, replay
from tests.spark.hostile import TEXTS, directory, fifo, link
from tests.spark.sandbox import Sandbox, tree

CAPTURE = CAPTURES / "quickstart.pcapng"
RUN = "20251122T060000Z"
ROTATION = "000001-20251122T060000Z"
# Files of results and of rotations that are read by their names.
FILES = ("exchanges.parquet", "errors.parquet", "connections.parquet")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("live")
    replay(CAPTURE, place / "live", every_s=5)
    kdissect.write(CAPTURE, place / "results")
    return place


@pytest.fixture
def sandbox(sound: Path, tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    shutil.copytree(sound / "live", sandbox.inside)
    # A run, as another capture or another user may have it.
    shutil.copytree(sound / "live", sandbox.outside / "live")
    sandbox.before = tree(sandbox.outside)
    return sandbox


def questions(sandbox: Sandbox) -> Iterator[str]:
    """Output of each way to read a live directory."""
    inside = sandbox.inside
    yield sandbox.call(analyse, "latency", inside)
    yield sandbox.call(lambda: kdissect.read(inside, table="exchanges").to_arrow())
    yield sandbox.call(findings, inside)
    for words in (["summary"], ["latency"], [], ["table", "exchanges"]):
        yield sandbox.run(*words, inside)


def captures(sandbox: Sandbox, keep: int | None = 1) -> Iterator[str]:
    """Output of a capture into the directory that keeps the newest rotations."""
    yield sandbox.call(replay, CAPTURE, sandbox.inside, every_s=5, keep=keep)


def problems(sandbox: Sandbox) -> list[str]:
    """The kinds of problems in all runs."""
    tables = [read_run(run, "problems") for run in runs_in(sandbox.inside)]
    return [kind for table in tables for kind in table["kind"].to_pylist()]


def newest_rotation(sandbox: Sandbox) -> Path:
    return rotations_in(runs_in(sandbox.inside)[-1])[-1]


def test_a_sound_directory_is_used_as_ever(sandbox: Sandbox) -> None:
    assert [*questions(sandbox), *captures(sandbox)] == [""] * 8
    assert len([one for run in runs_in(sandbox.inside) for one in rotations_in(run)]) == 1


@pytest.mark.parametrize("place", ["run", "rotation", "a run", "a rotation"])
def test_a_run_or_rotation_that_is_a_link_is_refused(place: str, sandbox: Sandbox) -> None:
    run = only_run(sandbox.inside)
    there = sandbox.outside / "live" / run.name
    path, to = {
        "run": (run, there),
        "rotation": (rotations_in(run)[0], rotations_in(there)[0]),
        "a run": (sandbox.inside / RUN, there),
        "a rotation": (run / ROTATION, rotations_in(there)[0]),
    }[place]
    link(path, to)
    said = [*questions(sandbox)]
    assert all("symbolic link" in one for one in said), said
    for one in captures(sandbox):
        assert "symbolic link" in one or place in ("rotation", "a rotation")
    sandbox.check()


def test_rotations_behind_a_link_are_not_taken_away(sandbox: Sandbox) -> None:
    run = only_run(sandbox.inside)
    there = sandbox.outside / "live" / run.name
    link(sandbox.inside / RUN, there)
    link(run / ROTATION, rotations_in(there)[0])
    Budget(sandbox.inside, 1, None).apply()
    Budget(sandbox.inside, None, 1).apply()
    sandbox.check()
    assert (sandbox.inside / RUN).is_symlink()
    assert (run / ROTATION).is_symlink()


@pytest.mark.parametrize("prefix", [".open-", ".making-", ".gone-"])
def test_recovery_does_not_follow_links(prefix: str, sandbox: Sandbox) -> None:
    """The next start publishes spools and removes partial files."""
    run = only_run(sandbox.inside)
    there = sandbox.outside / "live" / run.name
    (there / f"{prefix}{ROTATION}").mkdir()
    (there / f"{prefix}{ROTATION}" / "exchanges.spool").write_bytes(b"canary")
    sandbox.before = tree(sandbox.outside)
    link(run / f"{prefix}{ROTATION}", there / f"{prefix}{ROTATION}")
    assert not any(captures(sandbox))
    for left in left_runs(sandbox.inside):
        left.close()
    sandbox.check()


def test_a_hidden_directory_under_another_name_is_left_alone(sandbox: Sandbox) -> None:
    run = only_run(sandbox.inside)
    for name in (".gone-mine", ".making-", ".gone-..", ".open-x"):
        (run / name).mkdir()
        (run / name / "file").write_bytes(b"mine")
    for left in left_runs(sandbox.inside):
        left.close()
    assert not any(questions(sandbox))
    assert (run / ".gone-mine" / "file").read_bytes() == b"mine"
    assert (run / ".making-" / "file").exists()


@pytest.mark.parametrize("change", [fifo, directory, link])
@pytest.mark.parametrize("name", FILES)
def test_a_table_that_is_no_regular_file_is_not_opened(
    name: str, change: Callable[[Path, Path], None], sandbox: Sandbox
) -> None:
    path = newest_rotation(sandbox) / name
    to = sandbox.outside / "live" / path.relative_to(sandbox.inside)
    if change is fifo or change is directory:
        path.unlink()
    change(path, to)
    said = [sandbox.call(lambda: kdissect.read(sandbox.inside, table=name[:-8]).to_arrow())]
    said += questions(sandbox)
    assert said[0]
    sandbox.check()


@pytest.mark.parametrize("change", [fifo, directory, link])
def test_names_of_topics_that_are_no_regular_file_are_learnt_anew(
    change: Callable[[Path, Path], None], sandbox: Sandbox
) -> None:
    path = sandbox.inside / "topics.json"
    change(path, sandbox.outside / "topics.json")
    (said,) = captures(sandbox, keep=None)
    # A directory cannot be replaced by a file, so names cannot be kept.
    assert bool(said) == (change is directory)
    assert change is directory or "damaged-names" in problems(sandbox)


@pytest.mark.sweep
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:20]))
def test_an_invalid_balance_or_names_file_is_reported(text: str, sandbox: Sandbox) -> None:
    for path in (newest_rotation(sandbox) / "balance.json", sandbox.inside / "topics.json"):
        path.write_text(text, encoding="latin-1" if "\xff" in text else "utf-8")
    for said in questions(sandbox):
        assert "balance" in said, said
    (newest_rotation(sandbox) / "balance.json").unlink()
    assert not any(captures(sandbox))


BALANCES: tuple[Any, ...] = (
    {}, [], {"packets": []}, {"packets": "1"}, {"packets": -1}, {"packets": 1 << 63},
    {"packets": None}, {"problems": 1}, {"problems": {"x": "y"}}, {"problems": {"x": {}}},
    {"unknown": 1}, {"packets": 1.5}, {"packets": True},
)  # fmt: skip


@pytest.mark.parametrize("change", BALANCES, ids=str)
def test_a_balance_with_other_values_is_one_error(change: Any, sandbox: Sandbox) -> None:
    path = newest_rotation(sandbox) / "balance.json"
    sound = json.loads(path.read_text())
    whole = isinstance(change, dict) and change and "unknown" not in change
    path.write_text(json.dumps({**sound, **change} if whole else change))
    for said in questions(sandbox):
        assert "balance" in said or "number" in said or "object" in said


@pytest.mark.parametrize("change", [fifo, link, directory])
def test_spools_that_are_no_regular_files_are_left_and_told(
    change: Callable[[Path, Path], None], sandbox: Sandbox
) -> None:
    run = only_run(sandbox.inside)
    spools = run / f".open-{ROTATION}"
    spools.mkdir()
    change(spools / "exchanges.spool", sandbox.outside / "exchanges.spool")
    assert not any(captures(sandbox, keep=None))
    assert "unreadable-spools" in problems(sandbox)
    assert spools.exists()


def test_a_temporary_name_that_is_there_is_not_written_to(sandbox: Sandbox) -> None:
    """Names of files being written cannot be guessed: none of these links is followed."""
    results = sandbox.inside.parent / "inside" / "results"
    results.mkdir()
    for name in FILES:
        for guess in (f".{name}.{os.getpid()}.tmp", f".{name}.tmp", f".{name}.partial"):
            (results / guess).symlink_to(sandbox.outside / "canary.txt")
    kdissect.write(CAPTURE, results)
    sandbox.check()


@pytest.mark.parametrize("change", [fifo, link])
def test_results_that_are_no_regular_files_are_not_opened(
    change: Callable[[Path, Path], None], sound: Path, tmp_path: Path
) -> None:
    sandbox = Sandbox(tmp_path)
    shutil.copytree(sound / "results", sandbox.inside)
    shutil.copytree(sound / "results", sandbox.outside / "results")
    sandbox.before = tree(sandbox.outside)
    for name in FILES:
        path = sandbox.inside / name
        path.unlink()
        change(path, sandbox.outside / "results" / name)
    for said in (
        sandbox.call(analyse, "latency", sandbox.inside),
        sandbox.call(analyse, "errors", sandbox.inside),
        sandbox.run("latency", sandbox.inside),
        sandbox.run("compare", sandbox.inside, sandbox.inside),
    ):
        assert said
    sandbox.check()


def test_a_start_in_a_directory_with_a_linked_run_is_an_error(sandbox: Sandbox) -> None:
    link(sandbox.inside / RUN, sandbox.outside / "live")
    with pytest.raises(KdissectError, match="is a symbolic link, which is not followed"):
        replay(CAPTURE, sandbox.inside)
