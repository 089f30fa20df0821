import datetime as dt
import gzip
import hashlib
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyarrow.parquet import ParquetFile

from kdissect.capture.pcap import NANOSECONDS
from kdissect.dataset.planning import SPARK_SPLIT_SIZE, sha256_of
from kdissect.dataset.runs import Dataset
from kdissect.dataset.tasks import Task, dissect_part
from kdissect.errors import KdissectError
from kdissect.spark.pipeline import Inspecting, dissect, inspected_sizes
from kdissect.spark.task_runners import shares
from tests.capture.writers import make_pcap
from tests.spark.rotated import (
    ALL,
    CAPTURES,
    contents_of,
    dataset_rows,
    library_rows,
    packets_of,
    rotate,
)

DAY_NS = 86_400 * 10**9
MANY = "cluster-3.9.1.pcapng"
pytestmark = pytest.mark.usefixtures("few_or_many_rows")


@pytest.mark.parametrize(
    ("capture", "count"),
    [("groups-4.3.1.pcapng", 4), (MANY, 3), ("incident-lossy-network-4.3.1.pcapng", 5),
     ("tls/tls13-4.3.1.pcapng", 3), ("basics-0.8.2.2.pcapng", 2), ("sasl-4.3.1.pcapng", 7)],
)  # fmt: skip
def test_the_rows_are_those_of_the_library(capture: str, count: int, tmp_path: Path) -> None:
    paths = rotate(capture, tmp_path / "ring", count, seed=count)
    outcome = dissect(
        None, [str(tmp_path / "ring")], tmp_path / "dataset", tables=ALL, split_size=50_000
    )
    assert dataset_rows(tmp_path / "dataset") == library_rows(paths)
    assert (outcome.captures, outcome.broken) == (count, ())
    assert outcome.splits >= count


def test_large_captures_share_tasks_to_be_inspected(tmp_path: Path) -> None:
    def tasks_of(endings: list[str], size: int, full_hash: bool = False) -> list[int]:
        paths = [str(tmp_path / f"ring.pcap{number}{end}") for number, end in enumerate(endings)]
        for path in paths:
            Path(path).touch()
            os.truncate(path, size)  # without blocks on the disk
        sizes = inspected_sizes(paths, Inspecting(SPARK_SPLIT_SIZE, full_hash))
        return [len(task) for task in shares(len(paths), sizes)]

    file_size = SPARK_SPLIT_SIZE + 1000
    assert tasks_of([""] * 9, file_size) == [4, 4, 1]
    assert tasks_of([""] * 3, 2 << 30) == [1] * 3
    # All bytes of these are needed.
    assert tasks_of(["", "", ".gz", ".zst", "", ""], file_size) == [2, 1, 1, 2]
    assert tasks_of([""] * 4, file_size, full_hash=True) == [1] * 4


def test_captures_that_come_later_are_put_behind_those_that_are_in(tmp_path: Path) -> None:
    paths = rotate(MANY, tmp_path / "ring", 5, seed=5)
    dataset = tmp_path / "dataset"
    for end in (2, 3, 5):
        outcome = dissect(None, paths[:end], dataset, tables=ALL, split_size=100_000)
        assert dataset_rows(dataset) == library_rows(paths[:end])
    # The last one brought two captures; nothing was read of the others.
    assert outcome.captures == 2
    contents = contents_of(dataset)
    assert [capture.path for capture in contents.taps[0].captures] == paths
    assert contents.run == 3


def test_captures_that_are_gone_are_not_needed_for_those_that_follow(tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=9)
    expected = library_rows(paths)
    dataset = tmp_path / "dataset"
    dissect(None, paths[:2], dataset, tables=ALL)
    Path(paths[0]).unlink()
    dissect(None, [paths[2]], dataset, tables=ALL)
    assert dataset_rows(dataset) == expected


