"""Conditions over exchanges: what they filter, what they keep, and where they are applied."""

from pathlib import Path

import pytest

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines.duckdb_tables import DuckTables, sql_of
from kdissect.analysis.engines.ibis_tables import EVERY, OF_EXCHANGES
from kdissect.analysis.engines.stored_tables import directory_place
from kdissect.errors import KdissectError
from tests.analysis.made_tables import exchange, tables_of, write_tables

ROWS = {
    "exchanges": [exchange(1, "Produce"), exchange(2, "Fetch")],
    **{name: [{"exchange_id": 1}, {"exchange_id": 2}] for name in OF_EXCHANGES},
}


def test_excluded_exchanges_disappear_from_all_tables(tmp_path: Path) -> None:
    with tables_of(tmp_path, "api = 'Fetch'", **ROWS) as engine:
        for name in ("exchanges", *OF_EXCHANGES):
            for asked, ids in ((name, [2]), (EVERY + name, [1, 2])):
                rows = engine.rows(engine.tables[asked].select("exchange_id"))
                assert sorted(rows["exchange_id"].to_pylist()) == ids


@pytest.mark.parametrize("condition", ["api = 'Produce'", "latency_ns > 5000000"])
def test_the_reader_of_the_file_applies_it(condition: str, tmp_path: Path) -> None:
    exchanges = [exchange(number, "Produce", number) for number in range(1, 20)]
    exchanges.append(exchange(20, "Fetch", 1))
    directory = write_tables(tmp_path, exchanges=exchanges)
    with DuckTables([directory_place(directory)], ["exchanges"], condition) as engine:
        answer = QUESTIONS["latency"].answer(engine.tables)
        ((_, plan),) = engine.connection.sql(f"EXPLAIN {sql_of(answer.op())}").fetchall()
    reader = plan[plan.index("Function: READ_PARQUET") :]
    assert "Filters:" in reader
    assert condition in reader


def test_a_condition_over_the_answer_only_chooses_rows(tmp_path: Path) -> None:
    apis = ("Produce", "Fetch", "Metadata")
    exchanges = [exchange(number, api, number) for number, api in enumerate(apis, 1)]
    tables = write_tables(tmp_path, exchanges=exchanges)
    every = kdissect.analyse("latency", tables).to_arrow()
    found = kdissect.analyse("latency", tables, having="p50_ns >= 2000000").to_arrow()
    assert every["api"].to_pylist() == ["Metadata", "Fetch", "Produce"]
    assert found.to_pylist() == every.slice(0, 2).to_pylist()
    assert found.schema.equals(every.schema, check_metadata=True)


def test_a_condition_over_the_answer_knows_its_columns(tmp_path: Path) -> None:
    tables = write_tables(tmp_path, exchanges=[exchange(1, "Produce")])
    with pytest.raises(KdissectError, match="latency_ns > 1"):
        kdissect.analyse("latency", tables, having="latency_ns > 1")


def test_moments_in_conditions_are_utc(tmp_path: Path) -> None:
    exchanges = [exchange(1, "Produce"), exchange(2, "Produce", at_s=7)]
    tables = write_tables(tmp_path, exchanges=exchanges)
    moment = "request_start >= TIMESTAMPTZ '2023-11-14 22:13:25'"
    found = kdissect.analyse("slowest", tables, having=moment).to_arrow()
    assert found["exchange_id"].to_pylist() == [2]
