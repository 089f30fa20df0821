"""Choice of the engine, and the messages about it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdissect import KdissectError, analyse
from kdissect.analysis.engines.stored_tables import directory_place, stored_size
from kdissect.api.engine_choice import AUTO, DUCKDB, LIMIT, SPARK, takes_spark
from kdissect.cli.program import run
from kdissect.text import human
from tests.spark.conftest import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def made(directory: Path, name: str, size: int) -> Path:
    """A sparse file of a table."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"{name}.parquet").open("wb") as file:
        file.truncate(size)
    return directory


def test_auto_takes_spark_when_the_tables_asked_for_are_larger_than_the_limit(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    one = made(tmp_path / "one", "exchanges", LIMIT - 10)
    two = made(tmp_path / "two", "exchanges", 10)
    made(two, "records", LIMIT)
    places = [directory_place(one), directory_place(two)]
    assert not takes_spark(AUTO, places, ["exchanges"], told.append)
    assert told == []
    made(two, "exchanges", 11)
    places = [directory_place(one), directory_place(two)]
    assert takes_spark(AUTO, places, ["all_exchanges"], told.append)
    assert told == ["tables of 4 GB, more than 4 GB: Spark answers"]


def test_named_engine_is_used(tmp_path: Path) -> None:
    large = made(tmp_path / "large", "exchanges", LIMIT + 1)
    assert not takes_spark(DUCKDB, [directory_place(large)], ["exchanges"], None)
    assert takes_spark(SPARK, [directory_place(tmp_path)], ["exchanges"], None)


def test_tables_of_many_files_are_counted_too(tmp_path: Path) -> None:
    made(tmp_path / "exchanges.parquet" / "date=2026-11-22", "part-0", 100)
    made(tmp_path / "exchanges.parquet" / "date=2026-11-23", "part-0", 11)
    made(tmp_path, "errors", 1000)
    assert (
        stored_size([directory_place(tmp_path)], ["exchanges", "all_exchanges", "partitions"])
        == 111
    )


def test_an_engine_that_there_is_not_is_an_error(tables: Tables) -> None:
    with pytest.raises(KdissectError, match=r"^no engine 'pandas'; there are duckdb, spark, auto$"):
        analyse("slowest", tables.of("retries-4.3.1"), engine="pandas")


@pytest.mark.slow
def test_the_command_names_spark_on_stderr(
    tables: Tables,
    spark: "SparkSession",
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert spark.getActiveSession() is spark  # which the command takes
    there = tables.of("retries-4.3.1")
    words = ["slowest", str(there), "--engine", "auto", "--format", "csv"]
    assert run(words) == 0
    expected = capfd.readouterr()
    monkeypatch.setattr("kdissect.api.engine_choice.LIMIT", 999)
    assert run(words) == 0
    found = capfd.readouterr()
    assert (found.out, expected.err) == (expected.out, "")
    size = human.size(stored_size([directory_place(there)], ["exchanges", "connections"]))
    assert found.err == f"kdissect: tables of {size}, more than 999 B: Spark answers\n"
