"""The plans of the evidence, as `kdissect.rules.plans.evaluator` reads them.

Ibis' nodes are stored as they are, without the columns that nothing reads, and each once for all
questions.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import ibis.expr.operations as ops

if TYPE_CHECKING:
    import ibis.expr.types as ir

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Needed:
    """The columns of each relation that are read for an answer."""

    def __init__(self) -> None:
        self.columns: dict[ops.Relation, set[str]] = {}

    def need(self, relation: ops.Relation, names: Sequence[str]) -> None:
        """Note that columns of a relation are read, and the columns they need."""
        found = self.columns.get(relation)
        more = set(names) - (found or set())
        if found is not None and not more:
            return
        self.columns[relation] = (found or set()) | more
        for part in parts_of(relation, sorted(more), is_first=found is None):
            if isinstance(part, tuple):
                self.need(*part)
            else:
                self.read(part)

    def read(self, value: ops.Node) -> None:
        """Note the columns that a value reads."""
        if isinstance(value, ops.Field):
            self.need(value.rel, [value.name])
            return
        for argument in nodes_in(value.args):
            if isinstance(argument, ops.Relation):
                self.need(argument, list(argument.schema))
            else:
                self.read(argument)


def parts_of(relation: ops.Relation, names: Sequence[str], is_first: bool) -> Iterator[Any]:
    """Values and relations that a relation reads for columns."""
    match relation:
        case ops.UnboundTable():
            return
        case ops.Aggregate():
            yield relation.parent, ()
            if is_first:
                yield from relation.groups.values()
            yield from (relation.metrics[name] for name in names if name in relation.metrics)
        case ops.Project():
            yield relation.parent, ()
            yield from (relation.values[name] for name in names)
            if is_first:
                yield from (one for one in relation.values.values() if has_unnest(one))
        case ops.JoinChain():
            if is_first:
                yield relation.first, ()
                for link in relation.rest:
                    yield link.table, ()
                    yield from link.predicates
            yield from (relation.values[name] for name in names)
        case ops.Union():
            yield relation.left, names
            yield relation.right, names
        case ops.Distinct():
            yield relation.parent, tuple(relation.parent.schema)
        case ops.Filter():
            yield relation.parent, names
            if is_first:
                yield from relation.predicates
        case ops.Sort():
            yield relation.parent, names
            if is_first:
                yield from relation.keys
        case ops.Limit() | ops.DropColumns() | ops.JoinReference():
            yield relation.parent, names
        case _:
            raise TypeError(f"no plan has {type(relation).__name__}")


def has_unnest(value: ops.Node) -> bool:
    """Return whether a value produces rows."""
    return isinstance(value, ops.Unnest)


def nodes_in(argument: Any) -> Iterator[ops.Node]:
    """The nodes of arguments."""
    if isinstance(argument, ops.Node):
        yield argument
    elif isinstance(argument, Mapping):
        for one in argument.values():
            yield from nodes_in(one)
    elif isinstance(argument, tuple | list):
        for one in argument:
            yield from nodes_in(one)


class Printer:
    """Nodes of all plans, numbered in the order of their use."""

    def __init__(self, needed: Needed) -> None:
        self.needed = needed.columns
        self.nodes: list[list[Any]] = []
        self.numbers: dict[ops.Node, int] = {}

    def number(self, node: ops.Node) -> int:
        """The number of a node, which is stored if it is new."""
        if node not in self.numbers:
            arguments = [self._argument(one) for one in self._arguments(node)]
            kind = "" if isinstance(node, ops.Relation) else str(getattr(node, "dtype", ""))
            self.nodes.append([type(node).__name__, kind, *arguments])
            self.numbers[node] = len(self.nodes) - 1
        return self.numbers[node]

    def _arguments(self, node: ops.Node) -> Sequence[Any]:
        if isinstance(node, ops.UnboundTable):
            return (node.name,)
        if isinstance(node, ops.Literal):
            return (literal(node.value),)
        if isinstance(node, ops.Project | ops.JoinChain):
            read = self.needed[node]
            values = {
                name: one for name, one in node.values.items() if name in read or has_unnest(one)
            }
            return (*node.args[:-1], values)
        if isinstance(node, ops.Aggregate):
            metrics = {name: one for name, one in node.metrics.items() if name in self.needed[node]}
            return (node.parent, node.groups, metrics)
        return node.args

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, ops.Node):
            return {"n": self.number(argument)}
        if isinstance(argument, Mapping):
            return {"d": [[name, self._argument(one)] for name, one in argument.items()]}
        if isinstance(argument, frozenset):
            argument = sorted(argument, key=str)  # their order differs from process to process
        if isinstance(argument, tuple | list):
            return [self._argument(one) for one in argument]
        if isinstance(argument, Enum):
            return str(argument.value)
        return argument if isinstance(argument, bool | int | float | str | None) else str(argument)


def literal(value: Any) -> Any:
    """A constant; times are microseconds since 1970."""
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(microseconds=1)
    return list(value) if isinstance(value, tuple | frozenset) else value


def plans_of(answers: "Mapping[str, ir.Table]") -> dict[str, Any]:
    """All plans: their nodes, the node of each answer, and of its rows without a limit."""
    needed = Needed()
    for answer in answers.values():
        needed.need(answer.op(), list(answer.schema()))
    printer = Printer(needed)
    roots = {
        name: [printer.number(answer.op()), printer.number(answer.op().parent)]
        for name, answer in answers.items()
    }
    return {"roots": roots, "nodes": printer.nodes}
