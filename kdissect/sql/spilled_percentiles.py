"""Percentiles of more values than DuckDB has memory for: statements whose state it can spill.

DuckDB's QUANTILE_CONT keeps all values of all groups, each percentile its own, and cannot spill
them: fourteen percentiles of ten million exchanges are 1.5 GB. Here the values are counted by
intervals first. Of those intervals that a percentile lies in, the values are counted one by one,
and it is interpolated between the two that it lies between. Each of these states is a hash table or
a sort, and smaller by far.

    base        keys of the groups and the arguments of percentiles, a row for each row
    intervals   for each group: the intervals in which the sought ranks are, with their first rank
    values      the values at the ranks, of which the percentiles follow
"""

from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from operator import is_not
from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.sql.failures import engine_failures, exceeds_limit

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from sqlglot import exp

FUNCTION: Final = "QUANTILE_CONT"
PREFIX: Final = "percentiles"  # of the tables that the statements make
# Parts of a SELECT that give its rows; their names differ between releases of sqlglot.
PARTS: Final = ("from_", "from", "joins", "laterals", "where")
# Widths of intervals, in ns: of values below 17 ms, below 69 s, and above.
INTERVAL: Final = (
    "CASE WHEN ABS({0}) < 16777216 THEN FLOOR({0} / 4096) * 4096 "
    "WHEN ABS({0}) < 68719476736 THEN FLOOR({0} / 1048576) * 1048576 "
    "ELSE FLOOR({0} / 1073741824) * 1073741824 END"
)


class Steps(NamedTuple):
    """Statements to be run in order, the query that then gives the rows, and tables to drop."""

    statements: list[str]
    query: str
    tables: list[str]


def keep(connection: "DuckDBPyConnection", table: str, sql: str) -> None:
    """Keep the rows of a query as a table, in steps where its percentiles do not fit into memory.

    Raises what DuckDB raises.
    """
    try:
        keep_at_once(connection, table, sql)
    except engine_failures() as error:
        steps = in_steps(sql) if exceeds_limit(error) else None
        if steps is None:
            raise
        keep_in_steps(connection, table, steps)


def keep_at_once(connection: "DuckDBPyConnection", table: str, sql: str) -> None:
    """Keep the rows of a query as a table, by one statement. Raises what DuckDB raises."""
    connection.execute(f"CREATE TABLE {table} AS {sql}")


def keep_in_steps(connection: "DuckDBPyConnection", table: str, steps: Steps) -> None:
    """Run the steps, and keep the rows of their query. Raises what DuckDB raises."""
    try:
        for statement in steps.statements:
            connection.execute(statement)
        keep_at_once(connection, table, steps.query)
    finally:
        for one in steps.tables:
            connection.execute(f"DROP TABLE IF EXISTS {one}")


def in_steps(sql: str) -> Steps | None:
    """The steps of a query with percentiles of groups; None without any.

    Values are the same as QUANTILE_CONT's, up to the last bit of the interpolation.
    """
    if FUNCTION not in sql.upper():
        return None  # others are long, and parsing them takes memory
    import sqlglot
    from sqlglot import exp

    tree = sqlglot.parse_one(sql, read="duckdb")
    steps = Steps([], "", [])
    # Inner ones first: what is outside reads them.
    for select in reversed(list(tree.find_all(exp.Select))):
        if (found := percentiles_of(select)) and (clauses := clauses_before(select)) is not None:
            _replace(select, found, clauses, steps)
    return steps._replace(query=tree.sql("duckdb")) if steps.tables else None


def percentiles_of(select: "exp.Select") -> "list[exp.PercentileCont]":
    """Percentiles that a SELECT itself has, over its groups, if those are listed."""
    from sqlglot import exp

    group = select.args.get("group")
    others = [] if group is None else [p for name, p in group.args.items() if name != "expressions"]
    if any(others) or (group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets)):
        return []
    return [
        one
        for one in select.find_all(exp.PercentileCont)
        if one.find_ancestor(exp.Select) is select
        and isinstance(one.expression, exp.Literal)
        and not one.find_ancestor(exp.Window, exp.Filter, exp.Order)
    ]


