"""A query as several statements: one for each WITH clause, and the last one.

Spark computes a WITH clause at each use. DuckDB computes it once, and executes all queries that
read it at the same time, with the memory of all.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kdissect.sql.column_pruning import prune
from kdissect.sql.failures import engine_failures, exceeds_limit
from kdissect.sql.spilled_percentiles import keep

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DUCKDB: Final = "duckdb"


class Part(NamedTuple):
    """A statement whose rows are available to others under a name.

    Other statements read only columns named in `read`, or any if it is None. Those after this one
    read none of the parts in `finished`.
    """

    name: str
    sql: str
    read: frozenset[str] | None
    finished: tuple[str, ...] = ()


class Statements(NamedTuple):
    """The parts, each after those it depends on, and the final statement."""

    parts: tuple[Part, ...]
    answer: str


def keep_or_separate(connection: "DuckDBPyConnection", table: str, sql: str) -> None:
    """Keep the rows of a query as a table, by separate statements where one does not fit.

    Raises what DuckDB raises.
    """
    try:
        keep(connection, table, sql)
    except engine_failures() as error:
        if not exceeds_limit(error):
            raise
        statements = separated_text(sql)
        if not statements.parts:
            raise
        keep_separately(connection, table, statements)


def keep_separately(connection: "DuckDBPyConnection", table: str, statements: Statements) -> None:
    """Keep the rows of the last statement as a table. Raises what DuckDB raises."""
    kept = []
    try:
        for part in statements.parts:
            kept.append(part.name)
            keep(connection, f'"{part.name}"', part.sql)
            for name in part.finished:
                connection.execute(f'DROP TABLE "{name}"')
                kept.remove(name)
        keep(connection, table, statements.answer)
    finally:
        for name in kept:
            connection.execute(f'DROP TABLE IF EXISTS "{name}"')


def separated_text(sql: str) -> Statements:
    """The statements of a query for DuckDB."""
    import sqlglot

    return separated(sqlglot.parse_one(sql, read=DUCKDB), lambda query: str(query.sql(DUCKDB)))


def separated(query: Any, text: Callable[[Any], str], prefix: str = "") -> Statements:
    """The statements of a tree of sqlglot; `prefix` is prepended to the names of parts.

    `text` is the SQL of a statement, in which it may change names in place.
    """
    tree = query.copy()
    queries = {part.alias: part.this for part in tree.ctes}
    # The name differs between releases of sqlglot.
    for name in ("with_", "with"):
        tree.args.pop(name, None)
    read = prune(tree, queries)
    finished = finished_parts(tree, queries)
    parts = [
        Part(
            prefix + name, text(query), read[name], tuple(prefix + one for one in finished[name])
        )
        for name, query in queries.items()
    ]  # fmt: skip
    return Statements(tuple(parts), text(tree))


def finished_parts(tree: Any, queries: dict[str, Any]) -> dict[str, list[str]]:
    """For each query: the parts of which it is the last reader."""
    from sqlglot import exp

    readers: dict[str, str | None] = {}
    for name, query in [*queries.items(), (None, tree)]:
        for table in query.find_all(exp.Table):
            if table.name in queries:
                readers[table.name] = name
    return {name: [one for one, reader in readers.items() if reader == name] for name in queries}
