"""Conditions on rows of evidence that the engine of the evidence evaluates.

An evidence may have a row for each client, and most rules look for a few of its rows: the engine
finds them without making the others.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from kdissect.rules.evidence_rows import Row
from kdissect.rules.plans.columns import Column, Flags

Value = str | int


class Comparison(NamedTuple):
    """A column that is at least `least`, or one of `among`; false where it is null."""

    column: str
    least: float = 0
    among: Collection[Value] | None = None

    def holds(self, value: Any) -> bool:
        """Return whether the comparison holds for a value of the column."""
        if value is None:
            return False
        return bool(value >= self.least if self.among is None else value in self.among)

    def sql(self) -> tuple[str, list[Any]]:
        """The same as SQL with its parameters."""
        if self.among is None:
            return f'"{self.column}" >= ?', [self.least]
        kind = "BIGINT" if any(isinstance(one, int) for one in self.among) else "VARCHAR"
        return f'"{self.column}" IN (SELECT unnest(?::{kind}[]))', [list(self.among)]

    def flags(self, column: Column) -> Flags:
        """The same for each row of a column of a plan."""
        if self.among is None:
            found: Flags = column.values >= self.least
        elif column.words is None:
            found = np.isin(column.values, [one for one in self.among if isinstance(one, int)])
        else:
            words = np.array([word in self.among for word in column.words.words] or [False])
            found = words[column.values]
        return found if column.valid is None else found & column.valid


class Condition:
    """Comparisons of which one in each of `clauses` holds."""

    def __init__(self, *clauses: tuple[Comparison, ...]) -> None:
        self.clauses = clauses

    def __and__(self, other: "Condition") -> "Condition":
        return Condition(*self.clauses, *other.clauses)

    def holds(self, row: Row) -> bool:
        """Return whether the condition holds for a row."""
        return all(any(one.holds(row[one.column]) for one in clause) for clause in self.clauses)

    def sql(self) -> tuple[str, list[Any]]:
        """The same as SQL with its parameters."""
        parts, values = ["true"], []
        for clause in self.clauses:
            each = [one.sql() for one in clause]
            parts.append(f"({' OR '.join(text for text, _ in each)})")
            values += [value for _, given in each for value in given]
        return " AND ".join(parts), values

    def flags(self, columns: Mapping[str, Column], count: int) -> Flags:
        """The same for each of `count` rows of columns of a plan."""
        found = np.ones(count, bool)
        for clause in self.clauses:
            held = np.zeros(count, bool)
            for one in clause:
                held |= one.flags(columns[one.column])
            found &= held
        return found


ALL: Final = Condition()


def least(**columns: float) -> Condition:
    """Each of the columns is at least so much."""
    return Condition(*((Comparison(name, value),) for name, value in columns.items()))


def some(*columns: str) -> Condition:
    """One of the columns is 1 or more."""
    return Condition(tuple(Comparison(name, 1) for name in columns))


def among(column: str, values: Collection[Value]) -> Condition:
    """A column has one of the values."""
    return Condition((Comparison(column, 0, values),))


def either(one: Condition, other: Condition) -> Condition:
    """One of two conditions of one clause each holds.

    >>> either(some("lost"), among("cause", ["session timeout"])).holds({"lost": 1, "cause": ""})
    True
    """
    return Condition((*one.clauses[0], *other.clauses[0]))
