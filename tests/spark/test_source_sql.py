"""The data source as Spark's own ones: DDL, comments, modes, filters; found by its name alone."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdissect.tables.schemas import TABLES
from tests.spark.rotated import library_rows, rotate, spark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def columns_of(session: "SparkSession", table: str) -> list[str]:
    return [column.name for column in session.catalog.listColumns(table)]


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
    made = session.catalog.createTable("kept", source="kdissect", table="errors")
    assert made.columns == list(session.table("kept").columns) == columns_of(session, "kept")
    try:
        assert session.catalog.tableExists("kept")
        assert session.catalog.getTable("kept").tableType == "MANAGED"
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
        session.sql("CREATE TABLE other USING kdissect OPTIONS (table 'connections')")
        assert (
            columns_of(session, "other")[:2]
            == [column.name for column in TABLES["connections"].columns][:2]
        )
    finally:
        session.sql("DROP TABLE kept")
        session.sql("DROP TABLE IF EXISTS other")
    assert not session.catalog.tableExists("kept")
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
    source_of = session.read.format("kdissect").option("table", "exchanges")
    found, plans = [], []
    for is_pushed in ("false", "true"):
        session.conf.set("spark.sql.python.filterPushdown.enabled", is_pushed)
        frame = source_of.load(source).where("api = 'Fetch' AND latency_ns > 1000000")
        plans.append(frame._jdf.queryExecution().executedPlan().toString())
        found.append(sorted(frame.collect(), key=str))
    assert ["1000000" in plan.partition("BatchScan")[0] for plan in plans] == [True, False]
    assert found[0] == found[1] != []
