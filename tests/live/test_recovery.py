"""Recovery: leftovers of a killed process become rotations, once."""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow import parquet

from kdissect.live.files import publishing
from kdissect.live.files.publishing import Sealed, publish
from kdissect.live.files.rotation import RotatedTables
from kdissect.live.files.spools import SpoolWriter
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options
from kdissect.tables.rotations import OPEN, OPEN_CONNECTIONS, hidden_in, rotations_in, runs_in
from kdissect.tables.spool import SpoolReader
from tests.live.replays import (
    CAPTURES,
    SlicedWire,
    by_packets,
    everything_in,
    only_run,
    read_run,
    replay,
    rows_of,
)

GROUPS = CAPTURES / "groups-4.3.1.pcapng"
TABLES = ("connections", "exchanges", "partitions", "problems")


class Died(BaseException):
    """The process is dead."""


def dead_run(directory: Path, steps: int, **rotating: object) -> Path:
    """A run whose process flushed after half of `steps` and after all, and then died."""
    files = RotatedTables(directory, tables=TABLES, flush_s=0, **rotating)  # type: ignore[arg-type]
    with SlicedWire(GROUPS, 20) as packet_source:
        watcher = Watcher(packet_source, [files], Options(), by_packets)
        files.begin(watcher)
        for step in range(steps):
            watcher.step()
            if step == steps // 2:
                # Without it, a busy machine may write all rows as one piece of a spool.
                files.writer.drain()
        files._see(watcher.now_ns)
        files.writer.drain()
        files.publisher.drain()
    os.close(files.run._lock)
    for spool in files.writer.rotations[0].spools.values():
        spool.close()
    return files.run.path


def left_in(run: Path) -> Path:
    (spools,) = hidden_in(run, OPEN)
    return spools


def test_next_start_publishes_flushed_rows(tmp_path: Path) -> None:
    dead = dead_run(tmp_path / "live", 40)
    replay(GROUPS, tmp_path / "whole", TABLES)
    replay(GROUPS, tmp_path / "live", TABLES)
    whole = only_run(tmp_path / "whole")
    first, second = runs_in(tmp_path / "live")
    assert first == dead
    assert len(rotations_in(first)) == 1
    assert 0 < read_run(first, "exchanges").num_rows < read_run(second, "exchanges").num_rows
    for table in ("exchanges", "partitions"):
        of_whole = rows_of(read_run(whole, table))
        assert set(rows_of(read_run(first, table))) <= set(of_whole)
        assert rows_of(read_run(second, table)) == of_whole
    assert not [path for path in everything_in(tmp_path / "live") if "/." in path]


def test_recovery_is_reported_as_a_problem_and_on_stderr(tmp_path: Path) -> None:
    dead = dead_run(tmp_path, 20)
    told: list[str] = []
    replay(GROUPS, tmp_path, TABLES, notice=told.append)
    text = f"{dead}: its process was killed; what it had flushed is taken up"
    assert told == [text]
    problems = read_run(runs_in(tmp_path)[-1], "problems")
    assert problems.select(["stage", "kind", "message"]).to_pylist() == [
        {"stage": "tables", "kind": "recovered-run", "message": text}
    ]


def test_open_connections_of_a_killed_run_are_those_of_its_last_snapshot(
    tmp_path: Path,
) -> None:
    dead = dead_run(tmp_path, 60)
    replay(GROUPS, tmp_path, TABLES)
    (rotation,) = rotations_in(dead)
    seen = parquet.read_table(rotation / f"{OPEN_CONNECTIONS}.parquet")
    assert seen.num_rows > 0
    ids = read_run(dead, "connections")["connection_id"].to_pylist()
    assert len(ids) == len(set(ids))
    of_exchanges = set(read_run(dead, "exchanges")["connection_id"].to_pylist())
    assert of_exchanges <= set(ids)


def test_without_a_last_snapshot_the_previous_rotation_has_the_open_ones(tmp_path: Path) -> None:
    dead = dead_run(tmp_path, 60, every_s=5)
    before = rotations_in(dead)[-1]
    (left_in(dead) / f"{OPEN_CONNECTIONS}.spool").unlink()
    replay(GROUPS, tmp_path, TABLES)
    last = rotations_in(dead)[-1]
    assert before != last
    opened = parquet.read_table(before / f"{OPEN_CONNECTIONS}.parquet")["connection_id"]
    ended = parquet.read_table(last / "connections.parquet")["connection_id"]
    still = parquet.read_table(last / f"{OPEN_CONNECTIONS}.parquet")["connection_id"]
    assert set(still.to_pylist()) == set(opened.to_pylist()) - set(ended.to_pylist())


def test_damaged_spool_loses_rows_after_the_damage_and_reports_it(tmp_path: Path) -> None:
    dead = dead_run(tmp_path, 40)
    spool = left_in(dead) / "exchanges.spool"
    flushed = sum(batch.num_rows for batch in SpoolReader(spool))
    os.truncate(spool, spool.stat().st_size - 10)
    told: list[str] = []
    replay(GROUPS, tmp_path, TABLES, notice=told.append)
    assert [line for line in told if "is cut short: rows in its last" in line] != []
    assert 0 < read_run(dead, "exchanges").num_rows < flushed
    problems = read_run(runs_in(tmp_path)[-1], "problems")["kind"].to_pylist()
    assert sorted(problems) == ["damaged-spool", "recovered-run"]


