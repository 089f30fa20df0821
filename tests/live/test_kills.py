"""kill -9 at random moments: flushed rows are there exactly once, and every file can be read."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import kdissect
from kdissect.tables.rotations import rotations_in, runs_in
from tests.live.replays import CAPTURES, everything_in, read_run, rows_of

CAPTURE = CAPTURES / "cluster-4.3.1.pcapng"
ROUNDS = int(os.environ.get("KDISSECT_KILLS", "5"))
LONGEST_S = 2.0  # of a round, once it has begun: a replay takes 2 s
DELAY_S = 0.01  # before 20 packets
PATIENCE_S = 120.0


class Killed:
    """A directory with a process that writes to it, again and again."""

    def __init__(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "live"
        self.log = tmp_path / "flushed"
        self.log.touch()
        self.read: set[Path] = set()

    def start(self, delay_s: float) -> "subprocess.Popen[bytes]":
        """A process that has begun."""
        begun = self.lines("begins")
        given = [CAPTURE, self.directory, self.log, delay_s]
        command = [sys.executable, "-m", "tests.live.slow_replay", *map(str, given)]
        process = subprocess.Popen(command, cwd=CAPTURES.parent)
        give_up = time.monotonic() + PATIENCE_S
        while self.lines("begins") == begun:
            assert process.poll() is None
            assert time.monotonic() < give_up
            time.sleep(0.01)
        return process

    def lines(self, text: str) -> int:
        return self.log.read_text().split("\n").count(text)

    def look(self) -> None:
        """Check that files with their final name can be read at any moment."""
        for run in runs_in(self.directory):
            for rotation in rotations_in(run):
                for path in rotation.glob("*.parquet"):
                    if path not in self.read:
                        parquet.ParquetFile(path).read()
                        self.read.add(path)

    def flushed(self) -> Counter[tuple[str, str]]:
        """Rows that were on disk, by run and table."""
        last: dict[tuple[str, str, str], int] = {}
        for line in self.log.read_text().splitlines():
            if line != "begins":
                run, rotation, table, rows = line.split()
                last[run, table, rotation] = int(rows)
        total: Counter[tuple[str, str]] = Counter()
        for (run, table, _), rows in last.items():
            total[run, table] += rows
        return total


@pytest.mark.slow
def test_flushed_rows_survive_a_kill_at_any_time_exactly_once(tmp_path: Path) -> None:
    source = random.Random(1)  # moments, no secrets
    killed = Killed(tmp_path)
    for _ in range(ROUNDS):
        process = killed.start(DELAY_S)
        end = time.monotonic() + source.uniform(0, LONGEST_S)
        while time.monotonic() < end and process.poll() is None:
            killed.look()
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    assert killed.start(0).wait(PATIENCE_S) == 0
    killed.look()
    check_rows(killed, whole_rows(tmp_path))
    assert not [path for path in everything_in(killed.directory) if "/." in path]


def whole_rows(tmp_path: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    made, _ = kdissect.write(CAPTURE, tmp_path / "whole", tables=["exchanges", "partitions"])
    return {
        table: Counter(rows_of(parquet.ParquetFile(path).read()))
        for table, (path, _) in made.items()
    }


def check_rows(killed: Killed, whole: dict[str, Counter[tuple[Any, ...]]]) -> None:
    """Each run has its flushed rows, nothing that is not in the capture, and no duplicates."""
    flushed = killed.flushed()
    runs = runs_in(killed.directory)
    for run in runs:
        for table, rows in whole.items():
            found = Counter(rows_of(read_run(run, table)))
            assert found <= whole[table]
            assert sum(found.values()) >= flushed[run.name, table]
            assert run != runs[-1] or found == rows
        ids = read_run(run, "connections")["connection_id"].to_pylist()
        assert len(ids) == len(set(ids))
    assert sum(flushed.values()) > 0
    last = read_run(runs[-1], "problems")["kind"].to_pylist()
    assert set(last) <= {"recovered-run", "damaged-spool"}