def _replace(
    select: "exp.Select", found: "list[exp.PercentileCont]", clauses: "exp.With", steps: Steps
) -> None:
    """Replace percentiles in place by values of tables, which the steps make."""
    from sqlglot import exp

    number = len(steps.tables)
    base = f'"{PREFIX} {number} base"'
    keys = [key.sql("duckdb") for key in keys_of(select)]
    arguments = list(dict.fromkeys(one.this.sql("duckdb") for one in found))
    columns = [f"{key} AS k{place}" for place, key in enumerate(keys)]
    columns += [f"{argument} AS x{place}" for place, argument in enumerate(arguments)]
    source = exp.Select(
        **{
            name: part.copy() if isinstance(part, exp.Expression) else [one.copy() for one in part]
            for name in PARTS
            if (part := select.args.get(name))
        }
    ).select(*columns, dialect="duckdb")
    if clauses.expressions:
        source.set("with_", clauses)
    steps.tables.append(base)
    steps.statements.append(f"CREATE TEMP TABLE {base} AS {source.sql('duckdb')}")
    for place, argument in enumerate(arguments):
        own = [one for one in found if one.this.sql("duckdb") == argument]
        shares = list(dict.fromkeys(one.expression.sql("duckdb") for one in own))
        values = f'"{PREFIX} {number} {place}"'
        steps.tables.append(values)
        made = values_of(base, len(keys), f"x{place}", shares)
        steps.statements.append(f"CREATE TEMP TABLE {values} AS {made}")
        for one in own:
            share = shares.index(one.expression.sql("duckdb"))
            where = " AND ".join(f"k{at} IS NOT DISTINCT FROM {key}" for at, key in enumerate(keys))
            value = f"(SELECT MAX(p{share}) FROM {values} WHERE {where or 'TRUE'})"  # noqa: S608  # ours
            # All rows are one group only if there is an aggregate.
            one.replace(sql_expression(value if select.args.get("group") else f"MAX({value})"))


def clauses_before(select: "exp.Select") -> "exp.With | None":
    """The WITH clauses that a SELECT may read: its own, and earlier ones of the queries around it.

    None if a name has two of them, of which the inner one hides the other.
    """
    from sqlglot import exp

    found: list[exp.CTE] = []
    is_recursive = False
    inside: exp.CTE | None = None  # the innermost clause that has the SELECT
    node: exp.Expr | None = select
    while node is not None:
        if isinstance(node, exp.CTE):
            inside = node
        elif isinstance(node, exp.Query):
            found[:0] = takewhile(partial(is_not, inside), node.ctes)
            beside = node.args.get("with_") or node.args.get("with")
            is_recursive |= beside is not None and bool(beside.args.get("recursive"))
        node = node.parent
    if len({one.alias for one in found}) < len(found):
        return None
    return exp.With(expressions=[one.copy() for one in found], recursive=is_recursive)


def keys_of(select: "exp.Select") -> "list[exp.Expression]":
    """What a SELECT groups by; numbers stand for its columns."""
    from sqlglot import exp

    group = select.args.get("group")
    keys = []
    for one in group.expressions if group is not None else ():
        if isinstance(one, exp.Literal) and one.is_int:
            keys.append(select.expressions[int(one.this) - 1].unalias())
        else:
            keys.append(one)
    return keys


def sql_expression(text: str) -> "exp.Expr":
    """A value in parentheses, as a part of a query."""
    import sqlglot

    return sqlglot.parse_one(text, read="duckdb")


def values_of(base: str, key_count: int, x: str, shares: Sequence[str]) -> str:
    """Query for the percentiles p0, p1, … of a column for each group of k0, k1, …."""
    keys = "".join(f"k{at}, " for at in range(key_count))
    of_keys = "".join(f"base.k{at}, " for at in range(key_count))
    by_keys = f"PARTITION BY {keys.removesuffix(', ')} " if keys else ""
    by_places = f"PARTITION BY {keys}place "
    same = "".join(f"base.k{at} IS NOT DISTINCT FROM sought.k{at} AND " for at in range(key_count))
    # The two ranks around each percentile, and how far it is from the first to the second.
    rank = "((total - 1) * CAST({} AS DOUBLE))"
    first = [f"FLOOR{rank.format(share)}" for share in shares]
    second = [f"CEIL{rank.format(share)}" for share in shares]
    is_sought = " OR ".join(
        f"({one} >= before AND {one} < before + count)" for one in [*first, *second]
    )
    found = ", ".join(
        f"{value_at(low)} * (1 - ({rank.format(share)} - {low})) "
        f"+ {value_at(high)} * ({rank.format(share)} - {low}) AS p{number}"
        for number, (share, low, high) in enumerate(zip(shares, first, second, strict=True))
    )
    return (  # the names are ours
        f"WITH counted AS (SELECT {keys}{INTERVAL.format(x)} AS place, COUNT(*) AS count "  # noqa: S608
        f"FROM {base} WHERE {x} IS NOT NULL GROUP BY ALL), "
        f"intervals AS (SELECT *, SUM(count) OVER ({by_keys}ORDER BY place) - count AS before, "
        f"SUM(count) OVER ({by_keys}) AS total FROM counted), "
        f"sought AS (SELECT * FROM intervals WHERE {is_sought}), "
        f"single AS (SELECT {of_keys}sought.place, sought.before AS begin, sought.total, "
        f"base.{x} AS value, COUNT(*) AS count FROM {base} AS base JOIN sought "
        f"ON {same}sought.place = {INTERVAL.format(f'base.{x}')} GROUP BY ALL), "
        f"ranked AS (SELECT *, begin + SUM(count) OVER ({by_places}ORDER BY value) - count "
        "AS before FROM single) "
        f"SELECT {keys}{found} FROM ranked GROUP BY {keys}total"
    )


def value_at(rank: str) -> str:
    """The value at a rank of its group."""
    return f"MAX(value) FILTER (WHERE {rank} >= before AND {rank} < before + count)"
