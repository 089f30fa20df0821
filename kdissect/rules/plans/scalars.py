"""Arithmetic, comparisons, logic and choices by row, as in SQL: most are null for a null."""

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np

from kdissect.rules.plans.columns import (
    Array,
    Column,
    both,
    literal,
    unified,
)


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Column, Column], Column]:
    def apply(left: Column, right: Column) -> Column:
        return Column(function(_number(left), _number(right)), both(left.valid, right.valid))

    return apply


def _number(column: Column) -> Array:
    values = column.values
    return values.astype(np.int64) if values.dtype == bool else values


def divide(left: Column, right: Column) -> Column:
    """Exact division; by zero it is infinite, or no number."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = _number(left) / _number(right)
    return Column(found, both(left.valid, right.valid))


def floor_divide(left: Column, right: Column) -> Column:
    found = divide(left, right)
    return Column(np.floor(found.values).astype(np.int64), found.valid)


def _comparison(function: Callable[[Any, Any], Any]) -> Callable[[Column, Column], Column]:
    def apply(left: Column, right: Column) -> Column:
        valid = both(left.valid, right.valid)
        if left.words is None and right.words is None:
            return Column(function(left.values, right.values), valid)
        if function in (operator.eq, operator.ne):
            return Column(function(*_same_codes(left, right)), valid)
        (left, right), _ = unified((left, right))
        return Column(function(left.sortable, right.sortable), valid)

    return apply


def _same_codes(left: Column, right: Column) -> tuple[Array, Array]:
    """Codes that are equal where the words are."""
    if left.words is right.words:
        return left.values, right.values
    if left.words is None or right.words is None:  # a null literal
        return left.values, right.values
    if len(left.texts) < len(right.texts):
        right_codes, left_codes = _same_codes(right, left)
        return left_codes, right_codes
    known = left.words.codes
    place = np.array([known.get(word, -1) for word in right.texts] or [-1], np.int64)
    return left.values, place[right.values]


_equal = _comparison(operator.eq)


def identical(left: Column, right: Column) -> Column:
    """Equal, or both null: never null itself."""
    found = _equal(left, right)
    if found.valid is None:
        return found
    is_null, other = ~left.known, ~right.known
    return Column(np.where(is_null | other, is_null & other, found.values))


def and_(left: Column, right: Column) -> Column:
    if left.valid is None and right.valid is None:
        return Column(left.values & right.values)
    is_false = (left.known & ~left.values) | (right.known & ~right.values)
    is_true = left.known & left.values & right.known & right.values
    return Column(is_true, is_true | is_false)


def or_(left: Column, right: Column) -> Column:
    if left.valid is None and right.valid is None:
        return Column(left.values | right.values)
    is_true = (left.known & left.values) | (right.known & right.values)
    is_false = left.known & ~left.values & right.known & ~right.values
    return Column(is_true, is_true | is_false)


def not_(column: Column) -> Column:
    return Column(~column.values, column.valid)


def flags(column: Column) -> Array:
    """The mask of rows in which a condition is true: neither false nor null."""
    found: Array = column.values if column.valid is None else column.values & column.valid
    return found


def if_else(condition: Column, then: Column, other: Column) -> Column:
    return chosen([flags(condition)], [then], other)


def chosen(conditions: Sequence[Array], results: Sequence[Column], default: Column) -> Column:
    """The result of the first condition that holds."""
    (*results, default), words = unified([*results, default])
    values, known = default.values, default.known
    has_nulls = default.valid is not None
    for condition, result in zip(reversed(conditions), reversed(results), strict=True):
        values = np.where(condition, result.values, values)
        has_nulls = has_nulls or result.valid is not None
        if has_nulls:
            known = np.where(condition, result.known, known)
    return Column(values, known if has_nulls else None, words)


def coalesce(*columns: Column) -> Column:
    """The first value that is not null."""
    found = columns[0]
    for column in columns[1:]:
        if found.valid is None:
            return found
        found = chosen([found.valid], [Column(found.values, None, found.words)], column)
    return found


def null_if(column: Column, value: Column) -> Column:
    found = _equal(column, value)
    return chosen([flags(found)], [literal(None)], column)


def _most(is_largest: bool) -> Callable[..., Column]:
    """The result over several columns, nulls left out."""

    def apply(*columns: Column) -> Column:
        found = columns[0]
        for column in columns[1:]:
            (found, column), words = unified((found, column))
            one, other = found.sortable, column.sortable
            is_other = other > one if is_largest else other < one
            is_other = (is_other & column.known) | ~found.known
            values = np.where(is_other, column.values, found.values)
            valid = None
            if found.valid is not None and column.valid is not None:
                valid = found.valid | column.valid
            found = Column(values, valid, words)
        return found

    return apply


def clip(column: Column, lower: Column | None, upper: Column | None) -> Column:
    values = column.values
    if lower is not None:
        values = np.maximum(values, lower.values)
    if upper is not None:
        values = np.minimum(values, upper.values)
    return Column(values, column.valid)


def round_away(column: Column) -> Column:
    """To whole numbers, halves away from zero."""
    values = column.values
    return Column(np.trunc(values + np.copysign(0.5, values)), column.valid)


def is_in(column: Column, options: Sequence[Column]) -> Column:
    found = [_equal(column, option) for option in options]
    if column.words is None and len(options) > 2 and all(one.valid is None for one in options):
        values = np.concatenate([one.values for one in options])
        return Column(np.isin(column.values, values), column.valid)
    return reduce(or_, found) if found else Column(np.zeros(len(column), bool))


BINARY: Final[dict[str, Callable[[Column, Column], Column]]] = {
    "Add": _arithmetic(operator.add),
    "Subtract": _arithmetic(operator.sub),
    "Multiply": _arithmetic(operator.mul),
    "Modulus": _arithmetic(np.fmod),
    "Divide": divide,
    "FloorDivide": floor_divide,
    "Equals": _equal,
    "NotEquals": _comparison(operator.ne),
    "Less": _comparison(operator.lt),
    "LessEqual": _comparison(operator.le),
    "Greater": _comparison(operator.gt),
    "GreaterEqual": _comparison(operator.ge),
    "IdenticalTo": identical,
    "And": and_,
    "Or": or_,
    "NullIf": null_if,
}
greatest, least = _most(True), _most(False)
