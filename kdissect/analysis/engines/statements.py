"""An Ibis expression as several SQL statements: each part that is used more than once is one.

Engines compute WITH clauses at each use, or all users of one at the same time, with the memory of
all.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kdissect.analysis.engines.column_pruning import prune

if TYPE_CHECKING:
    from sqlglot.expressions import Query


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


def separated(compiled: "Query", text: Callable[[Any], str], prefix: str = "") -> Statements:
    """The statements of a compiled expression; `prefix` is prepended to the names of parts.

    `text` is the SQL of a statement, in which it may change names in place.
    """
    tree = compiled.copy()
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
