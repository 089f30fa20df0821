"""Statements with windows of several orders give the same rows as one statement."""

from random import Random

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines.duckdb_tables import sql_of
from kdissect.analysis.engines.ibis_tables import declared_tables
from kdissect.rules.compiled_sql import names, whole_query
from kdissect.sql.separate_statements import keep_separately, separated_text
from tests.seeds import SEED

KEYS = ('"r"."k"', '"r"."j"', '"r"."k", "r"."j"', '"r"."b"')
# The last column makes the order of rows unique.
ORDERS = ('"r"."v", "r"."i"', '"r"."i"', '"r"."v" DESC, "r"."i"')
FRAMES = (
    "",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    " ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
)
VALUES = (
    'MAX("r"."v") FILTER (WHERE "r"."b")', 'SUM("r"."v")', 'COUNT(*)', 'LAG("r"."v")',
    'FIRST_VALUE("r"."v" IGNORE NULLS)', "ROW_NUMBER()",
)  # fmt: skip


def drawn_window(source: Random) -> str:
    value, frame = source.choice(VALUES), source.choice(FRAMES)
    if value.startswith(("LAG", "ROW")):
        frame = ""
    partition = f"PARTITION BY {source.choice(KEYS)} " if source.random() < 0.8 else ""
    return f"{value} OVER ({partition}ORDER BY {source.choice(ORDERS)}{frame})"


def drawn_query(source: Random) -> str:
    """Windows alone, in expressions and twice; over rows of a clause that a condition chooses."""
    windows = [drawn_window(source) for _ in range(source.randrange(1, 6))]
    columns = [f'{window} AS "w{at}"' for at, window in enumerate(windows)]
    columns.append(f'COALESCE("r"."v" - {source.choice(windows)}, 7) AS "e"')
    where = ' WHERE "r"."v" % 3 < 2' if source.random() < 0.5 else ""
    clause = "SELECT i, i % 4 AS k, i % 3 AS j, i % 2 = 0 AS b, NULLIF(i * 7 % 23, 5) AS v FROM t"
    rows = '"rows" AS "r"'
    if source.random() < 0.5:  # of a subquery that has some itself
        inner = ", ".join(f'{drawn_window(source)} AS "{name}"' for name in ("k", "j"))
        rows = f'(SELECT "r"."i", "r"."b", "r"."v", {inner} FROM {rows}) AS "r"'  # noqa: S608
    return (
        f'WITH "rows" AS ({clause}), "found" AS (SELECT "r"."i" AS "i", {", ".join(columns)} '  # noqa: S608
        f'FROM {rows}{where}) SELECT * FROM "found" AS "f" ORDER BY "f"."i"'
    )


def orders_of(sql: str) -> set[str]:
    """The partitions and orders of the windows of a statement."""
    found = set()
    for window in sqlglot.parse_one(sql, read="duckdb").find_all(exp.Window):
        order = window.args.get("order")
        keys = [one.sql() for one in window.args.get("partition_by") or ()]
        found.add(f"{keys} {order.sql() if order else ''}")
    return found


def test_drawn_windows_have_the_same_values() -> None:
    source = Random(SEED)
    several = 0
    for _ in range(60):
        query = drawn_query(source)
        with duckdb.connect() as connection:
            count = source.choice((0, 1, 90))
            connection.execute("CREATE TABLE t AS SELECT i FROM range(?) AS r(i)", [count])
            expected = connection.execute(query).fetchall()
            statements = separated_text(query)
            keep_separately(connection, "answer", statements)
            found = connection.execute("SELECT * FROM answer ORDER BY i").fetchall()
        assert found == expected, f"seed {SEED}: {query}"
        assert all(len(orders_of(part.sql)) <= 1 for part in statements.parts), query
        several += len(statements.parts) > 2
    assert several > 20


@pytest.mark.parametrize(
    "columns",
    [
        'k, MAX(SUM(v)) OVER (ORDER BY k), COUNT(*) OVER (PARTITION BY k % 2) FROM "t" GROUP BY k',
        'DISTINCT MAX(v) OVER (ORDER BY k), COUNT(*) OVER (PARTITION BY k) FROM "t"',
        'MAX(v) OVER (ORDER BY k), COUNT(*) OVER (PARTITION BY k) FROM "t" LIMIT 3',
        'MAX(v) OVER (ORDER BY k), COUNT(*) OVER (PARTITION BY k) AS n FROM "t" QUALIFY n > 1',
        'MAX(a.v) OVER (ORDER BY a.k), SUM(b.v) OVER (PARTITION BY b.k) FROM "t" AS a JOIN "t" AS b'
        " ON a.v = b.v",
        "MAX(v) OVER (ORDER BY k), COUNT(*) OVER (PARTITION BY k), (SELECT MAX(v) FROM u) FROM t",
        "MAX(v) OVER (ORDER BY k), COUNT(*) OVER (PARTITION BY k) FROM (SELECT v, k FROM t)",
    ],
)
def test_windows_of_other_statements_stay(columns: str) -> None:
    parts, answer = separated_text(f"WITH a AS (SELECT {columns}) SELECT * FROM a")  # noqa: S608
    assert not any(part.name.startswith("rows with windows") for part in parts)
    assert answer == "SELECT * FROM a"


def test_no_statement_of_an_analysis_has_windows_of_several_orders() -> None:
    queries = {name: sql_of(one.answer(declared_tables()).op()) for name, one in QUESTIONS.items()}
    queries |= {f"evidence {name}": whole_query(name) for name in names()}
    for name, query in queries.items():
        parts, answer = separated_text(query)
        for sql in (*(part.sql for part in parts), answer):
            assert len(orders_of(sql)) <= 1, (name, sql[:200])
