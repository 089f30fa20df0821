"""The data source as Spark's own ones: DDL, comments, modes, filters; found by its name alone."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdissect.tables.schemas import TABLES
from tests.spark.rotated import library_rows, rotate, spark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_tables_of_sql_comments_modes_and_filters(spark: "SparkSession", tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    session = spark.newSession()  # it has nothing registered
    paths = rotate("groups-4.3.1.pcapng", tmp_path / "ring", 2, seed=3)
    expected = library_rows(paths)["exchanges"]
    session.sql(f"CREATE TEMPORARY VIEW captured USING kdissect OPTIONS (path '{tmp_path}/ring')")
    frame = session.table("captured")
    assert spark_rows("exchanges", frame.toArrow().to_batches()) == expected
    described = {row.col_name: row.comment for row in session.sql("DESCRIBE captured").collect()}
    for column in TABLES["exchanges"].columns:
        assert str(described[column.name]).startswith(column.meaning)
    assert described["latency_ns"].endswith(" [ns]")
    counted = session.sql("SELECT count(*) FROM captured WHERE api = 'Fetch'").collect()
    assert counted[0][0] == sum("'api': 'Fetch'" in row for row in expected)
    # A table of the catalogue: Spark 4.3 passes on the options of the query only.
    session.sql("CREATE TABLE kept USING kdissect OPTIONS (table 'errors')")
    try:
        found = session.sql(
            f"FROM kept WITH ('captures' = '{tmp_path}/ring', 'table' = 'errors') |> "
            "AGGREGATE count(*)"
        )
        assert found.collect()[0][0] == len(library_rows(paths)["errors"])
        (comment,) = {row.comment for row in session.sql("DESCRIBE kept").collect()
                      if row.col_name == "is_retriable"}  # fmt: skip
        assert comment == next(
            one.meaning for one in TABLES["errors"].columns if one.name == "is_retriable"
        )
    finally:
        session.sql("DROP TABLE kept")
    (tmp_path / "ring" / "broken.pcap").write_bytes(b"no capture")
    reader = session.read.format("kdissect")
    source = str(tmp_path / "ring")
    assert spark_rows("exchanges", reader.load(source).toArrow().to_batches()) == expected
    with pytest.raises(PySparkException, match=r"broken\.pcap"):
        session.read.format("kdissect").option("mode", "FAILFAST").load(source).collect()
    with pytest.raises(PySparkException, match="mode is PERMISSIVE or FAILFAST"):
        session.read.format("kdissect").option("mode", "LAX").load(source).collect()
    columns = "api string, capture string, _corrupt_capture string, tap string"
    rows = session.read.format("kdissect").schema(columns).load(source).collect()
    (bad,) = [row for row in rows if row["_corrupt_capture"] is not None]
    assert (bad.api, bad.capture, bad.tap) == (None, f"{source}/broken.pcap", None)
    assert "broken.pcap" in bad["_corrupt_capture"]
    assert len(rows) == len(expected) + 1
    # A filter that the source has taken is in no plan of Spark's, and the rows are the same.
    for table, condition in (("exchanges", "api = 'Fetch' AND latency_ns > 1000000"),):
        plain = reader.option("table", table).load(source).where(condition)
        pushing = session.read.format("kdissect").option("table", table)
        pushed = pushing.option("pushFilters", "true").load(source).where(condition)
        plans = [one._jdf.queryExecution().executedPlan().toString() for one in (plain, pushed)]
        assert ["1000000" in plan.partition("BatchScan")[0] for plan in plans] == [True, False]
        assert sorted(plain.collect(), key=str) == sorted(pushed.collect(), key=str)
        assert plain.count() > 0
