"""Columns that statements read from each other.

Spark prunes columns within a statement, but keeps all columns of a statement whose rows are kept.
Ibis passes on all columns of a table, of which an analysis reads a few. The trees are sqlglot's of
Ibis's SQL: names are unique within a query, and only GROUP BY references columns by their place.
The optimizer of sqlglot does this, too, but needs every ``*`` expanded, and fails for some trees.
"""

from collections.abc import Iterator
from typing import Any

Names = frozenset[str] | None  # None: all


def prune(answer: Any, parts: dict[str, Any]) -> dict[str, Names]:
    """Remove from `parts`, each after those it reads, the columns that nothing reads.

    Returns what is read of each part by name.
    """
    read: dict[str, Names] = {name: frozenset() for name in parts}
    _prune(answer, None, read)
    for name in reversed(parts):
        _prune(parts[name], read[name], read)
    return read


def _prune(query: Any, wanted: Names, read: dict[str, Names]) -> None:
    """Remove unwanted columns from a query, and add what remains to what is read of the parts."""
    from sqlglot import exp

    if isinstance(query, exp.Subquery):
        _prune(query.this, wanted, read)
    elif isinstance(query, exp.SetOperation):  # columns belong together by their places
        _prune(query.left, None, read)
        _prune(query.right, None, read)
    elif isinstance(query, exp.Table):
        before = read.get(query.name, frozenset())
        read[query.name] = None if wanted is None or before is None else before | wanted
    else:
        if query.args.get("distinct"):  # each column is important for the number of rows
            wanted = None
        if wanted is not None and not query.is_star:
            group = query.args.get("group")
            keys = len(group.expressions) if group else 0  # the first columns, by place
            others = [
                one
                for one in query.selects[keys:]
                if one.alias_or_name in wanted or one.find(exp.UDTF)  # EXPLODE makes rows
            ]
            query.set("expressions", query.selects[:keys] + others or query.selects[:1])
        names, inner = _contents(query)
        for subquery in inner:  # of a condition or of an expression
            _prune(subquery, None, read)
        passed: Names = names
        if query.is_star:
            passed = None if wanted is None else names | wanted
        for source in _sources(query):
            _prune(source, passed, read)


def _contents(query: Any) -> tuple[frozenset[str], list[Any]]:
    """Names in a SELECT, and queries in its expressions; not the queries that it selects from."""
    from sqlglot import exp

    below = {id(source) for source in _sources(query)}
    names, inner, waiting = set(), [], [*query.args.values()]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list | tuple):  # sqlglot's own walk leaves out tuples
            waiting.extend(node)
        elif isinstance(node, exp.Identifier):
            names.add(node.name)
        elif isinstance(node, exp.Expression) and id(node) not in below:
            if isinstance(node, exp.Query):
                inner.append(node)
            waiting.extend(node.args.values())
    return frozenset(names), inner


def _sources(query: Any) -> Iterator[Any]:
    """Tables and queries that a SELECT reads."""
    # The name differs between releases of sqlglot.
    for source in (query.args.get("from_") or query.args.get("from"), *query.args.get("joins", ())):
        if source is not None:
            yield source.this
