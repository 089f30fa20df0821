"""Taps of a run are committed in rounds, so that a large one holds no others."""

from pathlib import Path
from typing import Any

import pytest

from kdissect.dataset import rounds
from kdissect.dataset.taps import Tap, Taps, find_taps
from kdissect.spark.pipeline import dissect
from kdissect.spark.steps import Steps
from kdissect.tables.schemas import TABLES
from tests.spark.rotated import CAPTURES, Rows, contents_of, dataset_rows, library_rows

NAMES = ("retries-4.3.1.pcapng", "quickstart.pcapng", "groups-4.3.1.pcapng")


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three taps, of which two fit into a round, but not all; the largest is first."""
    paths = sorted((CAPTURES / name for name in NAMES), key=lambda path: -path.stat().st_size)
    sizes = [path.stat().st_size for path in paths]
    monkeypatch.setattr(rounds, "ROUND_BYTES", sizes[1] + sizes[2])
    return [str(path) for path in paths]


def bring_in(captures: list[str], dataset: Path) -> Any:
    return dissect(None, captures, dataset, tables=tuple(TABLES))


def rows_of_taps(dataset: Path) -> Rows:
    """Rows of the library for each tap of a dataset."""
    rows: Rows = {}
    for tap in contents_of(dataset).taps:
        found = library_rows([one.path for one in tap.captures], tap.number)
        for table, more in found.items():
            rows[table] = sorted([*rows.get(table, []), *more])
    return dict(sorted(rows.items()))


def test_the_largest_tap_has_a_commit_of_its_own(captures: list[str], tmp_path: Path) -> None:
    outcome = bring_in(captures, tmp_path / "dataset")
    assert (outcome.captures, outcome.splits) == (3, 3)
    assert outcome.capture_bytes == sum(Path(path).stat().st_size for path in captures)
    contents = contents_of(tmp_path / "dataset")
    assert contents.run == 2
    brought = [tap.captures[0].path for tap in contents.taps]
    assert brought[2] == captures[0]
    assert sorted(brought) == sorted(captures)
    assert dataset_rows(tmp_path / "dataset") == rows_of_taps(tmp_path / "dataset")


def test_earlier_rounds_stay_when_a_run_is_ended(
    captures: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Steps.run

    def interrupted(steps: Steps) -> Any:
        if captures[0] in {work.new[0].path for work in steps.task.works.values()}:
            raise KeyboardInterrupt
        return run(steps)

    with monkeypatch.context() as patch:
        patch.setattr(Steps, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            bring_in(captures, tmp_path / "dataset")
    there = {tap.captures[0].path for tap in contents_of(tmp_path / "dataset").taps}
    assert there == {*captures[1:]}
    assert bring_in(captures, tmp_path / "dataset").captures == 1
    assert len(contents_of(tmp_path / "dataset").taps) == 3
    assert dataset_rows(tmp_path / "dataset") == rows_of_taps(tmp_path / "dataset")


def test_captures_that_are_in_the_dataset_take_no_round(
    captures: list[str], tmp_path: Path
) -> None:
    found = find_taps(captures)
    order = [[tap.paths[0] for tap in one] for one in rounds.rounds_of(found, set)]
    assert order == [[captures[2], captures[1]], [captures[0]]]
    bring_in(captures[:1], tmp_path / "dataset")
    known = contents_of(tmp_path / "dataset").files()
    assert [len(one) for one in rounds.rounds_of(found, lambda: known)] == [3]


def test_a_tap_that_is_larger_than_a_round_is_one_and_a_lost_capture_has_no_size() -> None:
    large = [Tap(name, name, (name, f"lost {name}")) for name in NAMES]
    sizes = {path: (-1 if "lost" in path else 2, 7) for tap in large for path in tap.paths}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "ROUND_BYTES", 1)
        assert [len(one) for one in rounds.rounds_of(Taps(large, [], sizes), set)] == [1, 1, 1]
        assert rounds.rounds_of(Taps(large[:1], [], sizes), set) == [large[:1]]
        assert rounds.rounds_of(Taps([], [], {}), set) == [[]]
