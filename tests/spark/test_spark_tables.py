"""Conditions, errors and statements of the engine on Spark."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdissect import KdissectError, analyse
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines.duckdb_tables import DuckTables
from kdissect.analysis.engines.ibis_tables import declared_tables
from kdissect.analysis.engines.stored_tables import directory_place
from kdissect.spark.sessions import first_line
from kdissect.spark.single_task import SETTING
from kdissect.spark.spark_tables import SparkTables, selection
from kdissect.spark.statements import statements_of
from kdissect.tables.schemas import INT64, TIME, Column
from tests.analysis.made_tables import START, connection, exchange, write_tables
from tests.spark.conftest import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_subqueries_used_more_than_once_are_separate_statements() -> None:
    tables = declared_tables()
    slow = tables["exchanges"].filter(tables["exchanges"].latency_ns > 5)
    most = slow.group_by("api").agg(most=slow.latency_ns.max())
    answer = slow.join(most, "api").select("exchange_id", "most")
    parts, last = statements_of(answer.op(), "p_")
    ((name, sql, read, _, _),) = parts
    assert sql.endswith("FROM `p_exchanges` AS `t0` WHERE `t0`.`latency_ns` > 5")
    assert read is not None
    assert {"exchange_id", "api", "latency_ns"} <= read
    assert "client_id" not in read
    assert (last.count(f"`{name}`"), last.count("p_exchanges"), last.count("WITH")) == (2, 0, 0)


def test_a_question_reads_each_part_of_it_once() -> None:
    statements = statements_of(QUESTIONS["lag"].answer(declared_tables()).op(), "p_")
    names = [part.name for part in statements.parts]
    texts = [*[part.sql for part in statements.parts], statements.answer]
    assert len(names) > 5
    for place, name in enumerate(names):
        # Made of those before it only, and used by at least two places after it.
        assert not any(f"`{later}`" in texts[place] for later in names[place:])
        assert sum(text.count(f"`{name}`") for text in texts[place + 1 :]) > 1


def test_times_are_microseconds_rounded_with_their_nanoseconds_beside() -> None:
    columns = [
        Column("at", TIME, "", ""),
        Column("size", INT64, "", ""),
        Column("new", TIME, "", ""),
    ]
    assert selection(columns, ["size", "at", "tap"]) == [
        "timestamp_micros((`at` + 500) div 1000) AS `at`",
        "`at` AS `at_ns`",
        "`size`",
    ]
    assert selection(columns, ["at", "at_ns"]) == [
        "timestamp_micros((`at_ns` + 500) div 1000) AS `at`",
        "`at_ns` AS `at_ns`",
    ]


def test_the_first_line_of_an_error_is_reported() -> None:
    assert first_line(ValueError("\n  what it is \n\tat java.lang")) == "what it is"
    assert first_line(ValueError()) == "ValueError"


@pytest.mark.slow
def test_times_are_those_of_duckdb(tmp_path: Path, spark_both: "SparkSession") -> None:
    # Half a microsecond is where engines round to different sides.
    rows = [
        exchange(number, "Fetch", request_start=START + nanoseconds)
        for number, nanoseconds in enumerate((0, 1, 499, 500, 501, 999, 1499, 1500, 2500))
    ]
    directory = write_tables(tmp_path / "tables", exchanges=rows, connections=[connection()])
    wanted = declared_tables()["exchanges"].order_by("exchange_id")
    wanted = wanted.select("exchange_id", "request_start", "request_start_ns")
    with DuckTables([directory_place(directory)], ["exchanges"]) as duck:
        expected = duck.rows(wanted).to_pylist()
    with SparkTables(spark_both, [directory_place(directory)], ["exchanges"]) as tables:
        assert tables.rows(wanted).to_pylist() == expected


@pytest.mark.slow
def test_condition_excludes_rows_of_all_tables(tmp_path: Path, spark_both: "SparkSession") -> None:
    directory = write_tables(
        tmp_path / "tables",
        exchanges=[exchange(1, "Fetch"), exchange(2, "Produce"), exchange(3, "Produce")],
        partitions=[{"exchange_id": 1, "topic": "a"}, {"exchange_id": 2, "topic": "b"}],
        connections=[connection()],
    )
    with SparkTables(
        spark_both, [directory_place(directory)], ["partitions"], "api = 'Produce'"
    ) as tables:
        found = {
            name: tables.rows(tables.tables[name].select("exchange_id").order_by("exchange_id"))
            for name in ("exchanges", "partitions", "all_exchanges", "all_partitions")
        }
    assert {name: rows["exchange_id"].to_pylist() for name, rows in found.items()} == {
        "exchanges": [2, 3],
        "partitions": [2],
        "all_exchanges": [1, 2, 3],
        "all_partitions": [1, 2],
    }
    assert spark_both.catalog.listTables() == []


@pytest.mark.slow
def test_several_directories_are_one(tables: Tables, spark_both: "SparkSession") -> None:
    both = [tables.of("retries-4.3.1"), tables.of("incident-lost-answers-4.3.1")]
    found = analyse("errors", both, session=spark_both).to_arrow()
    assert found.to_pylist() == analyse("errors", both).to_arrow().to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("no_such > 1", "--where 'no_such > 1': [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, "),
        ("api +", "--where 'api +': Parser Error: syntax error at "),
        (
            "api glob 'F*'",
            "--where \"api glob 'F*'\": [PARSE_SYNTAX_ERROR] Syntax error at or near",
        ),
    ],
)
def test_a_wrong_condition_is_an_error_of_one_line(
    where: str,
    says: str,
    tables: Tables,
    spark_both: "SparkSession",
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(KdissectError) as caught:
        analyse("slowest", tables.of("retries-4.3.1"), session=spark_both, where=where)
    text = str(caught.value)
    assert text.startswith(says)
    assert "\n" not in text
    assert capfd.readouterr().err == ""
    assert spark_both.catalog.listTables() == []


@pytest.mark.slow
def test_missing_and_damaged_files_are_an_error_of_one_line(
    tmp_path: Path, spark_both: "SparkSession"
) -> None:
    (tmp_path / "exchanges.parquet").write_bytes(b"")
    with pytest.raises(KdissectError, match=r"connections\.parquet: no such file$"):
        analyse("slowest", tmp_path, session=spark_both)
    (tmp_path / "connections.parquet").write_bytes(b"")
    with pytest.raises(KdissectError) as caught:
        analyse("slowest", tmp_path, session=spark_both)
    is_sql = spark_both.conf.get(SETTING, None) is not None
    says = r"\[[A-Z_.]+\] .+" if is_sql else r".+ Error: .+\.parquet.+"
    assert re.fullmatch(f"tables: {says}", str(caught.value))
