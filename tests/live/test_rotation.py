"""The law of rotations: at any interval, all of them together equal the output of `write`."""

import json
import stat
from dataclasses import asdict
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import kdissect
from kdissect.errors import OutputError
from kdissect.live.files import rotation as rotation_module
from kdissect.live.files.rotation import RotatedTables
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options
from kdissect.tables.rotations import OPEN_CONNECTIONS, rotations_in
from tests.live.replays import (
    CAPTURES,
    EVERY,
    SlicedWire,
    by_packets,
    everything_in,
    only_run,
    read_run,
    replay,
    rows_of,
)

GROUPS = CAPTURES / "groups-4.3.1.pcapng"
SAMPLE = (
    "cluster-4.3.1.pcapng",  # the largest
    "consumer-groups-4.3.1.pcapng",  # topics by their ids, and rebalances
    "groups-0.10.2.2.pcapng",
    "incident-static-member-4.3.1.pcapng",
    "retries-4.3.1.pcapng",
    "share-groups-4.3.1.pcapng",
    "streams-groups-4.3.1.pcapng",
    "transactions-4.3.1.pcapng",
)
WAYS: dict[str, dict[str, Any]] = {
    "by time": {"every_s": 2, "flush_s": 0.5},
    "by size": {"size": 40_000},
    "by both": {"every_s": 7, "size": 60_000},
    "at the end": {},
}


@lru_cache(maxsize=1)
def whole(name: str, directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that `write` gives of a capture."""
    made, _ = kdissect.write(CAPTURES / name, directory / name, tables=EVERY)
    return {table: rows_of(parquet.ParquetFile(path).read()) for table, (path, _) in made.items()}


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wholes")


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SAMPLE)
def test_all_rotations_together_are_the_tables_of_the_capture(
    name: str, way: str, tmp_path: Path, wholes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation_module, "SEEN_NS", 0)  # look at open connections at each flush
    replay(CAPTURES / name, tmp_path / "live", EVERY, count=40, **WAYS[way])
    run = only_run(tmp_path / "live")
    found = {table: rows_of(read_run(run, table)) for table in EVERY}
    assert found == whole(name, wholes)
    assert way != "by time" or len(rotations_in(run)) > 1


def test_a_rotation_has_all_tables_and_nothing_hidden_stays(tmp_path: Path) -> None:
    watcher = replay(GROUPS, tmp_path, every_s=5)
    run = only_run(tmp_path)
    rotations = rotations_in(run)
    tables = [*watcher.options.tables, OPEN_CONNECTIONS]
    files = sorted(["balance.json", *(f"{table}.parquet" for table in tables)])
    assert [sorted(one.name for one in rotation.iterdir()) for rotation in rotations] == [
        files
    ] * len(rotations)
    assert [path.name for path in tmp_path.iterdir() if path != run] == ["topics.json"]
    assert not [path for path in everything_in(tmp_path) if "/." in path or path.startswith(".")]


def test_rotations_are_numbered_and_named_by_multiples_of_the_interval(tmp_path: Path) -> None:
    replay(GROUPS, tmp_path, count=20, every_s=5)
    names = [one.name for one in rotations_in(only_run(tmp_path))]
    assert len(names) > 2
    assert [int(name[:6]) for name in names] == list(range(1, len(names) + 1))
    assert [int(name[-3:-1]) % 5 for name in names[1:]] == [0] * (len(names) - 1)


def test_rows_are_in_the_rotation_in_which_they_were_complete(tmp_path: Path) -> None:
    replay(GROUPS, tmp_path, count=5, every_s=5)
    ends = []
    for rotation in rotations_in(only_run(tmp_path)):
        ends += parquet.read_table(rotation / "exchanges.parquet")["response_end"].to_pylist()
    known = [end for end in ends if end is not None]
    late = [one for one, other in pairwise(known) if other < one]
    assert len(late) < len(known) / 10  # those of other connections in the same second


def test_connections_that_are_open_are_in_each_rotation_and_have_not_been_closed(
    tmp_path: Path,
) -> None:
    replay(GROUPS, tmp_path, every_s=5)
    rotations = rotations_in(only_run(tmp_path))
    seen = [parquet.read_table(one / f"{OPEN_CONNECTIONS}.parquet") for one in rotations]
    ended = [parquet.read_table(one / "connections.parquet") for one in rotations]
    assert seen[0].num_rows > 0
    assert seen[-1].num_rows == 0
    assert all(table["closed_by"].null_count == table.num_rows for table in seen)
    for number, table in enumerate(seen):
        later = {id_ for one in ended[number + 1 :] for id_ in one["connection_id"].to_pylist()}
        before = {id_ for one in ended[: number + 1] for id_ in one["connection_id"].to_pylist()}
        ids = set(table["connection_id"].to_pylist())
        assert ids <= later
        assert not ids & before


def test_the_balance_of_the_last_rotation_is_that_of_the_run(tmp_path: Path) -> None:
    watcher = replay(GROUPS, tmp_path, every_s=5)
    last = rotations_in(only_run(tmp_path))[-1]
    assert json.loads((last / "balance.json").read_bytes()) == asdict(watcher.status().balance)


def test_an_interval_without_rows_leaves_nothing(tmp_path: Path) -> None:
    files = RotatedTables(tmp_path, tables=["exchanges"], every_s=1)
    with SlicedWire(GROUPS, 10_000) as packet_source:
        watcher = Watcher(packet_source, [files], Options(), by_packets)
        files.begin(watcher)
        status = watcher.status()
        for second in range(5):
            files.tick(status._replace(now_ns=status.now_ns + second * 10**9))
            files.reopen()
        assert list(only_run(tmp_path).iterdir()) == []
        files.finish(status)
    assert everything_in(tmp_path) == []


def test_reopening_rotates_at_once(tmp_path: Path) -> None:
    files = RotatedTables(tmp_path, tables=["exchanges"])
    with SlicedWire(GROUPS, 50) as packet_source:
        watcher = Watcher(packet_source, [files], Options(), by_packets)
        watcher.begin()
        for _ in range(3):
            for _ in range(4):
                watcher.step()
            watcher.reopen()
        while watcher.step():
            pass
        watcher.finish()
    assert len(rotations_in(only_run(tmp_path))) > 2
    assert read_run(only_run(tmp_path), "exchanges").num_rows == files.rows


def test_two_runs_at_the_same_second_have_directories_of_their_own(tmp_path: Path) -> None:
    for _ in range(2):
        replay(GROUPS, tmp_path, ["exchanges"])
    assert len(list(tmp_path.glob("*/000001-*/exchanges.parquet"))) == 2


def test_files_with_payload_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "live"
    options = {"payload": True}
    replay(GROUPS, directory, ["exchanges", "records"], options=options, is_secret=True)
    for path in [directory, *directory.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert (path.name, mode) == (path.name, 0o700 if path.is_dir() else 0o600)


def test_unwritable_directory_error_suggests_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot write tables to .*: Not a directory; use"):
        replay(GROUPS, tmp_path / "file" / "live")


def test_tables_of_a_capture_are_not_mixed_with_live_ones(tmp_path: Path) -> None:
    kdissect.write(GROUPS, tmp_path)
    with pytest.raises(OutputError, match="live tables need a directory of their own"):
        replay(GROUPS, tmp_path)
