import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdissect.dataset.runs import Dataset
from kdissect.errors import KdissectError
from kdissect.spark.pipeline import Outcome
from tests.spark.rotated import ALL, contents_of, dataset_rows, library_rows, rotate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="streams are PySpark's")
from kdissect.spark.streaming import stream

pytestmark = pytest.mark.slow


def aged(paths: list[str]) -> list[str]:
    """The files, unchanged for a while."""
    then = time.time() - 10_000
    for path in paths:
        os.utime(path, (then, then))
    return paths


class Told:
    """Results of each batch."""

    def __init__(self) -> None:
        self.outcomes: dict[int, Outcome] = {}

    def __call__(self, number: int, outcome: Outcome) -> None:
        assert number not in self.outcomes
        self.outcomes[number] = outcome

    @property
    def captures(self) -> dict[int, int]:
        return {number: outcome.captures for number, outcome in self.outcomes.items()}


def test_available_captures_are_added_batch_by_batch_exactly_once(
    spark: "SparkSession", tmp_path: Path
) -> None:
    ring, dataset, checkpoint = tmp_path / "ring", tmp_path / "dataset", tmp_path / "checkpoint"
    paths = aged(rotate("groups-4.3.1.pcapng", ring, 4, seed=51))
    late = Path(paths[3]).rename(tmp_path / "late")
    sizes = [Path(path).stat().st_size for path in paths[:3]]

    def run() -> Told:
        told = Told()
        stream(
            spark, [ring], dataset, checkpoint, available_now=True, tables=ALL, on_batch=told,
            max_bytes=max(sizes[0] + sizes[1], sizes[2]), split_size=50_000,
        )  # fmt: skip
        return told

    assert run().captures == {0: 2, 1: 1}
    assert dataset_rows(dataset) == library_rows(paths[:3])
    # As if it had been killed before it could write down that the last batch was done.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink()
    late.rename(paths[3])
    torn = ring / "a.pcap"
    torn.write_bytes(b"no capture" * 20)
    aged([str(torn)])
    again = run()
    assert again.captures == {1: 0, 2: 1}
    assert [one.path for one in again.outcomes[2].broken] == [str(torn)]
    rows = dataset_rows(dataset)
    (problem,) = rows.pop("problems")
    assert str(torn) in problem
    assert rows == library_rows(paths)
    assert contents_of(dataset).run == 3


def test_captures_are_brought_in_as_they_come(spark: "SparkSession", tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    made = rotate("groups-4.3.1.pcapng", tmp_path / "made", 2, seed=52)
    ring = tmp_path / "ring"
    ring.mkdir()
    paths = [str(ring / Path(path).name) for path in made]
    Path(made[0]).rename(paths[0])
    Path(paths[1]).touch()  # just begun: so the one before is complete
    told = Told()

    def on_batch(number: int, outcome: Outcome) -> None:
        told(number, outcome)
        if number == 0:
            Path(made[1]).rename(paths[1])
            aged(paths[1:])

    stream(
        spark, [ring], dataset, tmp_path / "checkpoint", interval_s=0.1, tables=ALL,
        on_batch=on_batch, is_over=lambda: len(told.captures) == 2,
    )  # fmt: skip
    assert told.captures == {0: 1, 1: 1}
    assert dataset_rows(dataset) == library_rows(paths)


def test_without_a_session_the_same_is_done_here(tmp_path: Path) -> None:
    ring, dataset = tmp_path / "ring", tmp_path / "dataset"
    paths = aged(rotate("groups-4.3.1.pcapng", ring, 4, seed=54))
    late = Path(paths[3]).rename(tmp_path / "late")
    told = Told()
    stream(None, [ring], dataset, tmp_path / "none", available_now=True, tables=ALL,
           max_bytes=1, on_batch=told)  # fmt: skip
    assert told.captures == {0: 1, 1: 1, 2: 1}
    assert dataset_rows(dataset) == library_rows(paths[:3])
    again = Told()

    def is_over() -> bool:
        if late.exists():
            late.rename(paths[3])
        return bool(again.captures)

    stream(None, [ring], dataset, tmp_path / "none", interval_s=0.01, tables=ALL,
           on_batch=again, is_over=is_over)  # fmt: skip
    assert again.captures == {0: 1}
    assert dataset_rows(dataset) == library_rows(paths)
    assert not (tmp_path / "none").exists()


def test_failing_batch_ends_the_stream_with_its_message(
    spark: "SparkSession", tmp_path: Path
) -> None:
    aged(rotate("groups-4.3.1.pcapng", tmp_path / "ring", 1, seed=53))
    dataset = tmp_path / "dataset"
    with (
        Dataset(dataset),
        pytest.raises(KdissectError, match=r"dataset: another run writes to this dataset$"),
    ):
        stream(spark, [tmp_path / "ring"], dataset, tmp_path / "checkpoint", available_now=True)


def test_a_directory_that_is_not_there_is_an_error(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(KdissectError, match=r"nowhere: no such directory$"):
        stream(spark, [tmp_path / "nowhere"], tmp_path / "dataset", tmp_path / "checkpoint")
