"""Statements with windows of several orders, as one statement for each order.

DuckDB sorts the rows for all windows of a statement at the same time. Where two sorts do not fit
into memory, they take ten times as long as one after the other.
"""

from itertools import count
from typing import Any, Final

WINDOWED: Final = "rows with windows {}"
# Parts of a SELECT whose rows its windows do not see, or that depend on the windows.
OTHERS: Final = ("joins", "laterals", "group", "having", "qualify", "distinct", "limit", "offset")


def with_windows(tree: Any, queries: dict[str, Any]) -> dict[str, Any]:
    """The queries, and before each the statements that have some of its windows.

    Their values are columns for these queries and for the last one, `tree`.
    """
    aliases = map(WINDOWED.format, count(1))
    found: dict[str, Any] = {}
    for name, query in [*queries.items(), (None, tree)]:
        for windows in _windows_by_order(query)[:-1]:  # those of the last order stay
            alias = next(aliases)
            found[alias] = _taken(query, windows, alias)
        if name is not None:
            found[name] = query
    return found


def _windows_by_order(query: Any) -> list[list[Any]]:
    """The windows of a SELECT from one source, those of the same partitions and order together."""
    from sqlglot import exp

    if not isinstance(query, exp.Select) or any(query.args.get(part) for part in OTHERS):
        return []
    source = _source(query)
    if source is None or not source.alias_or_name or query.is_star:
        return []
    in_source = {id(node) for node in source.walk()}
    others = [one for one in query.find_all(exp.Query, exp.Lambda) if id(one) not in in_source]
    is_plain = others == [query] and all(
        one.table == source.alias_or_name for one in _own(query, exp.Column)
    )
    found: dict[tuple[str, ...], list[Any]] = {}
    for window in _own(query, exp.Window) if is_plain else ():
        order = window.args.get("order")
        keys = [one.sql() for one in window.args.get("partition_by") or ()]
        found.setdefault((*keys, order.sql() if order else ""), []).append(window)
    return list(found.values())


def _own(query: Any, kind: type) -> list[Any]:
    """The nodes of a kind in a SELECT, without those in what it selects from."""
    return [one for one in query.find_all(kind) if one.parent_select is query]


def _taken(query: Any, windows: list[Any], alias: str) -> Any:
    """A statement that has the windows, and all columns that `query` reads beside their values."""
    from sqlglot import exp

    source = _source(query)
    name = source.alias_or_name
    taken = exp.select(copy=False).from_(source.copy())
    if where := query.args.get("where"):
        taken.set("where", where.pop())
    values = []
    for number, window in enumerate(windows, 1):
        title = exp.to_identifier(f"{alias}, {number}", quoted=True)
        window.replace(exp.column(title.copy(), table=exp.to_identifier(name, quoted=True)))
        values.append(exp.alias_(window, title))
    read = {one.name for one in _own(query, exp.Column)} - {one.alias for one in values}
    columns = [exp.column(one, table=name, quoted=True) for one in sorted(read)]
    taken.set("expressions", columns + values)
    table = exp.to_identifier(alias, quoted=True)
    renamed = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    source.replace(exp.Table(this=table, alias=renamed))
    return taken


def _source(query: Any) -> Any:
    """What a SELECT selects from."""
    from sqlglot import exp

    # The nearest one is its own; its name in the tree differs between releases of sqlglot.
    source = query.find(exp.From)
    return source.this if source and source.parent is query else None
