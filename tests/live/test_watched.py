import os
import threading
from pathlib import Path

import pytest

import kdissect
from kdissect.errors import CaptureError, KdissectError

CAPTURE = str(Path(__file__).parents[2] / "captures" / "quickstart.pcapng")


def test_a_replay_gives_the_rows_that_are_read_from_the_file() -> None:
    rows = {"exchanges": 0, "errors": 0}
    with kdissect.watch(CAPTURE, tables=["exchanges", "errors"]) as watched:
        for table, batch in watched:
            rows[table] += batch.num_rows
        status = watched.status
    assert rows == {
        table: kdissect.read(CAPTURE, table=table).to_arrow().num_rows for table in rows
    }
    assert (status.balance.packets, status.balance.exchanges) == (1318, 331)


def test_a_growing_capture_is_watched_until_stopped(tmp_path: Path) -> None:
    path = tmp_path / "tap.pcapng"
    path.write_bytes(Path(CAPTURE).read_bytes())
    found = 0
    with kdissect.watch(str(path), follow=True, tables=["exchanges"]) as watched:
        for _, batch in watched:
            found += batch.num_rows
            watched.stop()
    assert found == 331


def test_a_silent_pipe_can_be_stopped_from_another_thread(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with kdissect.watch(str(fifo), tables=["exchanges"]) as watched:
        threading.Timer(0.1, watched.stop).start()
        assert list(watched) == []


def test_abandoned_iteration_closes_everything() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in kdissect.watch(CAPTURE, tables=["exchanges"]):
        break
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_unwatchable_sources_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        kdissect.watch(str(tmp_path / "nix"))
    with pytest.raises(KdissectError, match="no table 'nix'"):
        kdissect.watch(CAPTURE, tables=["nix"])
    with pytest.raises(KdissectError, match="either an interface or a capture"):
        kdissect.watch(CAPTURE, interface="lo")
    with pytest.raises(KdissectError, match="neither an interface nor a capture"):
        kdissect.watch()
