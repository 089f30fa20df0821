"""Ibis expressions as DuckDB's SQL: one statement, or several that take less memory."""

from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.engines.statements import Statements, separated
from kdissect.sql.spilled_percentiles import keep

if TYPE_CHECKING:
    import duckdb
    from ibis.expr.operations import Node

DIALECT: Final = "duckdb"
_COMPILING: Final = Lock()  # Ibis's options are those of the process


@lru_cache(maxsize=64)
def sql_of(answer: "Node") -> str:
    """An expression compiled to DuckDB's SQL; compiling takes longer than a small table's query."""
    return str(_compiled(answer).sql(DIALECT))


@lru_cache(maxsize=64)
def statements_of(answer: "Node") -> Statements:
    """An expression as several statements."""
    return separated(_compiled(answer), lambda query: str(query.sql(DIALECT)))


def keep_separately(connection: "duckdb.DuckDBPyConnection", table: str, answer: "Node") -> None:
    """Keep the rows of an expression as a table, by statements that are executed one by one.

    DuckDB executes all that read a WITH clause at the same time. Raises what DuckDB raises.
    """
    statements = statements_of(answer)
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


def _compiled(answer: "Node") -> Any:
    """The tree of sqlglot for an expression, as Ibis compiles it without a connection."""
    import ibis
    from ibis.backends.sql.compilers.duckdb import DuckDBCompiler

    # Merging nested SELECTs takes half of the compiling, and DuckDB's optimizer does it anyway.
    settings = ibis.options.sql
    with _COMPILING:
        is_fused, settings.fuse_selects = settings.fuse_selects, False
        try:
            return DuckDBCompiler().to_sqlglot(answer.to_expr())
        finally:
            settings.fuse_selects = is_fused
