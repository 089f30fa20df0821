"""Spark 4.3's preview of timestamps with nanoseconds, and the tables that ``dissect`` writes.

PySpark has no type for them yet: such a column is selected as something else.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.spark.single_task import SETTING
from kdissect.spark.spark_tables import configured
from tests.seeds import SEED
from tests.spark.conftest import Tables
from tests.spark.test_same_answers import differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREVIEW = "spark.sql.timestampNanosTypes.enabled"
AS_NUMBERS = "spark.sql.legacy.parquet.nanosAsLong"
CAPTURE = Path(__file__).parents[2] / "captures" / "quickstart.pcapng"


@pytest.fixture
def preview(spark: "SparkSession") -> "Iterator[SparkSession]":
    """A plain session of Spark's with the preview."""
    plain = spark.newSession()
    with configured(
        plain, {PREVIEW: "true", AS_NUMBERS: "false", "spark.sql.session.timeZone": "UTC"}
    ):
        yield plain


@pytest.mark.parametrize("table", ["exchanges", "connections", "batches"])
def test_times_are_read_with_all_digits(
    preview: "SparkSession", tables: Tables, table: str
) -> None:
    path = tables.of(CAPTURE.stem) / f"{table}.parquet"
    expected = pq.read_table(path)
    times = [field.name for field in expected.schema if pa.types.is_timestamp(field.type)]
    assert times
    preview.read.parquet(str(path)).createOrReplaceTempView("rows")
    columns = ", ".join(f"CAST(unix_nanos({name}) AS BIGINT) AS {name}" for name in times)
    found = preview.sql(f"SELECT {columns} FROM rows").collect()  # noqa: S608  # ours
    for name in times:
        assert [row[name] for row in found] == expected[name].cast(pa.int64()).to_pylist(), name


def test_they_are_compared_with_all_digits(preview: "SparkSession", tables: Tables) -> None:
    path = tables.of(CAPTURE.stem) / "exchanges.parquet"
    starts = sorted(pq.read_table(path)["request_start"].cast(pa.int64()).to_pylist())
    bound = Random(SEED).choice(starts)
    seconds, nanoseconds = divmod(bound, 10**9)
    preview.read.parquet(str(path)).createOrReplaceTempView("rows")
    after = preview.sql(
        "SELECT COUNT(*), CAST(unix_nanos(MIN(request_start)) AS BIGINT) FROM rows WHERE "  # noqa: S608
        f"request_start > CAST(concat(CAST(from_unixtime({seconds}) AS STRING), "
        f"'.{nanoseconds:09}') AS TIMESTAMP_LTZ(9))"
    ).collect()[0]
    later = [start for start in starts if start > bound]
    assert tuple(after) == (len(later), later[0] if later else None)


def test_what_the_preview_does_not_do(preview: "SparkSession", tables: Tables) -> None:
    path = tables.of(CAPTURE.stem) / "exchanges.parquet"
    preview.read.parquet(str(path)).createOrReplaceTempView("rows")
    found = preview.sql(
        "SELECT CAST(unix_nanos(response_end) - unix_nanos(request_start) AS BIGINT), "
        "response_end - request_start FROM rows WHERE response_end IS NOT NULL"
    ).collect()
    for exact, interval in found:
        micros = interval // timedelta(microseconds=1)
        assert abs(exact - micros * 1000) < 1000
    assert any(exact % 1000 for exact, _ in found)
    with pytest.raises(Exception, match="UNEXPECTED_INPUT_TYPE"):
        preview.sql("SELECT window(request_start, '1 second') FROM rows")


def test_analyses_in_such_a_session_are_those_in_any_other(
    preview: "SparkSession", tables: Tables
) -> None:
    source = Random(SEED)
    names = source.sample(sorted(QUESTIONS), 3)
    settings = {
        SETTING: source.choice(("0", "1000000000")),
        AS_NUMBERS: source.choice(("true", "false")),
    }
    with configured(preview, settings):
        for name in names:
            assert_same(name, tables.of(CAPTURE.stem), preview)
    assert preview.conf.get(PREVIEW) == "true"


def test_python_has_no_type_for_them(preview: "SparkSession", tables: Tables) -> None:
    from pyspark.sql import types

    rows = preview.read.parquet(str(tables.of(CAPTURE.stem) / "exchanges.parquet"))
    with pytest.raises(Exception, match=r"timestamp_ltz\(9\)"):
        rows.select("request_start").collect()
    # The schema of a data source in Python is made of these.
    assert not [name for name in vars(types) if "nano" in name.lower()]


def assert_same(name: str, there: Path, session: "SparkSession") -> None:
    """The rows of an analysis on Spark are those on DuckDB."""
    expected = kdissect.analyse(name, there).to_arrow()
    found = kdissect.analyse(name, there, engine="spark", session=session).to_arrow()
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert differences(found.to_pylist(), expected.to_pylist()) == [], name
