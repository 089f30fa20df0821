"""Evaluates plans: of each relation only the columns that something reads, each once.

A plan is a list of nodes, as `tools.print_evidence` stores those of Ibis: ``[name, type, argument,
…]``. An argument is ``{"n": 7}`` for another node, a list, a dict ``{"d": [[name, argument], …]}``
or a value. Nodes stand behind those that they use.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from kdissect.rules.plans import joins, reductions, scalars, windows
from kdissect.rules.plans.columns import Array, Column, literal, mapped
from kdissect.rules.plans.grouping import Groups, sorted_rows

Node = Sequence[Any]
Source = Callable[[str], "Relation"]

REDUCTIONS: Final[dict[str, Callable[..., Column]]] = {
    "Sum": reductions.total, "Mean": reductions.mean, "Min": reductions.smallest,
    "Max": reductions.largest, "Any": reductions.any_of, "All": reductions.all_of,
    "Count": reductions.count, "CountDistinct": reductions.count_distinct,
    "ArgMin": reductions.at_smallest, "ArgMax": reductions.at_largest,
}  # fmt: skip
RELATIONS: Final = frozenset((
    "UnboundTable", "Project", "Filter", "Aggregate", "Sort", "Limit", "Distinct", "DropColumns",
    "Union", "JoinChain", "JoinReference",
))  # fmt: skip


class Relation:
    """Rows; `column` computes a column when it is first read."""

    def __init__(self, count: int, columns: Mapping[str, Callable[[], Column]]) -> None:
        self.count = count
        self.names = list(columns)
        self._makers = dict(columns)
        self._made: dict[str, Column] = {}

    def column(self, name: str) -> Column:
        """A column with a value for each row."""
        if name not in self._made:
            self._made[name] = self._makers[name]().spread(self.count)
        return self._made[name]

    def taken(self, rows: Array, count: int) -> "Relation":
        """The relation of these rows."""
        return Relation(count, {name: self._taker(name, rows) for name in self.names})

    def _taker(self, name: str, rows: Array) -> Callable[[], Column]:
        return lambda: self.column(name).take(rows)


class Plan:
    """A plan over the tables that `source` gives by name."""

    def __init__(self, nodes: Sequence[Node], source: Source) -> None:
        self.nodes = nodes
        self.source = source
        self.relations: dict[int, Relation] = {}
        self.values: dict[int, Column] = {}
        self.orders: dict[tuple[Any, ...], windows.Ordered] = {}

    def rows(self, number: int) -> Iterator[dict[str, Any]]:
        """The rows of a relation, with its columns by name."""
        return rows_of(self.columns(number))

    def columns(self, number: int) -> dict[str, Column]:
        """The columns of a relation by name."""
        relation = self.relation(number)
        return {name: relation.column(name) for name in relation.names}

    def forget(self) -> None:
        """Release what was computed."""
        self.relations.clear()
        self.values.clear()
        self.orders.clear()

    def relation(self, number: int) -> Relation:
        """The relation of a node."""
        if number not in self.relations:
            name, _, *arguments = self.nodes[number]
            self.relations[number] = getattr(self, f"_{name.lower()}")(*arguments)
        return self.relations[number]

    def value(self, argument: Any) -> Column:
        """The values of a node over the rows of its relation."""
        number = argument["n"]
        if number not in self.values:
            self.values[number] = Values(self, self.field, self.value, self._reduced).of(number)
        return self.values[number]

    def field(self, relation: int, name: str) -> Column:
        """A column of a relation."""
        return self.relation(relation).column(name)

    def _reduced(self, name: str, arguments: Sequence[Any]) -> Column:
        raise ValueError(f"{name} of no group")

    # Relations

    def _unboundtable(self, name: str, *_: Any) -> Relation:
        return self.source(name)

    def _joinreference(self, parent: Any, _: Any) -> Relation:
        return self.relation(parent["n"])

    def _dropcolumns(self, parent: Any, dropped: Any) -> Relation:
        found = self.relation(parent["n"])
        kept = [name for name in found.names if name not in dropped]
        return Relation(found.count, {name: partial(found.column, name) for name in kept})

    def _project(self, parent: Any, values: Any) -> Relation:
        found = self.relation(parent["n"])
        unnested = [(name, one) for name, one in values["d"] if self._kind(one) == "Unnest"]
        if unnested:
            return self._unnested(found, values, *unnested[0])
        return Relation(found.count, {name: partial(self.value, one) for name, one in values["d"]})

    def _unnested(self, found: Relation, values: Any, name: str, one: Any) -> Relation:
        lists = self.value(self.nodes[one["n"]][2]).spread(found.count)
        rows, elements = scalars.unnested(lists)
        columns: dict[str, Callable[[], Column]] = {
            other: partial(self._taken, argument, found.count, rows)
            for other, argument in values["d"]
        }
        return Relation(len(rows), {**columns, name: lambda: elements})

    def _taken(self, argument: Any, count: int, rows: Array) -> Column:
        return self.value(argument).spread(count).take(rows)

    def _filter(self, parent: Any, predicates: Any) -> Relation:
        found = self.relation(parent["n"])
        kept = np.ones(found.count, bool)
        for predicate in predicates:
            kept &= scalars.flags(self.value(predicate))
        rows = np.flatnonzero(kept)
        return found if len(rows) == found.count else found.taken(rows, len(rows))

    def _sort(self, parent: Any, keys: Any) -> Relation:
        found = self.relation(parent["n"])
        rows = sorted_rows([self._sort_key(key) for key in keys], found.count)
        return found.taken(rows, found.count)

    def _sort_key(self, key: Any) -> tuple[Column, bool, bool]:
        _, _, argument, is_ascending, nulls_first = self.nodes[key["n"]]
        return self.value(argument), is_ascending, nulls_first

    def _limit(self, parent: Any, most: int | None, offset: int) -> Relation:
        found = self.relation(parent["n"])
        end = found.count if most is None else min(found.count, offset + most)
        rows = np.arange(min(offset, end), end)
        return found.taken(rows, len(rows))

    def _distinct(self, parent: Any) -> Relation:
        found = self.relation(parent["n"])
        groups = Groups([found.column(name) for name in found.names], found.count)
        if not found.count:
            return found
        rows = np.sort(groups.first)
        return found.taken(rows, len(rows))

    def _union(self, left: Any, right: Any, is_distinct: bool) -> Relation:
        if is_distinct:
            raise ValueError("no plan has a distinct union")
        one, other = self.relation(left["n"]), self.relation(right["n"])
        return Relation(
            one.count + other.count,
            {name: partial(_stacked, one, other, name) for name in one.names},
        )

    def _aggregate(self, parent: Any, groups: Any, metrics: Any) -> Relation:
        found = self.relation(parent["n"])
        keys = {name: self.value(one).spread(found.count) for name, one in groups["d"]}
        made = Groups(list(keys.values()), found.count)
        metric = Reduced(self, made)
        columns: dict[str, Callable[[], Column]] = {
            name: partial(key.take, made.first) for name, key in keys.items()
        }
        columns |= {name: partial(metric.value, one) for name, one in metrics["d"]}
        return Relation(made.count, columns)

    def reduced(self, groups: Groups, name: str, arguments: Sequence[Any]) -> Column:
        """A reduction over the rows of groups."""
        if name == "CountStar":
            where = None if arguments[1] is None else self.value(arguments[1])
            return reductions.count_rows(groups, where)
        if name == "Quantile":
            argument, share, where = arguments
            return reductions.quantile(
                groups, self.value(argument), self._optional(where), self.constant(share)
            )
        if name == "ArrayCollect":
            argument, has_nulls, is_distinct, _, where = arguments
            if has_nulls or not is_distinct:
                raise ValueError("no plan has such a list")
            return reductions.collect_distinct(groups, self.value(argument), self._optional(where))
        *values, where = arguments
        columns = [self.value(one) for one in values]
        return REDUCTIONS[name](groups, *columns, self._optional(where))

    def _optional(self, argument: Any) -> Column | None:
        return None if argument is None else self.value(argument)

    def window(self, func: Any, start: Any, end: Any, group_by: Any, order_by: Any) -> Column:
        """A function of the rows of a group."""
        name, _, *arguments = self.nodes[func["n"]]
        count = self._count_of(func, group_by, order_by)
        groups_key = tuple(one["n"] for one in group_by)
        key = (groups_key, tuple(one["n"] for one in order_by), count)
        if not order_by and name in (*REDUCTIONS, "CountStar", "Quantile", "ArrayCollect"):
            groups = Groups([self.value(one) for one in group_by], count)
            return self.reduced(groups, name, arguments).take(groups.labels)
        if key not in self.orders:
            groups = Groups([self.value(one) for one in group_by], count)
            self.orders[key] = windows.Ordered(groups, [self._sort_key(one) for one in order_by])
        ordered = self.orders[key]
        if name == "RowNumber":
            return windows.row_number(ordered)
        if name in ("Lag", "Lead"):
            argument, offset, default = arguments
            if default is not None:
                raise ValueError("no plan has such a default")
            by = 1 if offset is None else self.constant(offset)
            return windows.neighbour(ordered, self.value(argument), -by if name == "Lag" else by)
        frame = windows.Frame(self._boundary(start), self._boundary(end))
        argument, where = arguments
        column = self.value(argument)
        if where is not None:
            column = column.where(scalars.flags(self.value(where)))
        return windows.running(ordered, name, column, frame)

    def _boundary(self, argument: Any) -> int | None:
        if argument is None:
            return None
        _, _, value, is_preceding = self.nodes[argument["n"]]
        offset = int(self.constant(value))
        return -offset if is_preceding else offset

    def _count_of(self, *arguments: Any) -> int:
        """The number of rows of the relation that these values are of."""
        for argument in arguments:
            for one in argument if isinstance(argument, list) else [argument]:
                number = self._relation_of(one["n"])
                if number is not None:
                    return self.relation(number).count
        raise ValueError("a window over no relation")

    def _relation_of(self, number: int) -> int | None:
        name, _, *arguments = self.nodes[number]
        if name == "Field":
            found: int = arguments[0]["n"]
            return found
        for argument in arguments:
            for one in argument if isinstance(argument, list) else [argument]:
                if isinstance(one, dict) and "n" in one:
                    if self.nodes[one["n"]][0] in RELATIONS:
                        continue
                    relation = self._relation_of(one["n"])
                    if relation is not None:
                        return relation
        return None

    def _joinchain(self, first: Any, rest: Any, values: Any) -> Relation:
        base = self.relation(first["n"])
        chain = Chain(self, first["n"], base.count)
        for link in rest:
            chain.join(*self.nodes[link["n"]][2:])
        return Relation(chain.count, {name: partial(chain.value, one) for name, one in values["d"]})

    def constant(self, argument: Any) -> Any:
        """The value of a literal."""
        if not isinstance(argument, dict):
            return argument
        name, _, *arguments = self.nodes[argument["n"]]
        if name == "Cast":
            return self.constant(arguments[0])
        if name == "Map":
            return dict(zip(self.constant(arguments[0]), self.constant(arguments[1]), strict=True))
        if name != "Literal":
            raise ValueError(f"{name} is no constant")
        return arguments[0]

    def _kind(self, argument: Any) -> str:
        found: str = self.nodes[argument["n"]][0]
        return found


class Chain:
    """A chain of joins: for each row, the row of each relation in it, -1 for none."""

    def __init__(self, plan: Plan, first: int, count: int) -> None:
        self.plan = plan
        self.count = count
        self.rows: dict[int, Array | None] = {first: None}  # None: all, in order
        self.made: dict[int, Column] = {}

    def value(self, argument: Any) -> Column:
        """The values of a node over the rows so far."""
        number = argument["n"]
        if number not in self.made:
            self.made[number] = Values(self.plan, self._field, self.value, self.plan._reduced).of(
                number
            )
        return self.made[number]

    def _field(self, relation: int, name: str) -> Column:
        column = self.plan.relation(relation).column(name)
        rows = self.rows[relation]
        return column if rows is None else column.take_or_null(rows)

    def join(self, how: str, table: Any, predicates: Any) -> None:
        """Join a relation."""
        number = table["n"]
        count = self.plan.relation(number).count
        equal, others = self._keys(number, predicates)
        left = [one for one, _, _ in equal]
        right = [other for _, other, _ in equal]
        nulls = [is_null for _, _, is_null in equal]
        if how in ("semi", "anti"):
            found = joins.has_match(left, right, nulls, self.count, count)
            self._keep(np.flatnonzero(found if how == "semi" else ~found))
            return
        left_rows, right_rows = joins.pairs(left, right, nulls, self.count, count)
        if others:
            kept = self._matching(number, left_rows, right_rows, others)
            left_rows, right_rows = left_rows[kept], right_rows[kept]
        if how == "left":
            left_rows, right_rows = joins.with_unmatched(left_rows, right_rows, self.count)
        elif how not in ("inner", "cross"):
            raise ValueError(f"no plan has a join {how}")
        self._keep(left_rows)
        self.rows[number] = right_rows

    def _keep(self, rows: Array) -> None:
        self.rows = {
            relation: rows if places is None else places[rows]
            for relation, places in self.rows.items()
        }
        self.count = len(rows)
        self.made.clear()

    def _keys(
        self, number: int, predicates: Any
    ) -> tuple[list[tuple[Column, Column, bool]], list[Any]]:
        """Columns of both sides that must be equal, and the other predicates."""
        equal, others = [], []
        for predicate in predicates:
            name, _, *arguments = self.plan.nodes[predicate["n"]]
            if name not in ("Equals", "IdenticalTo"):
                others.append(predicate)
                continue
            left, right = arguments
            if self.plan._relation_of(left["n"]) == number:
                left, right = right, left
            column = Values(self.plan, self.plan.field, self.plan.value, self.plan._reduced).of(
                right["n"]
            )
            equal.append((self.value(left), column, name == "IdenticalTo"))
        return equal, others

    def _matching(self, number: int, left: Array, right: Array, predicates: Any) -> Array:
        """Where other predicates hold of pairs."""
        pairs = Chain(self.plan, number, len(left))
        pairs.rows = {
            relation: left if places is None else places[left]
            for relation, places in self.rows.items()
        }
        pairs.rows[number] = right
        kept = np.ones(len(left), bool)
        for predicate in predicates:
            kept &= scalars.flags(pairs.value(predicate))
        return np.flatnonzero(kept)


class Reduced:
    """Values of groups: of reductions, and of what is computed from them."""

    def __init__(self, plan: Plan, groups: Groups) -> None:
        self.plan = plan
        self.groups = groups
        self.made: dict[int, Column] = {}

    def value(self, argument: Any) -> Column:
        """The values of a node, one for each group."""
        number = argument["n"]
        if number not in self.made:
            values = Values(self.plan, self.plan.field, self.value, self._reduction)
            self.made[number] = values.of(number)
        return self.made[number]

    def _reduction(self, name: str, arguments: Sequence[Any]) -> Column:
        return self.plan.reduced(self.groups, name, arguments)


class Values:
    """Values of nodes in a context: where fields are read, and what reductions are over."""

    def __init__(
        self,
        plan: Plan,
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
        if name in REDUCTIONS or name in ("CountStar", "Quantile", "ArrayCollect"):
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
            return scalars.to_text(column)
        if kind.startswith("int"):
            return scalars.to_number(column)
        if kind == "float64":
            return Column(column.values.astype(np.float64), column.valid)
        return column

    _trycast = _cast

    def _round(self, kind: str, argument: Any, _: Any) -> Column:
        found = scalars.round_away(self.value(argument))
        return scalars.to_number(found) if kind.startswith("int") else found

    def _clip(self, _: str, argument: Any, lower: Any, upper: Any) -> Column:
        low, high = (None if one is None else self.value(one) for one in (lower, upper))
        return scalars.clip(self.value(argument), low, high)

    def _stringconcat(self, _: str, arguments: Any) -> Column:
        return scalars.concatenated(*map(self.value, arguments))

    def _stringjoin(self, _: str, arguments: Any, separator: Any) -> Column:
        text = self.plan.constant(separator)
        return scalars.concatenated(*map(self.value, arguments), separator=text)

    def _mapget(self, _: str, found: Any, key: Any, default: Any) -> Column:
        if self.plan.constant(default) is not None:
            raise ValueError("no plan has such a default")
        return scalars.looked_up(self.plan.constant(found), self.value(key))

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


def rows_of(columns: Mapping[str, Column]) -> Iterator[dict[str, Any]]:
    """The rows of columns by name."""
    values = [column.python() for column in columns.values()]
    for row in zip(*values, strict=True):
        yield dict(zip(columns, row, strict=True))


def _stacked(one: Relation, other: Relation, name: str) -> Column:
    return joins.stacked(one.column(name), other.column(name))


FUNCTIONS: Final[dict[str, Callable[..., Column]]] = {
    "StringContains": scalars.contains, "StringSQLLike": lambda column, pattern, _: scalars.like(
        column, pattern
    ),
    "StartsWith": scalars.starts_with, "RegexSearch": scalars.regex_search,
    "RegexExtract": scalars.regex_extract, "RegexReplace": scalars.regex_replace,
    "StringSplit": scalars.split, "ArrayLength": scalars.length,
    "ArraySort": scalars.sorted_lists, "ArrayStringJoin": scalars.joined,
    "ArrayIndex": scalars.element,
}  # fmt: skip
