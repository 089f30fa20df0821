"""Spark on versions of a dataset's tables: with kdissect, and without."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from kdissect.spark.dataset_tables import read_table
from kdissect.spark.pipeline import dissect
from tests.spark.rotated import dataset_rows, library_rows, rotate, spark_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow


def rows_of(frame: "DataFrame", table: str) -> list[str]:
    return spark_rows(table, frame.toArrow().to_batches())


def test_a_frame_that_was_made_before_a_run_is_read_after_it(
    spark: "SparkSession", tmp_path: Path
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 3, seed=3)
    dataset = tmp_path / "dataset"
    dissect(None, paths[:1], dataset)
    frames = {1: read_table(spark, dataset, "connections")}
    for end in (2, 3):
        dissect(None, paths[:end], dataset)
        frames[end] = read_table(spark, dataset, "connections")
    for end, frame in frames.items():
        assert rows_of(frame, "connections") == library_rows(paths[:end])["connections"]


def test_spark_reads_the_files_of_a_version_without_kdissect(
    spark: "SparkSession", tmp_path: Path
) -> None:
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=3)
    dataset = tmp_path / "dataset"
    for end in (1, 2):
        dissect(None, paths[:end], dataset)
    for version, end in ((0, 1), (1, 2)):
        table = DeltaTable(dataset / "connections", version=version)
        reader = spark.read.option("basePath", str(dataset / "connections"))
        frame = reader.parquet(*table.file_uris())
        assert rows_of(frame, "connections") == library_rows(paths[:end])["connections"]
        assert {row.tap for row in frame.select("tap").distinct().collect()} == {"ring"}
    assert dataset_rows(dataset)["connections"] == rows_of(frame, "connections")
