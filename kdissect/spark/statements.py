"""An Ibis expression as several Spark SQL statements, split where Spark would repeat work.

Spark inlines WITH clauses at each use and analyses, plans and computes them there again. Nested
ones would be expanded hundreds of times (`lag`: 990 scans of 5 tables). So each part that is used
more than once is a separate statement, whose rows are kept.
"""

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from kdissect.sql.separate_statements import Statements, separated

if TYPE_CHECKING:
    from ibis.expr.operations import Node
    from sqlglot.expressions import Query

DIALECT: Final = "spark"


def statements_of(answer: "Node", prefix: str) -> Statements:
    """The statements; `prefix` is prepended to the names of tables and parts."""
    return separated(compiled(answer), partial(said, prefix=prefix), prefix)


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
