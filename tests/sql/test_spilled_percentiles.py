"""Percentiles in steps are DuckDB's own, and take no memory that cannot be spilled."""

import math
import random
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pytest

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines import duckdb_tables
from kdissect.analysis.engines.stored_tables import directory_place
from kdissect.rules import executor
from kdissect.rules.compiled_sql import columns_needed, names
from kdissect.rules.executor import gather
from kdissect.sql import separate_statements
from kdissect.sql.memory_limits import first_limits
from kdissect.sql.spilled_percentiles import Steps, in_steps, keep, keep_in_steps
from tests.seeds import SEED

CAPTURE = Path(__file__).parents[2] / "captures" / "retries-4.3.1.pcapng"
# Of values, a key and another one, a condition.
QUERIES = (
    "SELECT QUANTILE_CONT(x, 0.5), COUNT(*) FROM rows",
    "SELECT QUANTILE_CONT(x, 0.5) + 1 FROM rows WHERE k < 2",
    "SELECT k, QUANTILE_CONT(x, 0.999) AS a, QUANTILE_CONT(x, 0.1) AS b FROM rows GROUP BY k",
    "SELECT k, s, COUNT(*), ROUND(QUANTILE_CONT(t.x, 0.9)) + 1, QUANTILE_CONT(CASE WHEN b THEN x "
    "END, 0.5), MAX(x) FROM (SELECT * FROM rows WHERE x <> 7) AS t WHERE x > 5 GROUP BY 1, 2",
    "SELECT k % 3 AS j, s, QUANTILE_CONT(x, 0.5) FROM rows GROUP BY 1, s HAVING COUNT(x) > 3",
    "WITH one AS (SELECT k, s, QUANTILE_CONT(x, 0.5) AS m FROM rows GROUP BY k, s) "
    "SELECT k, MAX(m), QUANTILE_CONT(m, 0.9) FROM one GROUP BY k",
    "SELECT t.k, QUANTILE_CONT(t.x + u.n, 0.95) FROM rows AS t JOIN (SELECT k, COUNT(*) AS n "
    "FROM rows GROUP BY k) AS u ON t.k = u.k GROUP BY t.k",
    "SELECT * FROM (WITH one AS (SELECT k, x FROM rows), two AS (SELECT k, QUANTILE_CONT(x, 0.5) "
    "AS m FROM one GROUP BY k) SELECT k, m FROM two UNION ALL SELECT 1, MAX(m) FROM two)",
    "WITH RECURSIVE steps AS (SELECT 0 AS k UNION ALL SELECT k + 1 FROM steps WHERE k < 2), "
    "one AS (WITH of_step AS (SELECT * FROM rows JOIN steps USING (k)) SELECT k, "
    "QUANTILE_CONT(x, 0.5) AS m FROM of_step GROUP BY k) SELECT QUANTILE_CONT(m, 0.5) FROM one",
)


BY_TWO_KEYS = "SELECT k, s, QUANTILE_CONT(x, {}) FROM rows GROUP BY 1, 2"