def test_the_same_captures_again_change_nothing(tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=2)
    dataset = tmp_path / "dataset"
    dissect(None, paths, dataset)
    before = written(dataset)
    outcome = dissect(None, paths, dataset)
    # A copy has other names and times, but the same bytes.
    copies = [Path(path).with_name(f"copy-{Path(path).name}") for path in paths]
    for path, copied in zip(paths, copies, strict=True):
        copied.write_bytes(Path(path).read_bytes())
    again = dissect(None, copies, dataset)
    assert (outcome.captures, again.captures) == (0, 0)
    assert written(dataset) == before


def written(dataset: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in dataset.rglob("*") if path.is_file()}


def test_several_taps_have_ids_of_their_own(tmp_path: Path) -> None:
    one = rotate("groups-4.3.1.pcapng", tmp_path / "b1", 2, seed=1)
    other = rotate("sasl-4.3.1.pcapng", tmp_path / "b2", 2, seed=2)
    dataset = tmp_path / "dataset"
    dissect(None, [*one, *other], dataset, tables=ALL)
    taps = {tap.name: tap.number for tap in contents_of(dataset).taps}
    assert sorted(taps) == ["b1-ring", "b2-ring"]
    assert dataset_rows(dataset, "b1-ring") == library_rows(one, taps["b1-ring"])
    assert dataset_rows(dataset, "b2-ring") == library_rows(other, taps["b2-ring"])


def test_taps_can_be_matched_by_a_pattern(tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=3)
    moved = []
    for number, path in enumerate(paths):
        moved.append(tmp_path / f"hour-{number}" / "broker-7" / "x.pcap")
        moved[-1].parent.mkdir(parents=True)
        Path(path).rename(moved[-1])
    dissect(None, moved, tmp_path / "dataset", tables=ALL, tap=r"/(?P<tap>broker-\d+)/")
    found = dataset_rows(tmp_path / "dataset", "broker-7")
    assert found == library_rows([str(path) for path in moved])


def test_compressed_captures_give_the_rows_of_the_library(tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=6)
    packed = []
    for path in paths:
        packed.append(f"{path}.gz")
        Path(packed[-1]).write_bytes(gzip.compress(Path(path).read_bytes()))
    dataset = tmp_path / "dataset"
    dissect(None, packed[:1], dataset, tables=ALL)
    dissect(None, packed, dataset, tables=ALL)
    assert dataset_rows(dataset) == library_rows(packed)


def test_a_broken_capture_is_a_problem_and_not_a_failed_run(tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=8)
    broken = tmp_path / "ring" / "other.pcap"
    broken.write_bytes(b"this is no capture" * 9)
    (tmp_path / "ring" / "notes.txt").write_text("passed over")
    dataset = tmp_path / "dataset"
    outcome = dissect(None, [str(tmp_path / "ring")], dataset)
    assert [one.path for one in outcome.broken] == [str(broken)]
    entry = contents_of(dataset).broken[0]
    assert entry.sha256 == hashlib.sha256(broken.read_bytes()).hexdigest()
    assert dissect(None, [str(tmp_path / "ring")], dataset).broken == ()
    rows = dataset_rows(dataset)
    told = [row for row in rows["problems"] if "unreadable-capture" in row]
    assert len(told) == 1
    assert str(broken) in told[0]
    assert rows["exchanges"] == library_rows(paths)["exchanges"]
    broken.write_bytes(Path(paths[0]).read_bytes())
    dissect(None, [str(tmp_path / "ring")], dataset)
    assert contents_of(dataset).broken == []
    assert "unreadable-capture" not in str(dataset_rows(dataset).get("problems"))


def test_a_dataset_has_the_same_options_for_all(tmp_path: Path) -> None:
    capture = str(CAPTURES / "groups-4.3.1.pcapng")
    dissect(None, [capture], tmp_path / "dataset", ports=(9999,))
    with pytest.raises(KdissectError, match=r"made with ports \[9999\], not \[\]"):
        dissect(None, [capture], tmp_path / "dataset")


