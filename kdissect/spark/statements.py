"""An Ibis expression as several Spark SQL statements, split where Spark would repeat work.

Spark inlines WITH clauses at each use and analyses, plans and computes them there again. Nested
ones would be expanded hundreds of times (`lag`: 990 scans of 5 tables). So each part that is used
more than once is a separate statement, whose rows are kept.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kdissect.spark.column_pruning import prune

if TYPE_CHECKING:
    from ibis.expr.operations import Node
    from sqlglot.expressions import Query

DIALECT: Final = "spark"


class Part(NamedTuple):
    """A statement whose rows are available to others under a name.

    Other statements read only columns named in `read`, or any if it is None.
    """

    name: str
    sql: str
    read: frozenset[str] | None


class Statements(NamedTuple):
    """The parts, each after those it depends on, and the final statement."""

    parts: tuple[Part, ...]
    answer: str


def statements_of(answer: "Node", prefix: str) -> Statements:
    """The statements; `prefix` is prepended to the names of tables and parts."""
    tree = compiled(answer).copy()
    queries = {part.alias: part.this for part in tree.ctes}
    # The name differs between releases of sqlglot.
    for name in ("with_", "with"):
        tree.args.pop(name, None)
    read = prune(tree, queries)
    parts = [
        Part(prefix + name, said(query, prefix), read[name]) for name, query in queries.items()
    ]
    return Statements(tuple(parts), said(tree, prefix))


@lru_cache(maxsize=64)
def compiled(answer: "Node") -> "Query":
    """The expression in Spark SQL, as Ibis compiles it without a connection."""
    import ibis
    from ibis.backends.sql.compilers.pyspark import PySparkCompiler
    from ibis.config import Config

    class SparkOptions(Config):  # type: ignore[misc]  # Ibis ships no types
        """Options that Ibis's own connection to Spark registers, and its compiler reads."""

        treat_nan_as_null: bool = False

    options = ibis.options
    before = options.pyspark, options.sql.fuse_selects
    try:
        options.pyspark = before[0] or SparkOptions()
        # Fusing repeats the expressions of one SELECT in another, and hides common parts.
        options.sql.fuse_selects = False
        query: Query = PySparkCompiler().to_sqlglot(answer.to_expr())
        return query
    finally:
        options.pyspark, options.sql.fuse_selects = before


def said(tree: Any, prefix: str) -> str:
    """SQL of a sqlglot expression, with its table names changed in place."""
    from sqlglot import exp
    from sqlglot.errors import ErrorLevel

    for table in tree.find_all(exp.Table):
        name = table.name
        if not table.alias:
            # So that column references by table name still work.
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        table.set("this", exp.to_identifier(prefix + name, quoted=True))
    sql: str = tree.sql(dialect=DIALECT, unsupported_level=ErrorLevel.RAISE, comments=False)
    return sql
