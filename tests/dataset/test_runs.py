"""Commits of several tables: killed at any moment, by several writers, with readers beside them."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import deltalake.transaction
import pytest
from deltalake import DeltaTable

from kdissect.dataset.runs import Dataset, contents_in, read_contents
from kdissect.errors import DatasetError, OutputError
from kdissect.spark.pipeline import dissect
from tests.seeds import IS_EVERY_CASE, SEED
from tests.spark.rotated import Rows, contents_of, dataset_rows, library_rows, rotate

SOME = ("connections", "exchanges", "members")


class Killed:
    """Ends the process, as far as a test can, before or after one of the steps that change data."""

    def __init__(self, left: int, is_after: bool) -> None:
        self.left = left
        self.is_after = is_after
        self.steps: list[str] = []

    def watched(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def act(*values: Any, **named: Any) -> Any:
            self.left -= 1
            self.steps.append(step)
            if self.left < 0 and not self.is_after:
                raise KeyboardInterrupt
            answer = function(*values, **named)
            if self.left < 0:
                raise KeyboardInterrupt
            return answer

        return act


@contextmanager
def killed(left: int, is_after: bool) -> Iterator[Killed]:
    """Kill what is inside at one of its steps: a file that is renamed or removed, or a commit."""
    kill = Killed(left, is_after)
    with pytest.MonkeyPatch.context() as patched:
        for owner, name in (
            (os, "replace"),
            (os, "unlink"),
            (DeltaTable, "create_write_transaction"),
            (deltalake.transaction, "create_table_with_add_actions"),
        ):
            patched.setattr(owner, name, kill.watched(name, getattr(owner, name)))
        with suppress(KeyboardInterrupt):
            yield kill


def check_tables(dataset: Path, expected: Rows) -> None:
    """The tables by themselves have the rows of the dataset, and its run, each once."""
    contents = contents_of(dataset)
    for table in contents.options["tables"]:
        opened = DeltaTable(dataset / table)
        assert 0 < opened.transaction_version("kdissect") <= contents.run
        assert opened.to_pyarrow_table().num_rows == len(expected.get(table, []))


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_after", [True, False])
def test_a_run_that_is_killed_at_any_step_is_whole_or_has_not_been(
    is_after: bool, is_first: bool, tmp_path: Path
) -> None:
    paths = rotate("sasl-4.3.1.pcapng", tmp_path / "ring", 2, seed=12)
    before, dataset = tmp_path / "before", tmp_path / "dataset"
    if is_first:
        before.mkdir()
        old: Rows = {}
    else:
        dissect(None, paths[:1], before, tables=SOME)
        old = library_rows(paths[:1], tables=SOME)
    new = library_rows(paths, tables=SOME)
    found = []
    stride = 1 if IS_EVERY_CASE else 3
    for step in count(random.Random(f"{SEED} {is_after} {is_first}").randrange(stride), stride):
        shutil.rmtree(dataset, ignore_errors=True)
        shutil.copytree(before, dataset)
        with killed(step, is_after) as kill:
            dissect(None, paths, dataset, tables=SOME)
        rows = dataset_rows(dataset)
        found.append("old" if rows == old else "new" if rows == new else "neither")
        dissect(None, paths, dataset, tables=SOME)
        assert dataset_rows(dataset) == new
        check_tables(dataset, new)
        own = {str(path.relative_to(dataset)) for path in dataset.glob("_kdissect/*/*/*")}
        assert own == {tap.state for tap in contents_of(dataset).taps}
        if kill.left >= 0:
            break
    counts = found.count("old"), found.count("new")
    assert found == ["old"] * counts[0] + ["new"] * counts[1]
    commits = [name for name in kill.steps if name not in ("replace", "unlink")]
    changed = [table for table in SOME if is_first or old.get(table) != new.get(table)]
    assert len(commits) == 2 + len(changed)
    assert counts[0] > len(commits) // stride


def test_a_run_that_was_decided_is_completed_by_the_next_one_only(tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=3)
    dataset = tmp_path / "dataset"
    dissect(None, paths[:1], dataset, tables=SOME)
    old, new = (library_rows(paths[:end], tables=SOME) for end in (1, 2))

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kdissect.dataset.delta_tables.DeltaTables.commit", fail)
        with pytest.raises(KeyboardInterrupt):
            dissect(None, paths, dataset, tables=SOME)
    assert contents_in(dataset).run == 1
    assert dataset_rows(dataset) == old
    outcome = dissect(None, paths, dataset, tables=SOME)
    assert (outcome.captures, outcome.contents.run) == (0, 2)
    assert dataset_rows(dataset) == new


def unlocked(patched: pytest.MonkeyPatch) -> None:
    """As on file systems without locks, and in stores."""
    patched.setattr("fcntl.flock", lambda *_: None)
    patched.setattr("kdissect.dataset.runs.Dataset._remove_left", lambda _: None)


def test_the_second_of_two_writers_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = rotate("groups-4.3.1.pcapng", tmp_path / "one", 1, seed=1)
    other = rotate("sasl-4.3.1.pcapng", tmp_path / "other", 1, seed=2)
    dataset, by_directory = tmp_path / "dataset", r"(one|other)/ring"
    unlocked(monkeypatch)
    for paths in ([], one):  # also where there is a dataset before
        if paths:
            dissect(None, paths, dataset, tap=by_directory, tables=SOME)
        before = dataset_rows(dataset)
        with Dataset(dataset) as late:
            dissect(None, other, dataset, tap=by_directory, tables=SOME)
            now = dataset_rows(dataset)
            with pytest.raises(OutputError, match="another run writes to this dataset"):
                late.commit(late.contents, [], [])
        assert dataset_rows(dataset) == now != before
        shutil.rmtree(dataset)


def test_a_second_run_on_this_machine_does_not_begin(tmp_path: Path) -> None:
    with (
        Dataset(tmp_path),
        pytest.raises(OutputError, match=r"another run writes to this dataset$"),
    ):
        Dataset(tmp_path).__enter__()


def test_a_run_that_another_process_completes_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 1, seed=4)
    dataset = tmp_path / "dataset"
    unlocked(monkeypatch)
    commit = DeltaTable.create_write_transaction
    completed = []

    def meanwhile(table: DeltaTable, *values: Any, **named: Any) -> None:
        """The commit that the run is done, before which another process finds it."""
        if not completed:
            completed.append(read_contents(dataset))
            with Dataset(dataset) as other:
                completed.append(other.contents)
        commit(table, *values, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", meanwhile)
    assert dissect(None, paths, dataset, tables=SOME).contents.run == 1
    assert [one and one.run for one in completed] == [None, 1]
    assert dataset_rows(dataset) == library_rows(paths, tables=SOME)
    check_tables(dataset, library_rows(paths, tables=SOME))


def test_many_runs_have_few_records_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdissect.dataset.runs_table.MOST_FILES", 5)
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 7, seed=6)
    dataset = tmp_path / "dataset"
    counts = []
    for path in paths:
        dissect(None, [path], dataset, tables=SOME)
        counts.append(len(DeltaTable(dataset / "runs").file_uris()))
    assert max(counts) < 8
    contents = contents_of(dataset)
    assert (contents.run, [one.path for one in contents.taps[0].captures]) == (7, paths)
    assert dataset_rows(dataset) == library_rows(paths, tables=SOME)


def test_logs_that_have_become_checkpoints_are_read_and_continued(tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=6)
    dataset = tmp_path / "dataset"
    for end in (1, 2):
        dissect(None, paths[:end], dataset, tables=SOME)
    before = contents_of(dataset)
    for log in dataset.glob("*/_delta_log"):
        DeltaTable(log.parent).create_checkpoint()
        for entry in sorted(log.glob("*.json"))[:-1]:
            entry.unlink()  # as after a month
    assert contents_of(dataset) == before
    dissect(None, paths, dataset, tables=SOME)
    assert dataset_rows(dataset) == library_rows(paths, tables=SOME)


def test_a_table_that_others_have_rewritten_is_an_error_and_no_row_is_twice(tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=3)
    dataset = tmp_path / "dataset"
    dissect(None, paths[:1], dataset, tables=SOME)
    before = dataset_rows(dataset)
    table = DeltaTable(dataset / "connections")
    table.delete("connection_id > 0")
    assert dataset_rows(dataset) == before  # the dataset has the version before
    with pytest.raises(DatasetError, match="another program has rewritten or removed it"):
        dissect(None, paths, dataset, tables=SOME)
    assert dataset_rows(dataset) == before
    table.restore(0)
    dissect(None, paths, dataset, tables=SOME)
    assert dataset_rows(dataset) == library_rows(paths, tables=SOME)


def test_a_dataset_of_an_earlier_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "_kdissect").mkdir()
    (tmp_path / "_kdissect" / "manifest.json").write_text('{"version": 2}')
    for use in (lambda: read_contents(tmp_path), lambda: Dataset(tmp_path).__enter__()):
        with pytest.raises(DatasetError, match="dissect its captures into another directory"):
            use()
