"""Rows to compare, with times as numbers: objects of pandas take several times as long."""

from typing import Any

import pyarrow as pa


def plain_rows(batch: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows; their times are numbers since 1970, in the unit of the column."""
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    plain = type(batch).from_arrays(columns, names=batch.schema.names)
    rows: list[dict[str, Any]] = plain.to_pylist()
    return rows
