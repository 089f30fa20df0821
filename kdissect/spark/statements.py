"""An Ibis expression as statements of Spark's SQL, cut where Spark would do the same work again.

Spark puts what a WITH clause names into each place of its use and analyses, plans and computes it
there anew. An answer whose parts are made of parts has hundreds of places then (`lag`: 990 scans of
5 tables). So each part that is used more than once is a statement of its own, whose rows are kept.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from ibis.expr.operations import Node
    from sqlglot.expressions import Query

DIALECT: Final = "spark"


class Part(NamedTuple):
    """A statement whose rows others find under a name."""

    name: str
    sql: str


class Statements(NamedTuple):
    """The parts, each after those that it is made of, and the statement of the answer."""

    parts: tuple[Part, ...]
    answer: str


def statements_of(answer: "Node", prefix: str) -> Statements:
    """The statements; `prefix` is put before the names of tables and parts."""
    tree = compiled(answer).copy()
    parts = [Part(prefix + part.alias, said(part.this, prefix)) for part in tree.ctes]
    # Releases of sqlglot differ in its name.
    for name in ("with_", "with"):
        tree.args.pop(name, None)
    return Statements(tuple(parts), said(tree, prefix))


@lru_cache(maxsize=64)
def compiled(answer: "Node") -> "Query":
    """The expression in Spark's SQL, as Ibis makes it without a connection."""
    import ibis
    from ibis.backends.sql.compilers.pyspark import PySparkCompiler
    from ibis.config import Config

    class SparkOptions(Config):  # type: ignore[misc]  # Ibis ships no types
        """What Ibis's own connection to Spark registers, and its compiler reads."""

        treat_nan_as_null: bool = False

    options = ibis.options
    before = options.pyspark, options.sql.fuse_selects
    try:
        options.pyspark = before[0] or SparkOptions()
        # Fused, one SELECT repeats the expressions of another, and hides what could be shared.
        options.sql.fuse_selects = False
        query: Query = PySparkCompiler().to_sqlglot(answer.to_expr())
        return query
    finally:
        options.pyspark, options.sql.fuse_selects = before


def said(tree: Any, prefix: str) -> str:
    """The SQL of an expression of sqlglot, with the names of its tables changed on the way."""
    from sqlglot import exp
    from sqlglot.errors import ErrorLevel

    for table in tree.find_all(exp.Table):
        name = table.name
        if not table.alias:
            # So that columns can be called by it still.
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        table.set("this", exp.to_identifier(prefix + name, quoted=True))
    sql: str = tree.sql(dialect=DIALECT, unsupported_level=ErrorLevel.RAISE, comments=False)
    return sql
