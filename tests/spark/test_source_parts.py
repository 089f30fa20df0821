"""The data source's tasks in this process: in any order, their rows are the library's."""

import ast
import json
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdissect.capture.pcap import NANOSECONDS
from kdissect.capture.splits import Split, plan
from kdissect.checkpoint.boundary_state import BoundaryState
from kdissect.dataset import shared_staging
from kdissect.dataset.shared_staging import KEPT_S, Staging
from kdissect.errors import OutputError
from kdissect.exchanges.connection_state import EXCHANGES_PER_PACKET
from tests.capture.writers import make_pcap
from tests.spark.rotated import ALL, CAPTURES, library_rows, packets_of, rotate, spark_rows

pytest.importorskip("pyspark")

from kdissect.dataset.writer_identity import this_process
from kdissect.spark.source import KdissectDataSource
from kdissect.spark.source_parts import PartPartition, PartTask
from tests.seeds import SEED

if TYPE_CHECKING:
    from kdissect.spark.source import KdissectReader

EVERY = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.glob("**/*.pcap*"))
MANY = "cluster-3.9.1.pcapng"
BARRIER_S = 120  # generous: a task begins in a second


def reader_of(sources: str, table: str, staging: Path, size: int, **more: str) -> "KdissectReader":
    options = {"table": table, "path": sources, "staging": str(staging), "splitSize": str(size)}
    source = KdissectDataSource({**options, **more})
    return source.reader(source.schema())


def rows_of(reader: "KdissectReader", chance: random.Random) -> list[str]:
    partitions = list(reader.partitions())
    chance.shuffle(partitions)
    return spark_rows(
        reader.table, (batch for partition in partitions for batch in reader.read(partition))
    )


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("capture", EVERY)
def test_parts_in_any_order_give_the_rows_of_the_library(capture: str, tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} {capture}")
    paths = rotate(capture, tmp_path / "ring", chance.randint(1, 4), seed=chance.randint(0, 999))
    size = total_of(paths) // chance.randint(3, 7)
    table = chance.choice(ALL)
    reader = reader_of(str(tmp_path / "ring"), table, tmp_path / "staging", size)
    assert len(reader.partitions()) > 1
    assert rows_of(reader, chance) == library_rows(paths, tables=(table,)).get(table, [])


def total_of(paths: list[str]) -> int:
    return sum(Path(path).stat().st_size for path in paths)


@pytest.fixture
def ring(tmp_path: Path) -> tuple[list[str], int]:
    """Three rotated files, and a size that cuts them into some parts."""
    paths = rotate(MANY, tmp_path / "ring", 3, seed=24)
    return paths, total_of(paths) // 6


