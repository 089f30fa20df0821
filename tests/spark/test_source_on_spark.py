"""The data source in Spark's own tasks."""

import ast
from datetime import UTC, datetime
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


def test_filters_prune_taps_and_times_and_a_plain_session_takes_the_same_reader(
    unregistered: "SparkSession", tmp_path: Path
) -> None:
    paths = {name: rotate(MANY, tmp_path / name, 2, seed=24) for name in ("one", "two")}
    expected = library_rows(paths["two"], tables=("exchanges",))["exchanges"]
    starts = sorted(ast.literal_eval(row)["request_start_ns"] for row in expected)
    middle = datetime.fromtimestamp(starts[len(starts) // 2] / 1e9, UTC)
    schema = "tap string, day date, request_start timestamp, exchange_id bigint"
    frame = unregistered.read.format("kdissect").schema(schema).load(str(tmp_path / "*"))
    conditions = [
        "tap = 'two-ring'",
        f"tap = 'two-ring' AND request_start >= timestamp'{middle.isoformat()}'",
        f"day = date'{middle.date()}' AND tap = 'two-ring'",
        "day < date'2000-01-01'",
    ]
    found = []
    for is_pushed in ("false", "true"):
        unregistered.conf.set("spark.sql.python.filterPushdown.enabled", is_pushed)
        rows = [sorted(frame.where(one).collect()) for one in conditions]
        tasks = [frame.where(one).rdd.getNumPartitions() for one in conditions]
        found.append(rows)
        assert tasks == ([1, 1, 1, 2] if is_pushed == "true" else [2, 2, 2, 2])
    assert found[0] == found[1]
    assert [len(rows) for rows in found[0]] == [
        len(expected),
        sum(one >= starts[len(starts) // 2] for one in starts),
        len(expected),
        0,
    ]


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
