"""Evaluates plans: of each relation only the columns that something reads, each once.

A plan is a list of nodes, as `tools.print_evidence` stores those of Ibis: ``[name, type, argument,
…]``. An argument is ``{"n": 7}`` for another node, a list, a dict ``{"d": [[name, argument], …]}``
or a value. Nodes stand behind those that they use.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from kdissect.rules.plans import joins, reductions, scalars, text_functions, windows
from kdissect.rules.plans.columns import Array, Column
from kdissect.rules.plans.grouping import Groups, sorted_rows
from kdissect.rules.plans.join_chain import Chain
from kdissect.rules.plans.values import (
    IS_REDUCTION,
    REDUCTIONS,
    Node,
    Reads,
    Relation,
    Values,
    no_reduction,
    relation_of,
)

Source = Callable[[str], Relation]


class Plan:
    """A plan over the tables that `source` gives by name."""

    def __init__(self, nodes: Sequence[Node], source: Source) -> None:
        self.nodes = nodes
        self.source = source
        self.reads: Reads | None = None
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

    def forget(self, reads: Reads | None = None) -> None:
        """Release computed values; `reads` are those to come."""
        self.reads = reads
        self.relations.clear()
        self.values.clear()
        self.orders.clear()

    def relation(self, number: int) -> Relation:
        """The relation of a node."""
        if number not in self.relations:
            name, _, *arguments = self.nodes[number]
            made: Relation = getattr(self, f"_{name.lower()}")(*arguments)
            self.relations[number] = made.counted(number, self.reads)
        return self.relations[number]

    def value(self, argument: Any) -> Column:
        """The values of a node over the rows of its relation."""
        number = argument["n"]
        if number not in self.values:
            self.values[number] = Values(self, self.field, self.value, no_reduction).of(number)
        if self.reads is not None and self.reads.is_last(number):
            return self.values.pop(number)
        return self.values[number]

    def field(self, relation: int, name: str) -> Column:
        """A column of a relation."""
        return self.relation(relation).column(name)

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
        rows, elements = text_functions.unnested(lists)
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
        return found.same() if len(rows) == found.count else found.taken(rows, len(rows))

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
            return found.same()
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
        relation = self._relation_of(func, group_by, order_by)
        count = self.relation(relation).count
        key = (relation, *(tuple(one["n"] for one in keys) for keys in (group_by, order_by)))
        if not order_by and name in IS_REDUCTION:
            groups = Groups([self.value(one) for one in group_by], count)
            return self.reduced(groups, name, arguments).take(groups.labels)
        if key not in self.orders:
            groups = Groups([self.value(one) for one in group_by], count)
            self.orders[key] = windows.Ordered(groups, [self._sort_key(one) for one in order_by])
        ordered = self.orders[key]
        if self.reads is not None and self.reads.is_last(key):
            del self.orders[key]
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

    def _relation_of(self, *arguments: Any) -> int:
        """The relation that these values are of."""
        for argument in arguments:
            for one in argument if isinstance(argument, list) else [argument]:
                number = relation_of(self.nodes, one["n"])
                if number is not None:
                    return number
        raise ValueError("a window over no relation")

    def _joinchain(self, first: Any, rest: Any, values: Any) -> Relation:
        base = self.relation(first["n"])
        chain = Chain(self, first["n"], base.count, self.reads)
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


class Reduced:
    """Values of groups: reductions, and expressions over them."""

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


def rows_of(columns: Mapping[str, Column]) -> Iterator[dict[str, Any]]:
    """The rows of columns by name."""
    values = [column.python() for column in columns.values()]
    for row in zip(*values, strict=True):
        yield dict(zip(columns, row, strict=True))


def _stacked(one: Relation, other: Relation, name: str) -> Column:
    return joins.stacked(one.column(name), other.column(name))
