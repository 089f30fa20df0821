from pathlib import Path

import pytest
from pyarrow import parquet

from kdissect.live.files import rotation
from kdissect.live.files.budget import Budget, oldest_first, size_of
from kdissect.live.files.runs import make_run
from kdissect.tables.rotations import rotations_in, run_order, runs_in
from tests.live.replays import CAPTURES, read_run, replay, rows_of

GROUPS = CAPTURES / "groups-4.3.1.pcapng"


@pytest.fixture(autouse=True)
def every_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is put off, though a replay is faster than any disk."""
    monkeypatch.setattr(rotation, "QUEUED", 1_000)


def made(directory: Path, run: str, *rotations: str, size: int = 1000) -> None:
    for name in rotations:
        path = directory / run / name
        path.mkdir(parents=True)
        (path / "exchanges.parquet").write_bytes(b"x" * size)


def there(directory: Path) -> list[str]:
    return [str(one.relative_to(directory)) for one in oldest_first(directory)]


FIRST, SECOND = "20261122T060000Z", "20261122T060500Z"


def test_the_oldest_of_all_runs_go_first(tmp_path: Path) -> None:
    made(tmp_path, FIRST, "000001-20261122T060000Z", "000002-20261122T061000Z")
    made(tmp_path, SECOND, "000001-20261122T060500Z", "000002-20261122T061500Z")
    removed = Budget(tmp_path, 3, None).apply()
    assert removed == [tmp_path / FIRST / "000001-20261122T060000Z"]
    Budget(tmp_path, 2, None).apply()
    assert there(tmp_path) == [
        f"{FIRST}/000002-20261122T061000Z",
        f"{SECOND}/000002-20261122T061500Z",
    ]


def test_bytes_are_counted_over_all_runs_and_empty_ones_go(tmp_path: Path) -> None:
    made(tmp_path, FIRST, "000001-20261122T060000Z", size=5000)
    made(tmp_path, SECOND, "000001-20261122T060500Z", "000002-20261122T061500Z")
    Budget(tmp_path, None, 2500).apply()
    assert [run.name for run in runs_in(tmp_path)] == [SECOND]
    assert len(there(tmp_path)) == 2


def test_the_newest_stays_however_large_it_is(tmp_path: Path) -> None:
    made(tmp_path, FIRST, "000001-20261122T060000Z", "000002-20261122T061000Z", size=9000)
    Budget(tmp_path, 1, 10).apply()
    assert there(tmp_path) == [f"{FIRST}/000002-20261122T061000Z"]


def test_without_limits_nothing_goes(tmp_path: Path) -> None:
    made(tmp_path, FIRST, "000001-20261122T060000Z")
    assert Budget(tmp_path, None, None).apply() == []
    assert len(there(tmp_path)) == 1


def test_a_rotation_with_remaining_spools_waits_for_them(tmp_path: Path) -> None:
    made(tmp_path, FIRST, "000001-20261122T060000Z", "000002-20261122T061000Z")
    spools = tmp_path / FIRST / ".open-000001-20261122T060000Z"
    spools.mkdir()
    assert Budget(tmp_path, 1, None).apply() == []
    spools.rmdir()
    assert len(Budget(tmp_path, 1, None).apply()) == 1


def test_an_empty_run_of_a_live_process_is_kept(tmp_path: Path) -> None:
    run = make_run(tmp_path, 1_795_327_200_000_000_000, 0o777)
    made(tmp_path, run.path.name, "000001-20261122T060000Z")
    made(tmp_path, SECOND, "000001-20261122T060500Z")
    Budget(tmp_path, 1, None).apply()
    assert [one.name for one in runs_in(tmp_path)] == [run.path.name, SECOND]
    run.close()
    assert [one.name for one in runs_in(tmp_path)] == [SECOND]


def test_runs_of_the_same_second_are_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, 0, 0o777) for _ in range(12)]
    names = [run.path.name for run in runs]
    assert names[:3] == ["19700101T000000Z", "19700101T000000Z-2", "19700101T000000Z-3"]
    assert [run.name for run in runs_in(tmp_path)] == names
    assert run_order(runs[11].path) == ("19700101T000000Z", 12)
    for run in runs:
        run.close()


def test_a_capture_keeps_its_newest_rotations(tmp_path: Path) -> None:
    replay(GROUPS, tmp_path / "all", count=20, every_s=2)
    replay(GROUPS, tmp_path / "some", count=20, every_s=2, keep=3)
    (every,) = runs_in(tmp_path / "all")
    (some,) = runs_in(tmp_path / "some")
    names = [one.name for one in rotations_in(every)]
    assert len(names) > 3
    assert [one.name for one in rotations_in(some)] == names[-3:]
    kept = rows_of(read_run(some, "exchanges"))
    last = [parquet.read_table(every / name / "exchanges.parquet") for name in names[-3:]]
    assert kept == sorted((row for table in last for row in rows_of(table)), key=repr)


@pytest.mark.parametrize("share", [2, 3])
def test_a_capture_keeps_within_its_bytes(tmp_path: Path, share: int) -> None:
    replay(GROUPS, tmp_path / "all", count=20, every_s=2)
    limit = sum(size_of(one) for one in oldest_first(tmp_path / "all")) // share
    replay(GROUPS, tmp_path / "some", count=20, every_s=2, disk=limit)
    assert limit // 2 < sum(size_of(one) for one in oldest_first(tmp_path / "some")) <= limit
