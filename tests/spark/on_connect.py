"""A program of its own, as a process has either Spark or Spark Connect: see test_connect."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from kdissect.spark.dataset_tables import read_table
from kdissect.spark.pipeline import dissect
from kdissect.spark.source import KdissectDataSource
from kdissect.spark.streaming import stream
from kdissect.tables.schemas import DEFAULT_TABLES
from tests.spark.rotated import ALL, dataset_rows, library_rows, rotate, spark_rows


def main(directory: Path) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    assert "connect" in type(spark).__module__
    try:
        compare(spark, directory)
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
        stored = read_table(spark, dataset, table).toArrow()
        assert spark_rows(table, stored.to_batches()) == expected[table]
        frame = spark.read.format("kdissect").option("table", table).load(str(directory / "ring"))
        assert spark_rows(table, frame.toArrow().to_batches()) == expected[table]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
