"""Full disks; RLIMIT_FSIZE simulates a disk that is full for large files."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kdissect.dataset import tasks
from kdissect.errors import KdissectError
from kdissect.spark.pipeline import dissect
from tests.spark.rotated import ALL, contents_of, dataset_rows, library_rows, rotate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_at_any_moment_leaves_the_dataset_as_it_was(tmp_path: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=71)
    dataset = tmp_path / "dataset"
    dissect(None, paths[:1], dataset, tables=ALL)
    before = dataset_rows(dataset)
    for size in (100, 2000, 5000, 10_000, 20_000, 40_000):
        with (
            pytest.raises((KdissectError, OSError), match="File too large"),
            largest_file(size),
        ):
            dissect(None, paths, dataset, tables=ALL)
        assert dataset_rows(dataset) == before
        assert len(contents_of(dataset).taps[0].captures) == 1
    dissect(None, paths, dataset, tables=ALL)
    assert dataset_rows(dataset) == library_rows(paths)


def test_an_executor_with_a_full_disk_is_tried_again(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=72)
    monkeypatch.setattr("kdissect.spark.steps.FEW_ROW_BYTES", 0)
    for name in ("dissect_part", "publish"):
        once = full(getattr(tasks, name), tmp_path / name, is_always=False)
        monkeypatch.setattr(f"kdissect.spark.steps.{name}", once)
    dissect(spark, paths, tmp_path / "dataset", tables=ALL)
    assert dataset_rows(tmp_path / "dataset") == library_rows(paths)
    assert (tmp_path / "publish").exists()


def test_a_disk_that_stays_full_is_one_line(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=72)
    dataset = tmp_path / "dataset"
    always = full(tasks.dissect_part, tmp_path / "mark", is_always=True)
    monkeypatch.setattr("kdissect.spark.steps.dissect_part", always)
    with pytest.raises(KdissectError, match=r"^Spark: .*File too large[^\n]*$"):
        dissect(spark, paths, dataset, tables=ALL)
    monkeypatch.undo()
    assert list(dataset.glob("_kdissect/run-*")) == []
    dissect(spark, paths, dataset, tables=ALL)
    assert dataset_rows(dataset) == library_rows(paths)


def full(function: Callable[..., Any], mark: Path, is_always: bool) -> Callable[..., Any]:
    """Make writing fail where the task runs, always or the first time."""

    def tried(*values: Any) -> Any:
        if mark.exists() and not is_always:
            return function(*values)
        mark.touch()
        with largest_file(3000):
            return function(*values)

    return tried
