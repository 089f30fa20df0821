"""A program of its own, as a process has either Spark or Spark Connect: see test_connect."""

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kdissect import KdissectError, analyse
from kdissect.spark.arrow_rows import to_arrow
from kdissect.spark.dataset_tables import read_table
from kdissect.spark.pipeline import dissect
from kdissect.spark.sessions import session
from kdissect.spark.single_task import SETTING
from kdissect.spark.source import KdissectDataSource
from kdissect.spark.streaming import stream
from kdissect.tables.schemas import DEFAULT_TABLES
from tests.spark.rotated import ALL, dataset_rows, library_rows, rotate, spark_rows


def main(directory: Path) -> None:
    spark = session()  # of SPARK_REMOTE
    assert "connect" in type(spark).__module__
    try:
        compare(spark, directory)
        compare_answers(spark, directory / "dataset")
        spark.conf.set(SETTING, "0")
        compare_answers(spark, directory / "dataset")
    finally:
        spark.stop()


def compare(spark: SparkSession, directory: Path) -> None:
    paths = rotate("groups-4.3.1.pcapng", directory / "ring", 3, seed=41)
    dataset = directory / "dataset"
    dissect(spark, paths[:2], dataset, tables=ALL)
    dissect(spark, paths, dataset, tables=ALL)
    expected = library_rows(paths)
    assert dataset_rows(dataset) == expected
    streamed = directory / "streamed"
    stream(spark, [directory / "ring"], streamed, "none", available_now=True, quiet_s=0)
    assert dataset_rows(streamed) == library_rows(paths, tables=DEFAULT_TABLES)
    spark.dataSource.register(KdissectDataSource)
    for table in ("exchanges", "partitions"):
        stored = to_arrow(read_table(spark, dataset, table))
        assert spark_rows(table, stored.to_batches()) == expected[table]
        frame = spark.read.format("kdissect").option("table", table).load(str(directory / "ring"))
        assert spark_rows(table, to_arrow(frame).to_batches()) == expected[table]


def compare_answers(spark: SparkSession, dataset: Path) -> None:
    """Questions have DuckDB's rows, a wrong condition is one error, and no view is left."""
    for name, where in (("slowest", "api <> 'Metadata'"), ("clients", None)):
        found = analyse(name, dataset, session=spark, where=where).to_arrow()
        assert found.num_rows > 0
        assert found.equals(analyse(name, dataset, where=where).to_arrow())
    wrong = r"--where 'no_such > 1': \[UNRESOLVED_COLUMN.WITH_SUGGESTION\] A col"
    with pytest.raises(KdissectError, match=wrong):
        analyse("slowest", dataset, session=spark, where="no_such > 1")
    assert spark.catalog.listTables() == []


if __name__ == "__main__":
    main(Path(sys.argv[1]))
