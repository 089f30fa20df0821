"""Table schemas for Spark: text as strings, times in microseconds and also in nanoseconds.

Spark's timestamps have microsecond precision. Next to ``request_start`` is ``request_start_ns``,
nanoseconds since 1970; these columns come last, as in `analysis.declared`. Microseconds are rounded
to the nearest.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from kdissect.protocol.readers import NULL
from kdissect.tables.batches import ARROW_TYPES, ints_of, numbers
from kdissect.tables.ids import id_offsets
from kdissect.tables.matrices import Ints
from kdissect.tables.schemas import TEXT, TIME, Table

TIME_TYPE: Final = pa.timestamp("us", tz="UTC")
NS: Final = "_ns"
UNREADABLE: Final = "unreadable-capture"  # kind of the problem row in place of a capture


def spark_schema(
    table: Table, columns: Sequence[str] | None = None, text: pa.DataType | None = None
) -> pa.Schema:
    """Schema of all columns, or of some in the order given; `text`: type of texts (string)."""
    types = {column.name: ARROW_TYPES[column.type] for column in table.columns}
    for column in table.columns:
        if column.type == TEXT:
            types[column.name] = pa.string() if text is None else text
        elif column.type == TIME:
            types[column.name] = TIME_TYPE
            types[column.name + NS] = pa.int64()
    plain = [column.name for column in table.columns]
    names = [*plain, *(name for name in types if name not in plain)]
    return pa.schema([pa.field(name, types[name]) for name in (columns or names)])


def stored_columns(table: Table, columns: Sequence[str]) -> list[str]:
    """Columns of kdissect's own table from which these columns are derived."""
    own = {column.name for column in table.columns}
    return list(dict.fromkeys(n if n in own else n.removesuffix(NS) for n in columns))


def spark_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert rows of a kdissect table to `schema`, as returned by `spark_schema`."""
    own = set(batch.schema.names)
    arrays = []
    for field in schema:
        name = field.name if field.name in own else field.name.removesuffix(NS)
        array = batch[name]
        if not pa.types.is_timestamp(array.type):
            arrays.append(array if array.type == field.type else array.cast(field.type))
        elif field.name in own:
            arrays.append(numbers(nearest_us(ints_of(array)), TIME_TYPE))
        else:
            arrays.append(numbers(ints_of(array), pa.int64()))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def nearest_us(times: Ints) -> Ints:
    """Round nanoseconds to the nearest microseconds; NULL stays NULL."""
    return np.where(times == NULL, int(NULL), (times + 500) // 1000)


def of_tap(batch: pa.RecordBatch, tap: int) -> pa.RecordBatch:
    """Rows with ids that are unique to this tap of the dataset; those of tap 0 are unchanged."""
    if not tap:
        return batch
    for name, offset in id_offsets(tap).items():
        index = batch.schema.get_field_index(name)
        if index < 0:
            continue
        ids = ints_of(batch[name])
        moved = np.where(ids == NULL, int(NULL), ids + offset)
        batch = batch.set_column(index, batch.schema.field(index), numbers(moved, pa.int64()))
    return batch
