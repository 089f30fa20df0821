"""One capture, every way to read it, the same rows: metamorphic, over mutated captures.

Packets are lost, reordered, cut and doubled, and the clock is set. The ways are one pass, splits,
those that `--jobs` makes, rotated files, a live replay, and a dataset. Seeds are drawn, and printed
when a test fails. `tests.spark.test_mutated_captures` does the same on Spark.
"""

import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow import parquet

import kdissect
from kdissect.capture import speculative_splits
from kdissect.capture.speculative_splits import look_at
from kdissect.checkpoint import run_choice
from kdissect.checkpoint.jobs import Shared
from kdissect.checkpoint.merged_run import MergedRun
from kdissect.checkpoint.run_choice import find_splits
from kdissect.checkpoint.worker_pool import WorkerPool
from kdissect.pipeline import Run
from kdissect.spark.pipeline import dissect
from kdissect.tables.schemas import TABLES
from tests.checkpoint.law import (
    CAPTURES,
    OPTIONS,
    link_type_of,
    read_packets,
    sorted_rows,
    together,
    whole,
)
from tests.checkpoint.mutations import (
    drawn_packets,
    fresh_seed,
    in_files,
    mutated,
    said,
    with_steps,
    written,
)
from tests.live.replays import only_run, read_run, replay, rows_of
from tests.plain_rows import plain_rows
from tests.recovery.faults import CLASSES
from tests.spark.rotated import dataset_rows, library_rows

ALL: Final = tuple(TABLES)
# Where a packet lies: another file, and another number in it.
PLACES: Final = frozenset(
    ("capture", "first_packet", "request_packet", "response_packet", "packet_number")
)
ETHERNET: Final = 1
ID: Final = re.compile(r"(?<![^ ])[A-Za-z0-9_-]{22}(?=:)")  # of a topic, in an assignment
ROTATIONS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"every_s": 2, "flush_s": 0.5},
    {"size": 40_000},
)
NAMES: Final = sorted(path.name for path in CAPTURES.glob("*.pcap*"))


def check_splits(path: Path, source: random.Random) -> None:
    size = path.stat().st_size
    expected = whole([str(path)])
    for _ in range(2):
        found = together([str(path)], source.randrange(max(64, size // 8), size))[0]
        assert found.tables == expected.tables
        assert found.balance == expected.balance


def check_speculative_splits(path: Path, source: random.Random) -> None:
    look = look_at(str(path))
    assert look is not None
    splits = find_splits([str(path)], look, path.stat().st_size, source.randrange(2, 6))
    if not splits:
        return  # too small, or its times overlap: it is read in one pass
    run = MergedRun(Shared(splits, OPTIONS, [str(path)], WorkerPool(0), dict), OPTIONS, [str(path)])
    expected = whole([str(path)])
    assert sorted_rows(run) == expected.tables
    assert run.balance == expected.balance


def check_rotated_files(path: Path, source: random.Random) -> None:
    packets = read_packets(str(path))
    parts = in_files(packets, path.parent, link_type_of(str(path)), source)
    source.shuffle(parts)
    assert placeless(parts) == placeless([str(path)])


def check_live_replay(path: Path, source: random.Random) -> None:
    intervals: dict[str, Any] = source.choice(
        ({}, {"every_s": 2, "flush_s": 0.5}, {"size": 40_000})
    )
    directory = path.with_name("live")
    replay(path, directory, ALL, count=source.randrange(1, 100), **intervals)
    made, _ = kdissect.write(path, path.with_name("whole"), tables=ALL)
    whole_rows = {table: parquet.ParquetFile(file).read() for table, (file, _) in made.items()}
    names = names_in(whole_rows.values()) if intervals else {}
    for table, expected in whole_rows.items():
        found = named(read_run(only_run(directory), table), names)
        assert rows_of(found) == rows_of(expected), table


def names_in(tables: Iterable[pa.Table]) -> dict[str, str]:
    """Names of topics by their ids."""
    of_topics = [rows for rows in tables if "topic_id" in rows.schema.names]
    pairs = (
        pair
        for rows in of_topics
        for pair in zip(rows["topic_id"].to_pylist(), rows["topic"].to_pylist(), strict=True)
    )
    return {topic_id: name for topic_id, name in pairs if topic_id and name}


def named(rows: pa.Table, names: dict[str, str]) -> pa.Table:
    """Rows with the names that were told after their file was closed, which has ids alone."""
    made = {}
    if "topic" in rows.schema.names:
        both = zip(rows["topic"].to_pylist(), rows["topic_id"].to_pylist(), strict=True)
        made["topic"] = [names.get(by_id) if name is None else name for name, by_id in both]
    if "assignment" in rows.schema.names:
        texts = rows["assignment"].to_pylist()
        made["assignment"] = [
            text and ID.sub(lambda found: names.get(found[0], found[0]), text) for text in texts
        ]
    for name, values in made.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pa.array(values, pa.string()))
    return rows


def check_dataset(path: Path, source: random.Random) -> None:
    dataset = path.with_name("dataset")
    size = source.randrange(max(20_000, path.stat().st_size // 8), 1 << 20)
    dissect(None, [str(path)], dataset, tables=ALL, split_size=size)
    assert dataset_rows(dataset) == library_rows([str(path)])


WAYS: Final[dict[str, Callable[[Path, random.Random], None]]] = {
    "splits": check_splits,
    "speculative splits": check_speculative_splits,
    "rotated files": check_rotated_files,
    "live replay": check_live_replay,
    "dataset": check_dataset,
}


def placeless(paths: list[str]) -> dict[str, list[str]]:
    """Rows of all tables without the places of packets in files."""
    found: dict[str, list[str]] = {}
    for table, batch in Run(paths, OPTIONS):
        rows = plain_rows(batch)
        found.setdefault(table, []).extend(
            repr({name: value for name, value in row.items() if name not in PLACES}) for row in rows
        )
    return {table: sorted(rows) for table, rows in found.items()}


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_choice, "SMALLEST_SPLIT", 1_000)
    monkeypatch.setattr(run_choice, "SMALLEST_PACKETS", 1)
    monkeypatch.setattr(speculative_splits, "LOOK", 2_000)


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", sorted(CLASSES))
@pytest.mark.sweep
def test_a_faulty_capture_gives_the_same_rows_every_way(
    fault: str, way: str, tmp_path: Path
) -> None:
    seed, source = fresh_seed()
    path = tmp_path / "faulty.pcap"
    written(with_steps(drawn_packets(fault, source), source), path, ETHERNET)
    with said(seed):
        WAYS[way](path, source)


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sweep
@pytest.mark.slow
def test_a_mutated_capture_gives_the_same_rows_every_way(
    name: str, way: str, tmp_path: Path
) -> None:
    seed, source = fresh_seed()
    capture = str(CAPTURES / name)
    packets = mutated(read_packets(capture), source)
    path = tmp_path / "mutated.pcap"
    written(with_steps(packets, source), path, link_type_of(capture))
    with said(seed):
        WAYS[way](path, source)
