"""Disks that take no more, for a while or for good."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import kdissect
from kdissect.capture.packet import Packet
from kdissect.errors import OutputError
from kdissect.live.files import disk_worker, spools
from kdissect.live.files.rotation import RotatedTables
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options
from kdissect.tables.rotations import rotations_in, runs_in
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

CAPTURE = CAPTURES / "groups-4.3.1.pcapng"
TABLES = ("connections", "exchanges", "partitions", "problems")


class Disk:
    """A file system of its own, of the given size."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resize(self, size: str) -> None:
        self._run("mount", "-o", f"remount,size={size}", str(self.path))

    def mount(self, size: str) -> None:
        self.path.mkdir()
        self._run("mount", "-t", "tmpfs", "-o", f"size={size}", "kdissect-test", str(self.path))

    def unmount(self) -> None:
        self._run("umount", str(self.path))

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    made = Disk(tmp_path / "disk")
    try:
        made.mount("64k")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"a small disk cannot be mounted: {error.stderr.decode()}")
    try:
        yield made
    finally:
        made.unmount()


class MendedWire(SlicedWire):
    """Calls `harm` before the first packet, `mend` when so many were read."""

    def __init__(self, source: Path, at: int, mend: Any, files: RotatedTables) -> None:
        super().__init__(source, 20)
        self.left = at
        self.mend = mend
        self.files = files
        self.harm: Any = None

    def read(self, wait_s: float) -> list[Packet] | None:
        if self.harm is not None:
            self.harm()
            self.harm = None
        # A real capture is slower than the disk.
        if not self.files.trouble.is_failing and self.left > 0:
            self.files.writer.drain()
            self.files.publisher.drain()
        self.left -= 20
        if -20 < self.left <= 0:
            self.mend()
        return super().read(wait_s)


def live(
    directory: Path, mend: Any, harm: Any = lambda: None, at: int = 900, **rotating: Any
) -> list[str]:
    """Replay a capture; the disk recovers at a packet. Gives the output."""
    said: list[str] = []
    files = RotatedTables(directory, tables=TABLES, flush_s=0.5, notice=said.append, **rotating)
    with MendedWire(CAPTURE, at, mend, files) as packet_source:
        watcher = Watcher(packet_source, [files], Options(), by_packets)
        packet_source.harm = harm
        watcher.run()
    return said


def rows_without_problems(run: Path) -> dict[str, Any]:
    return {table: rows_of(read_run(run, table)) for table in TABLES if table != "problems"}


def whole(tmp_path: Path) -> dict[str, Any]:
    made, _ = kdissect.write(CAPTURE, tmp_path / "whole", tables=TABLES[:3])
    return {table: rows_of(parquet.ParquetFile(path).read()) for table, (path, _) in made.items()}


@pytest.mark.parametrize("rotating", [{}, {"every_s": 3}, {"size": 20_000}])
def test_rows_wait_for_a_full_disk_and_none_is_lost(
    disk: Disk, tmp_path: Path, rotating: dict[str, Any]
) -> None:
    said = live(disk.path / "live", lambda: disk.resize("50m"), **rotating)
    run = only_run(disk.path / "live")
    assert rows_without_problems(run) == whole(tmp_path)
    problems = read_run(run, "problems").to_pylist()
    told = [one["message"] for one in problems if one["kind"] == "disk-full"]
    assert told == said
    assert len(said) == 2
    assert "No space left on device" in said[0]
    assert said[0].endswith("rows wait in memory until there is room")
    assert said[1].startswith("tables are written again after ")
    assert said[1].endswith(" s; no row was lost")
    assert not [path for path in everything_in(disk.path) if "/." in path]


def test_rows_that_there_is_no_room_for_are_counted(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "HELD_BYTES", 20_000)
    said = live(disk.path / "live", lambda: disk.resize("50m"), every_s=3)
    found = rows_without_problems(only_run(disk.path / "live"))
    lost = {
        table: len(rows) - len(found[table])
        for table, rows in whole(tmp_path).items()
        if len(rows) > len(found[table])
    }
    assert lost
    text = ", ".join(f"{table} {lost[table]}" for table in sorted(lost))
    assert said[-1].endswith(f"; rows lost: {text}")


def test_disk_that_stays_full_is_an_error_and_flushed_rows_are_recovered(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_worker, "LAST_TRIES_S", 0.2)
    with pytest.raises(OutputError, match=r"the last rows are not written .*Make room: the next"):
        live(disk.path / "live", lambda: None, every_s=3)
    disk.resize("50m")
    replay(CAPTURE, disk.path / "live", TABLES)
    first, second = runs_in(disk.path / "live")
    every = whole(tmp_path)
    kept = rows_without_problems(first)
    assert 0 < len(kept["exchanges"]) < len(every["exchanges"])
    assert set(kept["exchanges"]) <= set(every["exchanges"])
    assert rows_without_problems(second) == every
    assert not [path for path in everything_in(disk.path) if "/." in path]


def test_a_slow_disk_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk accepts writes, no row is lost, however few may wait."""
    sound = os.fdatasync

    def slow(file: int) -> None:
        time.sleep(0.01)
        sound(file)

    monkeypatch.setattr(os, "fdatasync", slow)
    monkeypatch.setattr(spools, "HELD_BYTES", 20_000)
    replay(CAPTURE, tmp_path / "live", TABLES, every_s=3)
    assert rows_without_problems(only_run(tmp_path / "live")) == whole(tmp_path)
    assert read_run(only_run(tmp_path / "live"), "problems").num_rows == 0


def test_a_full_disk_at_the_start_is_reported(disk: Disk) -> None:
    (disk.path / "ballast").write_bytes(b"x" * 60_000)
    with pytest.raises(OSError, match="No space left"):
        (disk.path / "more").write_bytes(b"x" * 60_000)
    with pytest.raises(OutputError, match=r"No space left on device.*ake room"):
        replay(CAPTURE, disk.path / "live", TABLES)


def test_old_rotations_make_room(disk: Disk) -> None:
    disk.resize("600k")  # all rotations take 1.2 MB; the disk keeps up to the last packet
    said = live(disk.path / "live", lambda: None, at=1 << 20, every_s=3, keep=1)
    assert said == []
    assert len(rotations_in(only_run(disk.path / "live"))) == 1


@pytest.mark.parametrize("failing", ["mkdir", "rename", "fsync", "fdatasync"])
def test_every_failing_step_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Other errors than a full disk, too: reported as another kind of problem."""
    sound = getattr(os, failing)
    is_named = failing in ("mkdir", "rename")
    is_broken = False

    def broken(*values: Any, **named: Any) -> Any:
        is_own = not is_named or any(part in str(values[0]) for part in (".open", ".making"))
        if is_broken and is_own:
            raise OSError(5, "Input/output error")
        return sound(*values, **named)

    def turn() -> None:
        nonlocal is_broken
        is_broken = not is_broken

    monkeypatch.setattr(os, failing, broken)
    said = live(tmp_path / "live", turn, turn, every_s=3)
    run = only_run(tmp_path / "live")
    assert rows_without_problems(run) == whole(tmp_path)
    kinds = read_run(run, "problems")["kind"].to_pylist()
    assert kinds == ["disk-failed"] * 2
    assert "Input/output error" in said[0]