def test_the_manifest_has_sha256_and_counts(tmp_path: Path) -> None:
    capture = CAPTURES / "groups-4.3.1.pcapng"
    dissect(None, [capture], tmp_path / "dataset")
    (tap,) = contents_of(tmp_path / "dataset").taps
    (entry,) = tap.captures
    assert entry.sha256 == hashlib.sha256(capture.read_bytes()).hexdigest()
    assert (entry.size, entry.splits) == (capture.stat().st_size, 1)
    assert tap.balance["packets"] == entry.packets
    assert tap.rows["exchanges"] == tap.balance["exchanges"]
    assert tap.rows["connections"] == tap.balance["connections"]


def test_a_run_that_was_killed_before_its_commit_has_not_been(tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=11)
    dataset = tmp_path / "dataset"
    dissect(None, paths[:1], dataset, tables=ALL)
    before = written(dataset)
    left = dataset / "_kdissect" / "run-000002-deadbeef" / "exchanges"
    left.mkdir(parents=True)
    (left / "half.parquet").write_bytes(b"PAR1")
    dissect(None, paths[:1], dataset, tables=ALL)
    assert written(dataset) == before
    dissect(None, paths, dataset, tables=ALL)
    assert dataset_rows(dataset) == library_rows(paths)


def test_two_runs_at_a_time_are_refused(tmp_path: Path) -> None:
    with Dataset(tmp_path), pytest.raises(KdissectError, match="another run writes to this"):
        dissect(None, [CAPTURES / "groups-4.3.1.pcapng"], tmp_path)


@pytest.mark.parametrize(
    ("capture", "cuts"),
    [("incident-slow-poller-4.3.1.pcapng", (332, 748, 1996)),
     ("share-groups-4.3.1.pcapng", (110, 165, 220, 330)),
     ("groups-4.3.1.pcapng", (657, 821, 1315))],
)  # fmt: skip
def test_topics_get_names_that_only_later_captures_know(
    capture: str, cuts: tuple[int, ...], tmp_path: Path
) -> None:
    packets = packets_of(CAPTURES / capture)
    dataset = tmp_path / "dataset"
    paths: list[str] = []
    nameless = []
    for number, (first, end) in enumerate(pairwise(cuts)):
        path = tmp_path / f"ring.pcap{number}"
        path.write_bytes(make_pcap(packets[first:end], magic=NANOSECONDS, link_type=1))
        paths.append(str(path))
        dissect(None, [path], dataset, tables=ALL)
        rows = dataset_rows(dataset)
        assert rows == library_rows(paths)
        nameless.append(sum("'topic': None, 'topic_id': '" in row for row in rows["partitions"]))
    assert nameless[0] > nameless[-1] == 0
    assert all(not file.is_nameless for file in contents_of(dataset).taps[0].files)


def test_a_capture_that_vanishes_in_the_middle_is_broken_and_its_tap_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = rotate("groups-4.3.1.pcapng", tmp_path / "b1", 2, seed=1)
    other = rotate("sasl-4.3.1.pcapng", tmp_path / "b2", 2, seed=2)
    dataset = tmp_path / "dataset"

    def vanishing(task: Task, place: tuple[int, int]) -> object:
        Path(one[1]).unlink(missing_ok=True)
        return dissect_part(task, place)

    monkeypatch.setattr("kdissect.spark.steps.dissect_part", vanishing)
    outcome = dissect(None, [*one, *other], dataset, tables=ALL)
    (lost,) = outcome.broken
    assert (lost.path, outcome.failed) == (one[1], ())
    taps = {tap.name: tap.number for tap in contents_of(dataset).taps}
    assert sorted(taps) == ["b1-ring", "b2-ring"]
    assert dataset_rows(dataset, "b1-ring") == library_rows(one[:1], taps["b1-ring"])
    assert dataset_rows(dataset, "b2-ring") == library_rows(other, taps["b2-ring"])
    told = [row for row in dataset_rows(dataset)["problems"] if "unreadable-capture" in row]
    assert len(told) == 1


