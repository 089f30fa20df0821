"""Separate statements give the rows of one query, in less memory."""

from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines.duckdb_tables import sql_of
from kdissect.analysis.engines.ibis_tables import declared_tables
from kdissect.rules import executor
from kdissect.rules.compiled_sql import columns_needed, kept_answers, names, table_of
from kdissect.rules.executor import gather
from kdissect.sql import buckets, separate_statements
from kdissect.sql.buckets import keep_by_buckets
from kdissect.sql.separate_statements import keep_or_separate, separated_text
from kdissect.sql.spilled_percentiles import keep
from tests.seeds import SEED

CAPTURE = Path(__file__).parents[2] / "captures" / "incident-leader-stopped-4.3.1.pcapng"
CAPTURES = sorted(CAPTURE.parent.glob("*.pcapng"))
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


NESTED = """
WITH t AS (SELECT i % 10 AS k, i FROM range(100) AS r(i))
SELECT a.k, a.s, b.n, (SELECT MAX(m) FROM (SELECT MIN(i) AS m FROM t GROUP BY k)) AS m
FROM (SELECT k, SUM(x) AS s FROM (SELECT DISTINCT k, i % 7 AS x FROM t) AS d GROUP BY 1) AS a
JOIN (SELECT k, COUNT(*) AS n FROM u GROUP BY k) AS b ON a.k = b.k
LEFT JOIN (SELECT k AS plain FROM t WHERE i < 3) AS c ON c.plain = a.k
ORDER BY a.k
"""


def test_subqueries_that_group_rows_are_statements() -> None:
    parts, answer = separated_text(NESTED)
    assert [part.name for part in parts] == ["t", *[f"subquery {at}" for at in (1, 2, 3)]]
    grouped = [part.sql for part in parts[1:]]
    assert ["DISTINCT" in one for one in grouped] == [True, False, False]
    # Inside an expression, which may depend on its row, and without groups they stay.
    assert "GROUP BY" in answer
    assert answer.count("SELECT") == 4
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE u AS SELECT i % 4 AS k FROM range(50) AS r(i)")
        expected = connection.execute(NESTED).fetchall()
        separate_statements.keep_separately(connection, "found", separated_text(NESTED))
        assert connection.execute("FROM found").fetchall() == expected
    assert len(expected) == 4


def drawn_rows(source: Random, depth: int, name: str) -> str:
    """Something to select k and v from."""
    if depth <= 0:
        return source.choice("tu")
    inner = drawn_rows(source, depth - 1, name + "i")
    text = source.choice(
        (
            "(SELECT k % 7 AS k, SUM(v) AS v FROM {0} GROUP BY k % 7)",
            "(SELECT DISTINCT k, v % 5 AS v FROM {0})",
            "(SELECT k, v + 1 AS v FROM {0} WHERE v > 2)",
            "(SELECT l.k, l.v + r.v AS v FROM {0} AS l JOIN {1} AS r ON l.k = r.k)",
            "(SELECT k, v FROM {0} UNION ALL SELECT k, MAX(v) FROM {1} GROUP BY 1)",
            "(SELECT k, v FROM {0} AS o WHERE v >= (SELECT MIN(x) FROM (SELECT o.k - 1 AS x "
            "FROM u GROUP BY u.k)))",
            "(SELECT k, v FROM {0} WHERE k IN (SELECT k FROM (SELECT DISTINCT k FROM {1})))",
        )
    )
    other = drawn_rows(source, depth - 2, name + "j")
    return text.format(
        *(f"(FROM {rows} AS {name}{side})" for rows, side in ((inner, "x"), (other, "y")))
    )


@pytest.mark.sweep(5)
@pytest.mark.parametrize("number", range(200))
def test_drawn_queries_have_the_same_rows(number: int) -> None:
    source = Random(f"{SEED} {number}")
    clause = drawn_rows(source, 2, "w")
    query = f"""
        WITH w AS {clause}
        SELECT a.k, a.v, COUNT(*) AS n FROM {drawn_rows(source, 3, "a")} AS a
        LEFT JOIN w ON w.k = a.k LEFT JOIN w AS w2 ON w2.v = a.v GROUP BY ALL ORDER BY ALL
        """  # noqa: S608  # ours
    with duckdb.connect() as connection:
        for table, rows in (("t", 30), ("u", 12)):
            numbers = f"SELECT i % 5 AS k, i % 11 AS v FROM range({rows}) AS r(i)"  # noqa: S608  # ours
            connection.execute(f"CREATE TABLE {table} AS {numbers}")
        expected = connection.execute(query).fetchall()
        statements = separated_text(query)
        separate_statements.keep_separately(connection, "found", statements)
        assert connection.execute("FROM found").fetchall() == expected, query
        # Those that do not read `u` give the same while it is another table.
        steady, others = statements.split(["u"])
        with separate_statements.kept_parts(connection, steady):
            connection.execute("DELETE FROM u")
            expected = connection.execute(query).fetchall()
            separate_statements.keep_separately(connection, "again", others)
            assert connection.execute("FROM again").fetchall() == expected, query


def test_parts_that_read_none_of_the_tables_are_told_from_others() -> None:
    def split(*varying: str) -> tuple[list[str], list[str]]:
        steady, others = separated_text(NESTED).split(varying)
        assert not {one for part in others.parts for one in part.finished} & {
            part.name for part in steady
        }
        return [part.name for part in steady], [part.name for part in others.parts]

    names = ["t", *[f"subquery {at}" for at in (1, 2, 3)]]
    assert split("u") == ([*names[:2], names[3]], [names[2]])
    assert split() == (names, [])


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_every_evidence_has_the_same_rows(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kdissect.write(capture, tmp_path, tables=list(columns_needed()))
    expected = gather(tmp_path, columns_needed(), names())
    monkeypatch.setattr(executor, "query", pytest.fail)  # of those that could not be kept
    monkeypatch.setattr(buckets, "COUNTS", (Random(f"{SEED} {capture}").choice((2, 3, 7)),))
    refused: set[str] = set()
    in_buckets: set[str] = set()

    def refuse(connection: duckdb.DuckDBPyConnection, table: str, sql: str) -> None:
        """Refuse the first query for a table of an evidence or of an answer: the whole one."""
        is_whole = table.startswith(("every_", "answer_of_")) and separated_text(sql).parts
        if is_whole and table not in refused:
            refused.add(table)
            raise duckdb.OutOfMemoryException("failed to pin block of size 256.0 KiB")
        keep(connection, table, sql)

    def noted(connection: duckdb.DuckDBPyConnection, table: str, *rest: Any) -> None:
        in_buckets.add(table)
        keep_by_buckets(connection, table, *rest)

    for way in ("keep", "keep_at_once"):
        monkeypatch.setattr(separate_statements, way, refuse)
    monkeypatch.setattr(executor, "keep_by_buckets", noted)
    assert gather(tmp_path, columns_needed(), names()) == expected
    assert len(refused) > len(names()) // 2
    with_keys = {table_of(name) for name, one in kept_answers().items() if one.keys}
    assert in_buckets == with_keys
    assert with_keys > {"answer_of_rebalances", "answer_of_upgrade"}
