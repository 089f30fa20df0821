"""The data source in Spark's own tasks."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.rotated import library_rows, rotate, spark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY = "cluster-3.9.1.pcapng"
pytestmark = pytest.mark.slow


@pytest.fixture
def registered(spark: "SparkSession") -> "SparkSession":
    from kdissect.spark.source import KdissectDataSource

    spark.dataSource.register(KdissectDataSource)
    return spark


def test_a_large_tap_is_read_by_several_tasks(registered: "SparkSession", tmp_path: Path) -> None:
    paths = rotate(MANY, tmp_path / "ring", 3, seed=24)
    size = sum(Path(path).stat().st_size for path in paths) // 5
    reader = (
        registered.read.format("kdissect")
        .option("pieceSize", str(size))
        .option("staging", str(tmp_path / "staging"))
    )
    for table in ("exchanges", "partitions"):
        frame = reader.option("table", table).load(str(tmp_path / "ring"))
        expected = library_rows(paths, tables=(table,))[table]
        # A query that ends early leaves parts that nobody has made.
        assert len(frame.limit(3).collect()) == 3
        assert spark_rows(table, frame.toArrow().to_batches()) == expected
    assert frame.coalesce(1).count() == len(expected)