def is_same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Return whether rows are equal up to the last bits of numbers.

    DuckDB fuses the multiplication and the addition of an interpolation where the processor can.
    """
    return all(
        math.isclose(a, b, rel_tol=1e-13)
        if isinstance(a, float) and isinstance(b, float)
        else a == b
        for a, b in zip(one, other, strict=True)
    )


def drawn_rows(source: random.Random) -> list[tuple[int | None, str | None, bool, int | None]]:
    """Rows of few or many groups; values close together, far apart, below 0, equal, or none."""
    groups = source.choice((1, 3, 50))
    value = source.choice(
        (
            lambda: source.randrange(3),
            lambda: int(10 ** source.uniform(0, 14)),
            lambda: 500_000_000 + source.randrange(10**6),
            lambda: source.randrange(-(10**11), 10**11),
            lambda: (1 << source.choice((12, 24, 36))) + source.randrange(-2, 3),
        )
    )
    return [
        (
            source.choice((None, *range(groups))),
            source.choice((None, "", "a'b")),
            source.random() < 0.5,
            None if source.random() < 0.1 else value(),
        )
        for _ in range(source.choice((0, 1, 2, 400)))
    ]


@pytest.mark.parametrize("query", QUERIES)
def test_steps_give_the_percentiles_of_one_statement(query: str) -> None:
    source = random.Random(f"{SEED} {query}")
    for _ in range(12):
        connection = duckdb.connect()
        connection.execute("CREATE TABLE rows (k INT, s TEXT, b BOOL, x BIGINT)")
        if rows := drawn_rows(source):
            connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", rows)
        expected = connection.execute(f"{query} ORDER BY ALL").fetchall()
        steps = in_steps(query)
        assert steps is not None
        for statement in steps.statements:
            connection.execute(statement)
        found = connection.execute(f"{steps.query} ORDER BY ALL").fetchall()
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert is_same(one, other), (query, one, other, rows)


def test_queries_without_percentiles_of_groups_have_no_steps() -> None:
    assert in_steps("SELECT 1") is None
    for query in (
        "SELECT QUANTILE_CONT(x, 0.5) OVER (PARTITION BY k) FROM t",
        "SELECT k, QUANTILE_CONT(x, 0.5) FROM t GROUP BY ALL",
        "SELECT k, QUANTILE_CONT(x, 0.5) FROM t GROUP BY ROLLUP (k)",
        "SELECT QUANTILE_CONT(x, 0.5) FILTER (WHERE b) FROM t",
        "WITH a AS (SELECT 1 AS x), b AS (SELECT x FROM a) SELECT * FROM (WITH a AS (SELECT 2 AS x)"
        " SELECT QUANTILE_CONT(x, 0.5) FROM (FROM a UNION FROM b))",  # which `a` is meant
    ):
        assert in_steps(query) is None, query


def keep_wherever_possible(
    made: list[Steps | None], connection: duckdb.DuckDBPyConnection, table: str, sql: str
) -> None:
    """Like `keep`, in steps wherever there are some; `made` gets them."""
    steps = in_steps(sql)
    made.append(steps)
    keep_in_steps(connection, table, steps or Steps([], sql, []))


@pytest.mark.slow
def test_every_question_has_the_same_answer_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kdissect.write(CAPTURE, tmp_path)
    expected = {name: kdissect.analyse(name, tmp_path).table for name in QUESTIONS}
    made: list[Steps | None] = []

    in_step = partial(keep_wherever_possible, made)
    for module in (duckdb_tables, separate_statements):
        monkeypatch.setattr(module, "keep", in_step)
    monkeypatch.setattr(separate_statements, "keep_at_once", in_step)
    for name in QUESTIONS:
        assert kdissect.analyse(name, tmp_path).table.equals(expected[name]), name
    assert sum(steps is not None for steps in made) >= 4


@pytest.mark.slow
def test_every_evidence_has_the_same_rows_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kdissect.write(CAPTURE, tmp_path, tables=list(columns_needed()))
    expected = gather(tmp_path, columns_needed(), names())
    monkeypatch.setattr(executor, "query", pytest.fail)  # of those that could not be kept
    made: list[Steps | None] = []

    for way in ("keep", "keep_at_once"):
        monkeypatch.setattr(separate_statements, way, partial(keep_wherever_possible, made))
    assert gather(tmp_path, columns_needed(), names()) == expected
    assert sum(steps is not None for steps in made) >= 3


def test_steps_give_the_percentiles_of_numpy() -> None:
    source = random.Random(SEED)
    for _ in range(12):
        rows = [row for row in drawn_rows(source) if row[3] is not None]
        share = source.choice((0.01, 0.5, 0.9, 0.99, 0.999))
        connection = duckdb.connect()
        connection.execute("CREATE TABLE rows (k INT, s TEXT, b BOOL, x BIGINT)")
        if rows:
            connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", rows)
        steps = in_steps(BY_TWO_KEYS.format(share))
        assert steps is not None
        keep_in_steps(connection, "found", steps)
        found = {(k, s): value for k, s, value in connection.execute("FROM found").fetchall()}
        groups: dict[tuple[int | None, str | None], list[int]] = {}
        for k, s, _, x in rows:
            groups.setdefault((k, s), []).append(x)
        assert found.keys() == groups.keys()
        for key, values in groups.items():
            assert math.isclose(found[key], np.quantile(values, share), rel_tol=1e-12), rows


def test_a_larger_limit_is_tried_where_the_first_does_not_suffice(tmp_path: Path) -> None:
    kdissect.write(CAPTURE, tmp_path)
    question = QUESTIONS["rebalances"]
    places, tables_read = [directory_place(tmp_path)], question.tables
    with duckdb_tables.DuckTables(places, tables_read) as tables:
        expected = tables.rows(question.answer(tables.tables))
    with (
        duckdb_tables.DuckTables(places, tables_read, limits=["300KB"]) as tables,
        pytest.raises(kdissect.KdissectError, match="more memory"),
    ):
        tables.rows(question.answer(tables.tables))
    with duckdb_tables.DuckTables(places, tables_read, limits=["300KB", "500MB"]) as tables:
        assert tables.rows(question.answer(tables.tables)).equals(expected)


def test_more_values_than_memory_are_answered(tmp_path: Path) -> None:
    connection = duckdb.connect()
    path = tmp_path / "rows.parquet"
    rows = "SELECT i % 7 AS k, hash(i) % 100000000000 AS x FROM range(1500000) AS t(i)"
    connection.execute(f"COPY ({rows}) TO '{path}'")
    query = f"SELECT k, {', '.join(f'QUANTILE_CONT(x + {n}, 0.9) AS p{n}' for n in range(6))} "
    query += f"FROM '{path}' GROUP BY k ORDER BY k"
    expected = connection.execute(query).fetchall()
    small = duckdb.connect(config={"memory_limit": "60MB", "threads": "1"})
    small.execute(f"SET temp_directory = '{tmp_path / 'spilled'}'")
    with pytest.raises(duckdb.OutOfMemoryException):
        small.execute(query).fetchall()
    keep(small, "kept", query)
    for one, other in zip(small.execute("FROM kept ORDER BY k").fetchall(), expected, strict=True):
        assert is_same(one, other)


def test_a_limit_of_the_environment_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_limits() == ["200MB", "250MB", "500MB"]
    monkeypatch.setenv("KDISSECT_DUCKDB_MEMORY", "2GB")
    assert first_limits() == ["2GB"]
