"""The data source in Spark's own tasks."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.spark.rotated import library_rows, rotate, spark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY = "cluster-3.9.1.pcapng"
pytestmark = pytest.mark.slow


@pytest.fixture
def unregistered(spark: "SparkSession") -> "SparkSession":
    """A session that finds the data source by itself."""
    return spark.newSession()


def test_a_large_tap_is_read_by_several_tasks(unregistered: "SparkSession", tmp_path: Path) -> None:
    paths = rotate(MANY, tmp_path / "ring", 3, seed=24)
    size = sum(Path(path).stat().st_size for path in paths) // 5
    reader = (
        unregistered.read.format("kdissect")
        .option("splitSize", str(size))
        .option("staging", str(tmp_path / "staging"))
    )
    for table in ("exchanges", "partitions"):
        frame = reader.option("table", table).load(str(tmp_path / "ring"))
        expected = library_rows(paths, tables=(table,))[table]
        # A query that ends early leaves unprocessed parts.
        assert len(frame.limit(3).collect()) == 3
        assert spark_rows(table, frame.toArrow().to_batches()) == expected
    assert frame.coalesce(1).count() == len(expected)


def test_a_stream_goes_on_where_it_was_and_gives_no_row_twice(
    unregistered: "SparkSession", tmp_path: Path
) -> None:
    paths = rotate(MANY, tmp_path / "ring", 3, seed=135)
    last = tmp_path / "last"
    Path(paths[2]).rename(last)
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"

    def run() -> list[int]:
        """The number of rows in each batch."""
        query = (
            unregistered.readStream.format("kdissect")
            .option("state", str(tmp_path / "state"))
            .option("quiet", "0")
            .option("maxFilesPerTrigger", "1")
            .load(str(tmp_path / "ring"))
            .writeStream.format("parquet")
            .option("path", str(out))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)
        return [one.numInputRows for one in query.recentProgress if one.numInputRows]

    def rows() -> list[str]:
        return spark_rows("exchanges", (pa.parquet.read_table(file) for file in files()))

    def files() -> list[Path]:
        return sorted(out.glob("*.parquet"))

    assert len(run()) == 2
    last.rename(paths[2])
    assert len(run()) == 1
    expected = library_rows(paths, tables=("exchanges",))["exchanges"]
    found = rows()
    # Open connections at the end are in the state.
    assert set(found) <= set(expected)
    assert len(set(found)) == len(found)
    assert 0 < len(expected) - len(found) < 30
    # The last batch is done again from the same state, and is the same.
    for log in (checkpoint / "commits", out / "_spark_metadata"):
        (log / "2").unlink()
        (log / ".2.crc").unlink()
    max(files(), key=lambda file: file.stat().st_mtime_ns).unlink()
    assert len(rows()) < len(found)
    assert len(run()) == 1
    assert rows() == found
