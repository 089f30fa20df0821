"""Filters that Spark offers to a data source, applied to record batches."""

from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

COMPARISONS: Final[dict[type[Filter], str]] = {
    EqualTo: "equal",
    GreaterThan: "greater",
    GreaterThanOrEqual: "greater_equal",
    LessThan: "less",
    LessThanOrEqual: "less_equal",
}


def is_taken(one: Filter) -> bool:
    """Return whether `flags_of` supports the filter."""
    return isinstance(one, (*COMPARISONS, EqualNullSafe, In, IsNull, IsNotNull))


def column_of(one: Any) -> tuple[str, ...]:
    """Column of a filter; for a nested one, its path."""
    return tuple(one.attribute)


def flags_of(batch: pa.RecordBatch, one: Any) -> pa.Array:
    """Mask of the rows that pass a filter."""
    import pyarrow.compute as pc

    column = batch[one.attribute[0]]
    if isinstance(one, IsNull):
        return pc.is_null(column)
    if isinstance(one, IsNotNull):
        return pc.is_valid(column)
    if isinstance(one, In):
        return pc.is_in(column, pa.array(one.value, column.type))
    if isinstance(one, EqualNullSafe):
        if one.value is None:
            return pc.is_null(column)
        return pc.fill_null(pc.equal(column, pa.scalar(one.value, column.type)), False)
    function = getattr(pc, COMPARISONS[type(one)])
    return function(column, pa.scalar(one.value, column.type))
