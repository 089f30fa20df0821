"""A query as several statements: one for each WITH clause, and the last one.

For DuckDB there is one for each subquery that groups rows or has windows, and for each order of
windows, too. Spark computes a WITH clause at each use. DuckDB computes it once, and executes all
queries that read it at the same time, with the memory of all.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kdissect.sql.column_pruning import prune
from kdissect.sql.failures import engine_failures, exceeds_limit
from kdissect.sql.spilled_percentiles import keep, keep_at_once
from kdissect.sql.window_statements import with_windows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DUCKDB: Final = "duckdb"
SUBQUERY: Final = "subquery {}"


class Part(NamedTuple):
    """A statement whose rows are available to others under a name.

    Other statements read only columns named in `read`, or any if it is None. Those after this one
    read none of the parts in `finished`. `tables` are what it reads, itself or by other parts.
    """

    name: str
    sql: str
    read: frozenset[str] | None
    finished: tuple[str, ...] = ()
    tables: frozenset[str] = frozenset()


class Statements(NamedTuple):
    """The parts, each after those it depends on, and the final statement."""

    parts: tuple[Part, ...]
    answer: str

    def split(self, varying: Collection[str]) -> "tuple[tuple[Part, ...], Statements]":
        """The parts that read none of the tables, and the statements without these parts."""
        steady = tuple(part for part in self.parts if not part.tables & {*varying})
        names = {part.name for part in steady}
        others = [
            part._replace(finished=tuple(one for one in part.finished if one not in names))
            for part in self.parts
            if part.name not in names
        ]
        return steady, Statements(tuple(others), self.answer)


def keep_or_separate(connection: "DuckDBPyConnection", table: str, sql: str) -> None:
    """Keep the rows of a query as a table, by separate statements where one does not fit.

    Percentiles are taken in steps in those statements that need it: in steps of the whole query,
    all that it reads would be executed several times. Raises what DuckDB raises.
    """
    if keep_if_it_fits(connection, table, sql):
        return
    statements = separated_text(sql)
    if statements.parts:
        keep_separately(connection, table, statements)
    else:
        keep(connection, table, sql)


def keep_if_it_fits(connection: "DuckDBPyConnection", table: str, sql: str) -> bool:
    """Keep the rows of a query as a table; False if memory does not suffice for one statement."""
    try:
        keep_at_once(connection, table, sql)
    except engine_failures() as error:
        if not exceeds_limit(error):
            raise
        return False
    return True


def keep_separately(connection: "DuckDBPyConnection", table: str, statements: Statements) -> None:
    """Keep the rows of the last statement as a table. Raises what DuckDB raises."""
    with kept_parts(connection, statements.parts):
        keep(connection, table, statements.answer)


@contextmanager
def kept_parts(connection: "DuckDBPyConnection", parts: Sequence[Part]) -> Iterator[None]:
    """A context in which the rows of parts are kept. Raises what DuckDB raises."""
    kept = []
    try:
        for part in parts:
            kept.append(part.name)
            keep(connection, f'"{part.name}"', part.sql)
            for name in part.finished:
                connection.execute(f'DROP TABLE "{name}"')
                kept.remove(name)
        yield
    finally:
        for name in kept:
            connection.execute(f'DROP TABLE IF EXISTS "{name}"')


def separated_text(sql: str) -> Statements:
    """The statements of a query for DuckDB."""
    import sqlglot

    tree = sqlglot.parse_one(sql, read=DUCKDB)
    queries = with_windows(tree, with_subqueries(tree, clauses_of(tree)))
    return _separated(tree, queries, lambda one: str(one.sql(DUCKDB)))


def separated(query: Any, text: Callable[[Any], str], prefix: str = "") -> Statements:
    """The statements of a tree of sqlglot; `prefix` is prepended to the names of parts.

    `text` is the SQL of a statement, in which it may change names in place.
    """
    tree = query.copy()
    return _separated(tree, clauses_of(tree), text, prefix)


def _separated(
    tree: Any, queries: dict[str, Any], text: Callable[[Any], str], prefix: str = ""
) -> Statements:
    read = prune(tree, queries)
    finished = finished_parts(tree, queries)
    tables = tables_read(queries)
    parts = [
        Part(
            prefix + name,
            text(query),
            read[name],
            tuple(prefix + one for one in finished[name]),
            tables[name],
        )
        for name, query in queries.items()
    ]
    return Statements(tuple(parts), text(tree))


def clauses_of(tree: Any) -> dict[str, Any]:
    """Remove the WITH clauses from a query, and return their queries by name."""
    queries = {part.alias: part.this.pop() for part in tree.ctes}
    # The name differs between releases of sqlglot.
    for name in ("with_", "with"):
        tree.args.pop(name, None)
    return queries


def with_subqueries(tree: Any, queries: dict[str, Any]) -> dict[str, Any]:
    """The queries, and before each the subqueries that it selects from and that hold rows.

    They are replaced by names, in these queries and in the last one, `tree`.
    """
    from sqlglot import exp

    named: dict[str, Any] = {}
    aliases = map(SUBQUERY.format, count(1))
    for name, query in [*queries.items(), (None, tree)]:
        subqueries = [one for one in query.find_all(exp.Subquery) if holds_rows(one)]
        for subquery in reversed(subqueries):  # the inner ones first
            alias = next(aliases)
            identifier = exp.to_identifier(alias, quoted=True)
            subquery.replace(exp.Table(this=identifier, alias=subquery.args.get("alias")))
            named[alias] = subquery.this.pop()
        if name is not None:
            named[name] = query
    return named


def holds_rows(subquery: Any) -> bool:
    """Return whether a subquery groups rows or has windows, and no expression contains it."""
    from sqlglot import exp

    inner = subquery.this
    if not isinstance(inner, exp.Select):
        return False
    above, parts = subquery.parent, (exp.From, exp.Join, exp.Query)
    while isinstance(above, parts):
        above = above.parent
    has_windows = any(one.parent_select is inner for one in inner.find_all(exp.Window))
    is_grouped = inner.args.get("group") or inner.args.get("distinct")
    return above is None and bool(is_grouped or has_windows)


def tables_read(queries: dict[str, Any]) -> dict[str, frozenset[str]]:
    """For each query: the tables that it reads, itself or by those before it."""
    from sqlglot import exp

    read: dict[str, frozenset[str]] = {}
    for name, query in queries.items():
        names = {table.name for table in query.find_all(exp.Table)}
        inner = frozenset[str]().union(*(read.get(one, frozenset((one,))) for one in names))
        read[name] = inner
    return read


def finished_parts(tree: Any, queries: dict[str, Any]) -> dict[str, list[str]]:
    """For each query: the parts of which it is the last reader."""
    from sqlglot import exp

    readers: dict[str, str | None] = {}
    for name, query in [*queries.items(), (None, tree)]:
        for table in query.find_all(exp.Table):
            if table.name in queries:
                readers[table.name] = name
    return {name: [one for one, reader in readers.items() if reader == name] for name in queries}
