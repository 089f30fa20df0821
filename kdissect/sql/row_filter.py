"""Filter the rows of a record batch by an SQL condition."""

from typing import Final

import pyarrow as pa

from kdissect.sql.conditions import check_condition
from kdissect.sql.connections import locked_connection
from kdissect.sql.failures import engine_failures, query_error
from kdissect.sql.interruption import arrow_rows

ROW_NUMBER: Final = "kdissect_row_number"
MICROSECONDS: Final = pa.timestamp("us", tz="UTC")


def filtered(batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
    """Rows for which the SQL condition `where` over the columns is true, see `chosen_rows`."""
    return batch.take(chosen_rows(batch, where))


def chosen_rows(batch: pa.RecordBatch, where: str) -> pa.Array:
    """Numbers of the rows for which the SQL condition `where` (DuckDB's SQL) is true, in order.

    Times compare in µs. Raises KdissectError for conditions that `check_condition` rejects, and
    with the database's message for an invalid condition.
    """
    check_condition(where, "--where")
    numbered = in_microseconds(pa.Table.from_batches([batch])).append_column(
        ROW_NUMBER, pa.array(range(batch.num_rows), pa.int64())
    )
    try:
        with locked_connection() as connection:
            connection.register("batch", numbered)
            query = f"SELECT {ROW_NUMBER} FROM batch WHERE (\n{where}\n)"  # noqa: S608  # checked
            kept = arrow_rows(connection, query).column(0).combine_chunks()
    except engine_failures() as error:
        columns = batch.schema.names
        raise query_error(f"--where {where!r}", error, columns) from error
    return kept.sort()


def in_microseconds(table: pa.Table) -> pa.Table:
    """The table with times in µs: DuckDB does not compare times in ns with other times."""
    fields = [
        field.with_type(MICROSECONDS) if pa.types.is_timestamp(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields), safe=False)
