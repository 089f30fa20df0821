"""Rows of DataFrames as Arrow tables, in every supported version of PySpark."""

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def to_arrow(frame: "DataFrame") -> pa.Table:
    """All rows; times are in UTC."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    # PySpark 3.5 keeps it to itself, for toPandas().
    from pyspark.sql.pandas.types import to_arrow_schema

    if batches := frame._collect_as_arrow():  # type: ignore[operator]  # newer types: a column
        return pa.Table.from_batches(batches)
    return pa.schema([in_utc(field) for field in to_arrow_schema(frame.schema)]).empty_table()


def in_utc(field: pa.Field) -> pa.Field:
    """A column of times with its time zone, which Spark's schema lacks."""
    if pa.types.is_timestamp(field.type):
        return field.with_type(pa.timestamp(field.type.unit, "UTC"))
    return field
