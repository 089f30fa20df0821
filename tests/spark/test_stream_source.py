import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="what it reads with is a class of PySpark's")

from kdissect.dataset.new_files import BATCH, FILES, NewFiles
from kdissect.spark.pipeline import dissect
from kdissect.spark.stream_source import CompleteFiles
from tests.spark.rotated import rotate

OLD = 10_000


def reader(ring: Path, dataset: Path, max_bytes: int = 1 << 40) -> CompleteFiles:
    return CompleteFiles(NewFiles([str(ring)], str(dataset), None, 60.0, max_bytes))


def aged(paths: list[str]) -> list[str]:
    """The files, unchanged for a while."""
    then = time.time() - OLD
    for path in paths:
        os.utime(path, (then, then))
    return paths


def batches(made: CompleteFiles, start: dict[str, Any]) -> list[list[str]]:
    found = []
    while (end := made.latestOffset(start, made.getDefaultReadLimit())) != start:
        (partition,) = made.partitions(start, end)
        (rows,) = made.read(partition)
        found.append(rows["path"].to_pylist())
        assert (end[BATCH], end[FILES]) == (start[BATCH] + 1, found[-1])
        start = end
    return found


def test_files_come_in_batches_of_some_size_by_their_first_times(tmp_path: Path) -> None:
    one = aged(rotate("groups-4.3.1.pcapng", tmp_path / "b1", 3, seed=1))
    other = aged(rotate("sasl-4.3.1.pcapng", tmp_path / "b2", 2, seed=2))
    every = sorted([*one, *other], key=lambda path: Path(path).stat().st_size)
    source = [str(tmp_path / "b1"), str(tmp_path / "b2")]
    limit = Path(every[-1]).stat().st_size
    made = CompleteFiles(NewFiles(source, str(tmp_path / "dataset"), None, 60.0, limit))
    found = batches(made, made.initialOffset())
    assert sorted(path for batch in found for path in batch) == sorted(every)
    assert [path for batch in found for path in batch if path in one] == one
    assert [path for batch in found for path in batch if path in other] == other
    for batch in found:
        sizes = [Path(path).stat().st_size for path in batch]
        assert len(batch) == 1 or sum(sizes) <= limit
    for earlier, later in pairwise(found):
        sizes = [Path(path).stat().st_size for path in [*earlier, later[0]]]
        assert sum(sizes) > limit


def test_a_file_that_is_not_complete_waits(tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=1)
    made = reader(tmp_path / "ring", tmp_path / "dataset")
    assert batches(made, made.initialOffset()) == [paths[:2]]
    aged(paths[2:])
    assert batches(made, {BATCH: 1, FILES: paths[:2]}) == [paths[2:]]


def test_source_returns_only_files_that_the_dataset_lacks(tmp_path: Path) -> None:
    paths = aged(rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=1))
    dataset = tmp_path / "dataset"
    first = reader(tmp_path / "ring", dataset)
    assert batches(first, first.initialOffset()) == [paths]
    dissect(None, paths[:2], dataset)
    # Another one, after a restart, whose offsets show that all were given.
    second = reader(tmp_path / "ring", dataset)
    assert batches(second, {BATCH: 1, FILES: paths}) == [paths[2:]]


def test_a_file_that_has_changed_is_given_again(tmp_path: Path) -> None:
    paths = aged(rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=1))
    made = reader(tmp_path / "ring", tmp_path / "dataset")
    assert batches(made, made.initialOffset()) == [paths]
    content = Path(paths[1]).read_bytes()
    Path(paths[1]).write_bytes(content + content[-1:])
    aged(paths[1:])
    assert batches(made, made.initialOffset()) == [paths[1:]]


def test_available_now_ignores_files_created_later(tmp_path: Path) -> None:
    paths = aged(rotate("groups-4.3.1.pcapng", tmp_path / "ring", 4, seed=1))
    late = Path(paths[3]).rename(tmp_path / "late")
    made = reader(tmp_path / "ring", tmp_path / "dataset", max_bytes=1)
    made.prepareForTriggerAvailableNow()
    start = made.initialOffset()
    end = made.latestOffset(start, made.getDefaultReadLimit())
    late.rename(paths[3])
    assert end == {BATCH: 1, FILES: paths[:1]}
    assert batches(made, end) == [[paths[1]], [paths[2]]]


def test_a_torn_capture_is_given_too_behind_the_others(tmp_path: Path) -> None:
    paths = aged(rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=1))
    torn = tmp_path / "ring" / "a.pcap"
    torn.write_bytes(b"no capture" * 20)
    made = reader(tmp_path / "ring", tmp_path / "dataset")
    assert batches(made, made.initialOffset()) == [paths]
    aged([str(torn)])
    assert batches(made, {BATCH: 1, FILES: paths}) == [[str(torn)]]
