"""Statements without the columns that nothing reads give the same rows: DuckDB executes both.

The statements are compiled for DuckDB, so neither Spark nor its plans are needed, and drawn ones
have the shapes in which a column is important though nothing names it.
"""

import random
from contextlib import suppress
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pytest
from ibis.backends.sql.compilers.duckdb import DuckDBCompiler
from ibis.common.exceptions import OperationNotDefinedError

from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines.duckdb_tables import DuckTables
from kdissect.analysis.engines.stored_tables import directory_place
from kdissect.sql.column_pruning import prune
from tests.seeds import SEED
from tests.spark.conftest import Tables

CAPTURE = "incident-group-changes-4.3.1"
COLUMNS = ("a", "b", "c", "d", "e")
DRAWN = 30


def compiled(expression: Any) -> Any:
    """The tree of an expression, in which each part that is used twice is a WITH clause."""
    settings = ibis.options.sql
    before, settings.fuse_selects = settings.fuse_selects, False
    try:
        return DuckDBCompiler().to_sqlglot(expression).copy()
    finally:
        settings.fuse_selects = before


def in_parts(connection: duckdb.DuckDBPyConnection, tree: Any) -> tuple[pa.Table, list[int]]:
    """The rows by a table for each part, with the columns that are read; and their numbers."""
    parts = {part.alias: part.this for part in tree.ctes}
    for name in ("with_", "with"):
        tree.args.pop(name, None)
    read = prune(tree, parts)
    widths = []
    for name, query in parts.items():
        sql = query.sql("duckdb")
        rows = connection.sql(sql)
        columns = rows.columns
        kept = [one for one in columns if read[name] is None or one in read[name]] or columns[:1]
        rows.select(*[duckdb.ColumnExpression(one) for one in kept]).create(name)
        widths.append(len(kept))
    found = connection.sql(tree.sql("duckdb")).to_arrow_table()
    for name in parts:
        connection.execute(f"DROP TABLE {name}")
    return found, widths


def whole(connection: duckdb.DuckDBPyConnection, tree: Any) -> pa.Table:
    return connection.sql(tree.sql("duckdb")).to_arrow_table()


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_question_has_the_same_rows(name: str, tables: Tables) -> None:
    question = QUESTIONS[name]
    with DuckTables([directory_place(tables.of(CAPTURE))], question.tables) as engine:
        answer = question.answer(engine.tables)
        expected = whole(engine.connection, compiled(answer))
        found, _ = in_parts(engine.connection, compiled(answer))
    assert sorted_rows(found) == sorted_rows(expected)
    assert found.schema.equals(expected.schema)


def test_exchanges_are_kept_without_most_of_their_columns(tables: Tables) -> None:
    question = QUESTIONS["lag"]
    with DuckTables([directory_place(tables.of(CAPTURE))], question.tables) as engine:
        _, widths = in_parts(engine.connection, compiled(question.answer(engine.tables)))
        every = len(engine.connection.table("exchanges").columns)
    assert max(widths) < every / 2


def test_drawn_queries_have_the_same_rows() -> None:
    draw = random.Random(SEED)
    rows = pa.Table.from_pylist(
        [{one: draw.choice([None, 0, 1, 2, 3]) for one in COLUMNS} for _ in range(40)],
        pa.schema([(one, pa.int64()) for one in COLUMNS]),
    )
    connection = duckdb.connect()
    connection.register("numbers", rows)
    pruned = 0
    for _ in range(DRAWN):
        answer = compilable(draw)
        expected = whole(connection, compiled(answer))
        found, widths = in_parts(connection, compiled(answer))
        assert sorted_rows(found) == sorted_rows(expected), compiled(answer).sql("duckdb")
        pruned += sum(width < len(COLUMNS) for width in widths)
    assert pruned > 0


def test_subqueries_of_conditions_read_columns() -> None:
    connection = duckdb.connect()
    rows = pa.table({name: [place, 2, 3 - place] for place, name in enumerate("abc")})
    connection.register("numbers", rows)
    table = ibis.table(dict.fromkeys("abc", "int64"), name="numbers")
    part = table.mutate(c=table.a + table.c)
    most, least = part.aggregate(most=part.c.max()), part.aggregate(least=part.c.min())
    answer = table.filter(table.a <= most.as_scalar(), table.a >= least.as_scalar() - 5).select("b")
    found, widths = in_parts(connection, compiled(answer))
    assert found.to_pylist() == whole(connection, compiled(answer)).to_pylist() != []
    assert widths == [1]


def compilable(draw: random.Random) -> Any:
    """A drawn expression that Ibis can compile: it cannot do so with a few unions."""
    for _ in range(DRAWN):
        table = ibis.table(dict.fromkeys(COLUMNS, "int64"), name="numbers")
        answer = drawn(draw, [table], 8)
        with suppress(OperationNotDefinedError):
            compiled(answer)
            return answer
    raise AssertionError("Ibis compiles none")


def drawn(draw: random.Random, made: list[Any], steps: int) -> Any:
    """An expression of some steps, each of tables made before, so that many are used twice."""
    for _ in range(steps):
        one, other = draw.choice(made[-3:]), draw.choice(made)
        name, key, second = (draw.choice(COLUMNS) for _ in range(3))
        step = draw.randrange(8)
        if step == 0:
            made.append(one.filter(one[name] > draw.randrange(3)))
        elif step == 1:
            made.append(one.mutate(**{name: one[key] + one[second]}))
        elif step == 2:
            largest = one[name].max().over(group_by=[key], order_by=[second, *COLUMNS])
            made.append(one.mutate(**{name: largest}))
        elif step == 3:
            others = [column for column in COLUMNS if column != key]
            made.append(one.group_by(key).agg(**{column: one[column].sum() for column in others}))
        elif step == 4:
            found = one.inner_join(other.select(*dict.fromkeys((key, name))).distinct(), key)
            made.append(found.select(*COLUMNS))
        elif step == 5:
            made.append(one.union(other.select(one.columns)))
        elif step == 6:
            made.append(one.distinct())
        else:
            both = ibis.array([one[key], one[second]]).unnest()
            made.append(one.mutate(**{name: both}))
    chosen = draw.sample(COLUMNS, draw.randint(1, 3))
    last = made[-1].select(*chosen)
    return last.distinct() if draw.random() < 0.3 else last.union(made[-2].select(*chosen))


def sorted_rows(table: pa.Table) -> list[str]:
    """Rows in some order, which their columns' names and values decide."""
    columns = sorted(table.column_names)
    return sorted(repr([row[name] for name in columns]) for row in table.to_pylist())