def test_rows_with_a_late_topic_name_come_with_the_last_part(tmp_path: Path) -> None:
    packets = packets_of(CAPTURES / "incident-slow-poller-4.3.1.pcapng")[332:1996]
    path = tmp_path / "late.pcap"
    path.write_bytes(make_pcap(packets, magic=NANOSECONDS, link_type=1))
    reader = reader_of(str(path), "partitions", tmp_path / "staging", path.stat().st_size // 8)
    partitions = list(reader.partitions())
    rows = [spark_rows("partitions", reader.read(partition)) for partition in partitions]
    expected = library_rows([str(path)], tables=("partitions",))["partitions"]
    assert sorted(row for some in rows for row in some) == expected
    assert isinstance(partitions[1], PartPartition)
    second_id = partitions[1].parts[1][0].ordinal * int(EXCHANGES_PER_PACKET)
    late = [row for row in map(ast.literal_eval, rows[-1]) if row["exchange_id"] < second_id]
    assert {(row["topic"] is None, row["topic_id"] is None) for row in late} == {(False, False)}


def test_concurrent_tasks_reuse_each_others_states(
    ring: tuple[list[str], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, size = ring
    reader = reader_of(str(tmp_path / "ring"), "partitions", tmp_path / "staging", size)
    dissected: list[int] = []
    dissect = PartTask.dissect

    partitions = reader.partitions()
    # Each works on its own part before any looks at those of the others.
    all_work = threading.Barrier(len(partitions), timeout=BARRIER_S)
    begun: set[int] = set()

    def counted(self: PartTask, split: Split, to: Path) -> BoundaryState:
        dissected.append(split.ordinal)
        if threading.get_ident() not in begun:
            begun.add(threading.get_ident())
            all_work.wait()
        return dissect(self, split, to)

    monkeypatch.setattr(PartTask, "dissect", counted)
    # Threads of a process are one to each other, as far as `Staging` is concerned.
    monkeypatch.setattr(shared_staging, "is_over", lambda _: False)
    with ThreadPoolExecutor(len(partitions)) as pool:
        found = pool.map(lambda one: spark_rows("partitions", reader.read(one)), partitions)
        rows = [row for some in found for row in some]
    assert sorted(rows) == library_rows(paths, tables=("partitions",))["partitions"]
    assert len(partitions) >= 4
    assert sorted(dissected) == sorted({split.ordinal for split in plan(paths, size)})
    (directory,) = (tmp_path / "staging").iterdir()
    assert sorted({file.suffix for file in directory.iterdir()}) == [".nameless", ".state"]


def test_tasks_that_share_no_directory_give_the_same(
    ring: tuple[list[str], int], tmp_path: Path
) -> None:
    paths, size = ring
    reader = reader_of(str(tmp_path / "ring"), "exchanges", tmp_path / "staging", size)
    partitions = [
        replace(one, staging=str(tmp_path / f"machine-{one.number}"))
        for one in reader.partitions()
        if isinstance(one, PartPartition)
    ]
    rows = spark_rows("exchanges", (batch for one in partitions for batch in reader.read(one)))
    assert rows == library_rows(paths, tables=("exchanges",))["exchanges"]


def test_a_part_of_a_dead_task_is_made_by_its_readers(
    ring: tuple[list[str], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, size = ring
    reader = reader_of(str(tmp_path / "ring"), "exchanges", tmp_path / "staging", size)
    monkeypatch.setattr(shared_staging, "STALE_S", 0.2)
    partitions = reader.partitions()
    assert isinstance(partitions[1], PartPartition)
    staging = Staging(Path(partitions[1].staging))
    # One was on this machine, one on another that cannot be reached.
    here = this_process()
    staging.write(0, "alive", json.dumps({**here, "process": 2**22 + 1}).encode())
    staging.write(1, "alive", json.dumps({**here, "host": "elsewhere"}).encode())
    assert (staging.is_alive(0), staging.is_alive(1)) == (False, True)
    second = spark_rows("exchanges", reader.read(partitions[2]))
    assert staging.has(1, "state")
    rest = [reader.read(one) for number, one in enumerate(partitions) if number != 2]
    rows = spark_rows("exchanges", (batch for some in rest for batch in some))
    assert sorted([*rows, *second]) == library_rows(paths, tables=("exchanges",))["exchanges"]


def test_each_question_has_a_directory_of_its_own(
    ring: tuple[list[str], int], tmp_path: Path
) -> None:
    paths, size = ring

    def staging_of(table: str, **more: str) -> str:
        first = reader_of(paths[0], table, tmp_path / "staging", size // 2, **more).partitions()[0]
        assert isinstance(first, PartPartition)
        return first.staging

    places = [
        staging_of("exchanges"),
        staging_of("partitions"),
        staging_of("exchanges", ports="9999"),
    ]
    assert staging_of("exchanges") == places[0]
    os.utime(paths[0], ns=(1, 1))
    places.append(staging_of("exchanges"))
    assert len(set(places)) == 4


def test_a_directory_of_another_user_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "kdissect-of-mallory"
    directory.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: directory.stat().st_uid + 1)
    with pytest.raises(OutputError, match="kdissect-of-mallory: of another user"):
        Staging(directory)


def test_old_directories_are_removed(ring: tuple[list[str], int], tmp_path: Path) -> None:
    _, size = ring
    base = tmp_path / "staging"
    old, new, other = base / f"kdissect-{'0' * 32}", base / f"kdissect-{'1' * 32}", base / "mine"
    for directory in (old, new, other):
        directory.mkdir(parents=True)
        (directory / "000000.state").touch()
    for directory in (old, other):
        os.utime(directory, (time.time() - KEPT_S - 9, time.time() - KEPT_S - 9))
    reader_of(str(tmp_path / "ring"), "exchanges", base, size).partitions()
    assert (old.exists(), new.exists(), other.exists()) == (False, True, True)


def test_a_vanished_capture_is_reported_by_its_parts(
    ring: tuple[list[str], int], tmp_path: Path
) -> None:
    paths, size = ring
    reader = reader_of(str(tmp_path / "ring"), "problems", tmp_path / "staging", size)
    partitions = reader.partitions()
    Path(paths[2]).unlink()
    told = [
        row["kind"]
        for one in partitions
        for batch in reader.read(one)
        for row in batch.to_pylist()
        if row["capture"] == paths[2]
    ]
    # Each of its parts tells.
    assert set(told) == {"unreadable-capture"}