def test_a_capture_that_is_being_written_is_read_when_that_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=13)
    dataset = tmp_path / "dataset"
    content = Path(paths[1]).read_bytes()
    Path(paths[1]).write_bytes(content[:-900])

    def written_to(path: Path) -> str:
        Path(paths[1]).write_bytes(content)
        return sha256_of(path)

    monkeypatch.setattr("kdissect.dataset.planning.sha256_of", written_to)
    (broken,) = dissect(None, paths[1:], dataset, tables=ALL).broken
    assert broken.message == f"{paths[1]}: is being written; it is read when that is over"
    monkeypatch.undo()
    dissect(None, paths, dataset, tables=ALL)
    assert dataset_rows(dataset) == library_rows(paths)


def test_all_rows_of_an_exchange_are_of_the_day_on_which_its_capture_begins(tmp_path: Path) -> None:
    packets = packets_of(CAPTURES / "quickstart.pcapng")
    midnight = -(-packets[0].time_ns // DAY_NS) * DAY_NS
    # So that the second of three captures spans midnight.
    shift = midnight - packets[len(packets) // 2].time_ns
    packets = [packet._replace(time_ns=packet.time_ns + shift) for packet in packets]
    first_day = dt.datetime.fromtimestamp(midnight // 10**9 - 1, dt.UTC).date().isoformat()
    next_day = dt.datetime.fromtimestamp(midnight // 10**9, dt.UTC).date().isoformat()
    cuts = [0, len(packets) // 3, len(packets) * 2 // 3, len(packets)]
    paths = []
    for number, (first, end) in enumerate(pairwise(cuts)):
        path = tmp_path / f"ring.pcap{number}"
        path.write_bytes(make_pcap(packets[first:end], magic=NANOSECONDS, link_type=1))
        paths.append(str(path))
    dataset = tmp_path / "dataset"
    dissect(None, paths, dataset, tables=ALL)
    assert dataset_rows(dataset) == library_rows(paths)
    days: dict[int, set[str]] = {}
    for file in dataset.glob("*/date=*/tap=ring/*.parquet"):
        date = file.parts[-3].removeprefix("date=")
        rows = ParquetFile(file).read().to_pylist()
        captures = {row["capture"] for row in rows}
        assert captures <= (set(paths[:2]) if date == first_day else {paths[2]})
        for row in rows:
            if row.get("exchange_id") is not None:
                days.setdefault(row["exchange_id"], set()).add(date)
    assert set().union(*days.values()) == {first_day, next_day}
    assert {len(dates) for dates in days.values()} == {1}


def test_files_are_on_disk_before_the_commits_that_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=5)
    dataset = tmp_path / "dataset"
    dissect(None, paths[:1], dataset)
    synced: set[int] = set()
    committed: list[tuple[str, set[int]]] = []
    fsync = os.fsync

    def noted_fsync(file: int) -> None:
        synced.add(os.fstat(file).st_ino)
        fsync(file)

    def noted_commit(table: DeltaTable, *values: Any, **named: Any) -> None:
        committed.append((Path(table.table_uri).name, {*synced}))
        commit(table, *values, **named)

    commit = DeltaTable.create_write_transaction
    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", noted_commit)
    dissect(None, paths, dataset)
    rows = [path for path in dataset.glob("*/date=*/tap=*/*.parquet") if "r000002" in path.name]
    states = list(dataset.glob("_kdissect/states/*/*.state"))
    (begun,) = dataset.glob("runs/000002-*-begun.parquet")
    assert rows
    assert states
    (first, decided), *tables, (last, done) = committed
    assert (first, last) == ("runs", "runs")
    assert len(tables) > 4
    above = {one.parent for one in rows} | {dataset}
    assert {one.stat().st_ino for one in (*rows, *states, begun, *above)} <= decided
    # So is each commit before the next one.
    for (name, _), (_, known) in pairwise(committed):
        log = sorted((dataset / name / "_delta_log").glob("*.json"))[-2 if name == "runs" else -1]
        assert {log.stat().st_ino, log.parent.stat().st_ino} <= known
    assert last == "runs"
    assert {one.stat().st_ino for one in dataset.glob("runs/000002-*")} <= done
