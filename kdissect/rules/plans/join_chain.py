"""Chains of joins."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from kdissect.rules.plans import joins, scalars
from kdissect.rules.plans.columns import Array, Column
from kdissect.rules.plans.values import Context, Reads, Values, no_reduction, relation_of


class Chain:
    """A chain of joins: for each row, the row of each relation in it, -1 for none."""

    def __init__(
        self,
        plan: Context,
        first: int,
        count: int,
        reads: Reads | None = None,
        whole: dict[tuple[int, str], Column] | None = None,
    ) -> None:
        self.plan = plan
        self.whole = whole  # columns that were read already, by relation and name
        self.reads = reads
        self.count = count
        self.rows: dict[int, Array | None] = {first: None}  # None: all, in order
        self.made: dict[int, Column] = {}

    def value(self, argument: Any) -> Column:
        """The values of a node over the rows so far."""
        number = argument["n"]
        if number not in self.made:
            self.made[number] = Values(self.plan, self._field, self.value, no_reduction).of(number)
        if self.reads is not None and self.reads.is_last((*self.rows, number)):
            return self.made.pop(number)
        return self.made[number]

    def _field(self, relation: int, name: str) -> Column:
        column = self._column(relation, name)
        rows = self.rows[relation]
        return column if rows is None else column.take_or_null(rows)

    def _column(self, relation: int, name: str) -> Column:
        if self.whole is None:
            return self.plan.relation(relation).column(name)
        if (relation, name) not in self.whole:
            self.whole[relation, name] = self.plan.relation(relation).column(name)
        return self.whole[relation, name]

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
        most = joins.BLOCK if others else joins.ALL
        blocks = joins.pairs(left, right, nulls, self.count, count, most)
        if others:
            blocks = self._matching(number, blocks, others)
        left_rows, right_rows = (np.concatenate(places) for places in zip(*blocks, strict=True))
        if how in ("left", "outer"):
            left_rows, right_rows = joins.with_unmatched(left_rows, right_rows, self.count)
            if how == "outer":
                left_rows, right_rows = joins.with_rest(left_rows, right_rows, count)
        elif how not in ("inner", "cross"):
            raise ValueError(f"no plan has a join {how}")
        self._keep(left_rows)
        self.rows[number] = right_rows

    def _keep(self, rows: Array) -> None:
        self.rows = {
            relation: rows if places is None else joins.taken(places, rows)
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
            if relation_of(self.plan.nodes, left["n"]) == number:
                left, right = right, left
            column = Values(self.plan, self.plan.field, self.plan.value, no_reduction).of(
                right["n"]
            )
            equal.append((self.value(left), column, name == "IdenticalTo"))
        return equal, others

    def _matching(
        self, number: int, blocks: Iterable[tuple[Array, Array]], predicates: Any
    ) -> Iterator[tuple[Array, Array]]:
        """The pairs for which the other predicates hold."""
        whole: dict[tuple[int, str], Column] = {}
        for left, right in blocks:
            pairs = Chain(self.plan, number, len(left), whole=whole)
            pairs.rows = {
                relation: left if places is None else places[left]
                for relation, places in self.rows.items()
            }
            pairs.rows[number] = right
            kept = np.ones(len(left), bool)
            for predicate in predicates:
                kept &= scalars.flags(pairs.value(predicate))
            yield left[kept], right[kept]
