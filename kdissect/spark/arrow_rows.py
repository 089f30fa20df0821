"""Rows and schemas of DataFrames in Arrow, in every supported version of PySpark."""

import struct
from inspect import signature
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def to_arrow(frame: "DataFrame") -> pa.Table:
    """All rows; times are in UTC."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    # PySpark 3.5 keeps it to itself, for toPandas().
    if batches := frame._collect_as_arrow():  # type: ignore[operator]  # newer types: a column
        return pa.Table.from_batches(batches)
    return arrow_schema_of(frame.schema).empty_table()


def one_binary(value: bytes | None) -> pa.Array:
    """An array of one value or null; `pa.array` imports pandas, which takes a new worker 0.2 s."""
    if value is None:
        return pa.nulls(1, pa.binary())
    ends = pa.py_buffer(struct.pack("<2i", 0, len(value)))
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(value)])


def arrow_schema_of(schema: "StructType") -> pa.Schema:
    """A schema of Spark in Arrow; times are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # PySpark 4.3 has to be told the time zone; earlier ones take UTC, or none (3.5).
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return pa.schema([in_utc(field) for field in to_arrow_schema(schema)])


def in_utc(field: pa.Field) -> pa.Field:
    """A column of times with its time zone, which Spark's schema lacks."""
    if pa.types.is_timestamp(field.type):
        return field.with_type(pa.timestamp(field.type.unit, "UTC"))
    return field
