"""Values of a plan's nodes over the rows of a relation, of groups, or of a chain of joins."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import numpy as np

from kdissect.rules.plans import joins, reductions, scalars, text_functions
from kdissect.rules.plans.columns import Array, Column, literal, mapped

Node = Sequence[Any]

REDUCTIONS: Final[dict[str, Callable[..., Column]]] = {
    "Sum": reductions.total, "Mean": reductions.mean, "Min": reductions.smallest,
    "Max": reductions.largest, "Any": reductions.any_of, "All": reductions.all_of,
    "Count": reductions.count, "CountDistinct": reductions.count_distinct,
    "ArgMin": reductions.at_smallest, "ArgMax": reductions.at_largest,
}  # fmt: skip
# Reductions with special arguments, and those above.
IS_REDUCTION: Final = frozenset((*REDUCTIONS, "CountStar", "Quantile", "ArrayCollect"))
RELATIONS: Final = frozenset((
    "UnboundTable", "Project", "Filter", "Aggregate", "Sort", "Limit", "Distinct", "DropColumns",
    "Union", "JoinChain", "JoinReference",
))  # fmt: skip


class Reads:
    """Reads of each value and column of a plan, to let it go after the last one.

    They are counted over tables without rows, as `tools.print_evidence` prints them, and counted
    down over others. That decides what is kept, never what a value is: one that is read once more
    is computed again.
    """

    def __init__(self, expected: Mapping[Hashable, int] | None = None) -> None:
        self.counts = Counter(expected or {})
        self.step = 1 if expected is None else -1

    def is_last(self, key: Hashable) -> bool:
        """Note a read; return whether it was the last one."""
        self.counts[key] += self.step
        return self.counts[key] == 0


class Relation:
    """Rows; `column` computes a column when it is first read."""

    def __init__(self, count: int, columns: Mapping[str, Callable[[], Column]]) -> None:
        self.count = count
        self.names = list(columns)
        self.number = -1
        self.reads: Reads | None = None
        self._makers = dict(columns)
        self._made: dict[str, Column] = {}

    def counted(self, number: int, reads: Reads | None) -> "Relation":
        """The same, with its reads noted under a number."""
        if self.reads is None:
            self.number, self.reads = number, reads
        return self

    def column(self, name: str) -> Column:
        """A column with a value for each row."""
        if name not in self._made:
            self._made[name] = self._makers[name]().spread(self.count)
        if self.reads is not None and self.reads.is_last((self.number, name)):
            return self._made.pop(name)
        return self._made[name]

    def same(self) -> "Relation":
        """A relation of the same rows and columns."""
        return Relation(self.count, {name: partial(self.column, name) for name in self.names})

    def taken(self, rows: Array, count: int) -> "Relation":
        """The relation of these rows."""
        return Relation(count, {name: self._taker(name, rows) for name in self.names})

    def _taker(self, name: str, rows: Array) -> Callable[[], Column]:
        return lambda: self.column(name).take(rows)


class Context(Protocol):
    """The plan that a node is of."""

    nodes: Sequence[Node]
    reads: Reads | None

    def relation(self, number: int) -> Relation:
        """The relation of a node."""
        ...

    def field(self, relation: int, name: str) -> Column:
        """A column of a relation."""
        ...

    def value(self, argument: Any) -> Column:
        """The values of a node over the rows of its relation."""
        ...

    def constant(self, argument: Any) -> Any:
        """The value of a literal."""
        ...

    def window(self, func: Any, start: Any, end: Any, group_by: Any, order_by: Any) -> Column:
        """A function of the rows of a group."""
        ...


class Values:
    """Values of nodes in a context: the source of fields, and the rows that reductions cover."""

    def __init__(
        self,
        plan: Context,
        field: Callable[[int, str], Column],
        value: Callable[[Any], Column],
        reduction: Callable[[str, Sequence[Any]], Column],
    ) -> None:
        self.plan = plan
        self.field = field
        self.value = value
        self.reduction = reduction

    def of(self, number: int) -> Column:
        """The values of a node."""
        name, kind, *arguments = self.plan.nodes[number]
        if name == "Field":
            return self.field(arguments[0]["n"], arguments[1])
        if name in scalars.BINARY:
            return scalars.BINARY[name](self.value(arguments[0]), self.value(arguments[1]))
        if name in IS_REDUCTION:
            return self.reduction(name, arguments)
        if name == "WindowFunction":
            func, _, start, end, group_by, order_by = arguments
            return self.plan.window(func, start, end, group_by, order_by)
        function = getattr(self, f"_{name.lower()}", None)
        if function is not None:
            found: Column = function(kind, *arguments)
            return found
        return FUNCTIONS[name](self.value(arguments[0]), *map(self.plan.constant, arguments[1:]))

    def _literal(self, kind: str, value: Any, *_: Any) -> Column:
        return literal(tuple(value) if isinstance(value, list) else value)

    def _not(self, _: str, argument: Any) -> Column:
        return scalars.not_(self.value(argument))

    def _isnull(self, _: str, argument: Any) -> Column:
        return Column(~self.value(argument).known)

    def _notnull(self, _: str, argument: Any) -> Column:
        return Column(self.value(argument).known)

    def _coalesce(self, _: str, arguments: Any) -> Column:
        return scalars.coalesce(*map(self.value, arguments))

    def _greatest(self, _: str, arguments: Any) -> Column:
        return scalars.greatest(*map(self.value, arguments))

    def _least(self, _: str, arguments: Any) -> Column:
        return scalars.least(*map(self.value, arguments))

    def _ifelse(self, _: str, condition: Any, then: Any, other: Any) -> Column:
        return scalars.if_else(self.value(condition), self.value(then), self.value(other))

    def _searchedcase(self, _: str, cases: Any, results: Any, default: Any) -> Column:
        conditions = [scalars.flags(self.value(case)) for case in cases]
        return scalars.chosen(conditions, list(map(self.value, results)), self.value(default))

    def _simplecase(self, _: str, base: Any, cases: Any, results: Any, default: Any) -> Column:
        column = self.value(base)
        conditions = [
            scalars.flags(scalars.BINARY["Equals"](column, self.value(case))) for case in cases
        ]
        return scalars.chosen(conditions, list(map(self.value, results)), self.value(default))

    def _between(self, _: str, argument: Any, lower: Any, upper: Any) -> Column:
        column = self.value(argument)
        return scalars.and_(
            scalars.BINARY["GreaterEqual"](column, self.value(lower)),
            scalars.BINARY["LessEqual"](column, self.value(upper)),
        )

    def _invalues(self, _: str, argument: Any, options: Any) -> Column:
        return scalars.is_in(self.value(argument), list(map(self.value, options)))

    def _cast(self, kind: str, argument: Any, _: Any) -> Column:
        column = self.value(argument)
        if kind == "string":
            return text_functions.to_text(column)
        if kind.startswith("int"):
            return text_functions.to_number(column)
        if kind == "float64":
            return Column(column.values.astype(np.float64), column.valid)
        return column

    _trycast = _cast

    def _round(self, kind: str, argument: Any, _: Any) -> Column:
        found = scalars.round_away(self.value(argument))
        return text_functions.to_number(found) if kind.startswith("int") else found

    def _clip(self, _: str, argument: Any, lower: Any, upper: Any) -> Column:
        low, high = (None if one is None else self.value(one) for one in (lower, upper))
        return scalars.clip(self.value(argument), low, high)

    def _stringconcat(self, _: str, arguments: Any) -> Column:
        return text_functions.concatenated(*map(self.value, arguments))

    def _stringjoin(self, _: str, arguments: Any, separator: Any) -> Column:
        text = self.plan.constant(separator)
        return text_functions.concatenated(*map(self.value, arguments), separator=text)

    def _mapget(self, _: str, found: Any, key: Any, default: Any) -> Column:
        if self.plan.constant(default) is not None:
            raise ValueError("no plan has such a default")
        return text_functions.looked_up(self.plan.constant(found), self.value(key))

    def _arraymap(self, _: str, argument: Any, *__: Any) -> Column:
        return self.value(argument)  # numbers become texts where they are joined

    def _arrayslice(self, _: str, argument: Any, start: Any, stop: Any) -> Column:
        first, last = self.plan.constant(start), self.plan.constant(stop)
        return mapped(self.value(argument), lambda words: words[first:last])

    def _timestampadd(self, _: str, time: Any, interval: Any) -> Column:
        start = self.value(time)
        _, kind, argument, *_unit = self.plan.nodes[interval["n"]]
        if kind != "interval('ms')":
            raise ValueError(f"no plan has {kind}")
        column = self.value(argument)
        return Column(start.values + column.values * 1_000, column.valid)

    def _scalarsubquery(self, _: str, relation: Any) -> Column:
        found = self.plan.relation(relation["n"])
        return found.column(found.names[0])

    def _insubquery(self, _: str, relation: Any, needle: Any) -> Column:
        found = self.plan.relation(relation["n"])
        column, options = self.value(needle), found.column(found.names[0])
        is_there = joins.has_match([column], [options], [False], len(column), found.count)
        return Column(is_there, column.valid)


def relation_of(nodes: Sequence[Node], number: int) -> int | None:
    """The relation whose rows a node has values of; None for a constant."""
    name, _, *arguments = nodes[number]
    if name == "Field":
        found: int = arguments[0]["n"]
        return found
    for argument in arguments:
        for one in argument if isinstance(argument, list) else [argument]:
            if isinstance(one, dict) and "n" in one:
                if nodes[one["n"]][0] in RELATIONS:
                    continue
                relation = relation_of(nodes, one["n"])
                if relation is not None:
                    return relation
    return None


def no_reduction(name: str, _: Sequence[Any]) -> Column:
    """Raise ValueError: there are no groups here."""
    raise ValueError(f"{name} of no group")


FUNCTIONS: Final[dict[str, Callable[..., Column]]] = {
    "StringContains": text_functions.contains,
    "StringSQLLike": lambda column, pattern, _: text_functions.like(column, pattern),
    "StartsWith": text_functions.starts_with, "RegexSearch": text_functions.regex_search,
    "RegexExtract": text_functions.regex_extract, "RegexReplace": text_functions.regex_replace,
    "StringSplit": text_functions.split, "ArrayLength": text_functions.length,
    "ArraySort": text_functions.sorted_lists, "ArrayStringJoin": text_functions.joined,
    "ArrayIndex": text_functions.element,
}  # fmt: skip