def test_spools_without_any_whole_batch_leave_no_rotation(tmp_path: Path) -> None:
    dead = dead_run(tmp_path, 20)
    for spool in left_in(dead).iterdir():
        os.truncate(spool, 5)
    replay(GROUPS, tmp_path, TABLES)
    assert not dead.exists()


def test_unrecoverable_spools_remain_and_the_capture_continues(tmp_path: Path) -> None:
    dead = dead_run(tmp_path, 20)
    spool = left_in(dead) / "exchanges.spool"
    spool.unlink()
    spool.mkdir()
    for _ in range(2):
        told: list[str] = []
        replay(GROUPS, tmp_path, TABLES, notice=told.append)
        assert f"{left_in(dead)} cannot be made a rotation: " in told[1]
        assert spool.is_dir()
        assert rotations_in(dead) == []
    first, *later = (rows_of(read_run(run, "exchanges")) for run in runs_in(tmp_path))
    assert first == []
    assert later[0] == later[1] != []


def test_recovered_files_keep_their_mode(tmp_path: Path) -> None:
    dead = dead_run(tmp_path, 20, is_secret=True)
    replay(GROUPS, tmp_path, TABLES)
    (rotation,) = rotations_in(dead)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in rotation.iterdir()}
    assert (stat.S_IMODE(rotation.stat().st_mode), modes) == (0o700, {0o600})


def test_half_a_file_of_names_is_taken_away(tmp_path: Path) -> None:
    half = tmp_path / ".topics.json-0123456789abcdef"
    half.write_text("{")
    replay(GROUPS, tmp_path, TABLES)
    assert not half.exists()


def test_a_run_of_a_live_process_is_left_alone(tmp_path: Path) -> None:
    living = dead_run(tmp_path, 20)
    lock = os.open(living, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = everything_in(living)
        replay(GROUPS, tmp_path, TABLES)
        assert everything_in(living) == before
    finally:
        os.close(lock)


def test_half_published_and_half_removed_rotations_are_removed(tmp_path: Path) -> None:
    dead = dead_run(tmp_path, 20)
    for name in (".making-000001-20261122T060000Z", ".gone-000000-20261122T060000Z"):
        (dead / name).mkdir()
        (dead / name / "exchanges.parquet").write_text("half")
    replay(GROUPS, tmp_path, TABLES)
    assert [path.name for path in dead.iterdir()] == [one.name for one in rotations_in(dead)]


def test_a_process_that_dies_at_any_step_of_making_a_rotation_leaves_it_to_the_next_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = dead_run(tmp_path / "live", 40)
    expected = None
    step = 0
    while True:
        run = tmp_path / str(step) / template.name
        shutil.copytree(template, run)
        sealed = Sealed(left_in(run), TABLES, {}, None, False)
        with monkeypatch.context() as patch, dying_at(patch, step) as survived:
            publish(sealed)
        if not survived:
            assert len(rotations_in(run)) <= 1
            publish(sealed)
        found = {table: rows_of(read_run(run, table)) for table in TABLES}
        expected = expected or found
        assert found == expected
        assert [path.name for path in run.iterdir()] == [sealed.name]
        if survived:
            break
        step += 1
    assert step > 10


@contextmanager
def dying_at(patch: pytest.MonkeyPatch, last: int) -> Iterator[list[bool]]:
    """Let the process die before its step `last`; the result is not empty when it did not."""
    steps = 0
    survived: list[bool] = []

    def counted(function):  # type: ignore[no-untyped-def]
        def called(*values, **named):  # type: ignore[no-untyped-def]
            nonlocal steps
            if steps == last:
                raise Died
            steps += 1
            return function(*values, **named)

        return called

    for name in ("sync", "write_whole", "write_table"):
        patch.setattr(publishing, name, counted(getattr(publishing, name)))
    patch.setattr(os, "rename", counted(os.rename))
    patch.setattr(os, "replace", counted(os.replace))
    patch.setattr(os, "unlink", counted(os.unlink))
    patch.setattr(os, "rmdir", counted(os.rmdir))
    patch.setattr(shutil, "rmtree", unforgiving)
    try:
        yield survived
        survived.append(True)
    except Died:
        pass


def unforgiving(name: str, *, ignore_errors: bool, dir_fd: int) -> None:  # noqa: ARG001
    """Like `rmtree`, one file at a time, with a counter here."""
    path = Path(f"/proc/self/fd/{dir_fd}").readlink() / name
    for file in sorted(path.iterdir()):
        os.unlink(file)  # noqa: PTH108  # counted
    os.rmdir(path)  # noqa: PTH106  # counted


def test_a_thread_that_fails_unforeseen_ends_the_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: SpoolWriter) -> None:
        raise ValueError("unforeseen")

    monkeypatch.setattr(SpoolWriter, "work", broken)
    with pytest.raises(ValueError, match="unforeseen"):
        replay(GROUPS, tmp_path, TABLES)
