"""Separate statements give the rows of one query, in less memory."""

from pathlib import Path

import duckdb
import pytest

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines.duckdb_tables import sql_of
from kdissect.analysis.engines.ibis_tables import declared_tables
from kdissect.rules.compiled_sql import columns_needed, names
from kdissect.rules.executor import gather
from kdissect.sql import separate_statements
from kdissect.sql.separate_statements import keep_or_separate, separated_text
from kdissect.sql.spilled_percentiles import keep

CAPTURE = Path(__file__).parents[2] / "captures" / "incident-leader-stopped-4.3.1.pcapng"
ROWS, READERS = 500_000, 8
# Lists cannot be spilled. DuckDB makes those of all readers at the same time: 200 MB suffice for
# them, 100 MB do not; 50 MB suffice for one.
LISTS = "SELECT k % {} AS g, LIST(h ORDER BY h) AS l FROM t GROUP BY 1"
READING = [
    f"w{at} AS (SELECT SUM(LEN(l)) AS v FROM ({LISTS.format(7 + at)}))"  # noqa: S608  # ours
    for at in range(READERS)
]
QUERY = f"""
WITH t AS (SELECT i % 1009 AS k, HASH(i) AS h FROM range({ROWS}) AS r(i)), {", ".join(READING)}
SELECT {", ".join(f"(SELECT v FROM w{at})" for at in range(READERS))}
"""  # noqa: S608  # ours
TOO_LONG = f"SELECT LIST(HASH(i)) FROM range({50 * ROWS}) AS r(i)"  # noqa: S608  # ours


def test_readers_that_do_not_fit_together_are_executed_one_by_one() -> None:
    with duckdb.connect(config={"memory_limit": "70MB", "threads": 2}) as connection:
        with pytest.raises(duckdb.OutOfMemoryException):
            connection.execute(QUERY)
        keep_or_separate(connection, "found", QUERY)
        assert connection.execute("FROM found").fetchall() == [(ROWS,) * READERS]
        assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [
            ("found",)
        ]


def test_what_does_not_fit_either_way_is_the_error_of_duckdb_and_leaves_nothing() -> None:
    with duckdb.connect(config={"memory_limit": "20MB", "threads": 2}) as connection:
        for query in (QUERY, TOO_LONG):
            with pytest.raises(duckdb.OutOfMemoryException):
                keep_or_separate(connection, "found", query)
        assert not connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()


def test_another_failure_is_not_tried_again() -> None:
    with duckdb.connect() as connection, pytest.raises(duckdb.CatalogException):
        keep_or_separate(connection, "found", "WITH a AS (SELECT * FROM missing) SELECT * FROM a")


@pytest.mark.parametrize("name", QUESTIONS)
def test_rows_are_kept_until_their_last_reader(name: str) -> None:
    parts, answer = separated_text(sql_of(QUESTIONS[name].answer(declared_tables()).op()))
    texts = [*[part.sql for part in parts], answer]
    for place, part in enumerate(parts):
        for finished in part.finished:
            reading = [at for at, text in enumerate(texts) if f'"{finished}"' in text]
            assert reading[-1] == place, (part.name, finished)
    finished = [one for part in parts for one in part.finished]
    assert len(finished) == len({*finished})


@pytest.mark.slow
def test_every_evidence_has_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kdissect.write(CAPTURE, tmp_path, tables=list(columns_needed()))
    expected = gather(tmp_path, columns_needed(), names())
    refused: set[str] = set()

    def refuse(connection: duckdb.DuckDBPyConnection, table: str, sql: str) -> None:
        """Refuse the first query for a table of an evidence or of an answer: the whole one."""
        if table.startswith(("every_", "answer_of_")) and table not in refused:
            refused.add(table)
            raise duckdb.OutOfMemoryException("failed to pin block of size 256.0 KiB")
        keep(connection, table, sql)

    monkeypatch.setattr(separate_statements, "keep", refuse)
    assert gather(tmp_path, columns_needed(), names()) == expected
    assert len(refused) > len(names()) // 2
