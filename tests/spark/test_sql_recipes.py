"""The queries of docs/sql-recipes.md: DuckDB and Spark answer each with the same rows."""

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import pytest
from deltalake import DeltaTable

from kdissect.spark.pipeline import dissect
from tests.spark.rotated import CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "sql-recipes.md").read_text()
QUERIES = dict(re.findall(r"^## ([^\n]*\?)\n.*?^```sql\n(.*?)^```", PAGE, re.M | re.S))
TABLES = ("connections", "exchanges", "partitions", "batches", "errors", "members")
SOURCES = ("groups-4.3.1", "transactions-4.3.1", "sasl-4.3.1", "retries-4.3.1", "cluster-4.3.1")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of five taps, by two runs."""
    place = tmp_path_factory.mktemp("recipes") / "kafka"
    paths = [CAPTURES / f"{name}.pcapng" for name in SOURCES]
    dissect(None, paths[:2], place)
    dissect(None, paths, place)
    return place


def block(kind: str, dataset: Path) -> str:
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S)
    return str(found).replace("/data/kafka", str(dataset))


def plain(value: Any) -> Any:
    """A value as both engines have it: numbers to twelve digits, times in UTC."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None) if value.tzinfo is None else value.astimezone(dt.UTC)
    # A sum of integers is a hugeint of DuckDB, which Arrow has as a float.
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(f"{float(value):.12g}")
    return value


def in_utc(value: Any) -> Any:
    is_naive = isinstance(value, dt.datetime) and value.tzinfo is None
    return value.replace(tzinfo=dt.UTC) if is_naive else value


def rows_of(names: list[str], rows: list[Any]) -> list[str]:
    return sorted(
        repr({name: plain(in_utc(one)) for name, one in zip(names, row, strict=True)})
        for row in rows
    )


def by_duckdb(dataset: Path) -> dict[str, list[str]]:
    answers = {}
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name in TABLES:
            connection.register(name, DeltaTable(dataset / name).to_pyarrow_dataset())
        for title, text in QUERIES.items():
            found = connection.sql(text).to_arrow_table()
            rows = [tuple(row.values()) for row in found.to_pylist()]
            answers[title] = rows_of(found.schema.names, rows)
    return answers


def test_there_are_ten_questions_and_each_has_an_answer(kafka: Path) -> None:
    assert len(QUERIES) == PAGE.count("```sql") == 10
    answers = by_duckdb(kafka)
    assert [title for title, rows in answers.items() if not rows] == []
    assert len(answers["Who waits how long?"]) > 10


def test_the_dataset_is_opened_in_three_lines(
    kafka: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("duckdb", "pandas", "columns"):
        exec(block(kind, kafka), {"duckdb": duckdb, "pd": pd})  # noqa: S102  # the page's own lines
    shown = capsys.readouterr().out
    assert "count_star()" in shown
    assert re.search(r"^latency_ns long ns .+", shown, re.M)


@pytest.mark.slow
def test_spark_gives_the_same_rows(spark: "SparkSession", kafka: Path) -> None:
    expected = by_duckdb(kafka)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        for name in TABLES:
            lines = block("spark", kafka).replace("exchanges", name)
            exec(lines, {"spark": spark})  # noqa: S102  # the page's own lines
        for title, text in QUERIES.items():
            frame = spark.sql(text)
            found = frame.toArrow()
            rows = [tuple(row.values()) for row in found.to_pylist()]
            assert rows_of(frame.columns, rows) == expected[title], title
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
        for name in TABLES:
            spark.catalog.dropTempView(name)
