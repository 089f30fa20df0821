"""Parquet files of unverified origin, read as the rows that kdissect declares."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from kdissect.errors import DatasetError, no_such_file

# Exceptions of Arrow and numpy for bytes, types and values that do not fit. Arrow's own errors are
# subclasses of ValueError, KeyError, TypeError or OSError.
UNSOUND: Final = (pa.ArrowException, OSError, LookupError, ValueError, TypeError, RuntimeError)
UNKNOWN_ROWS: Final = -1


@contextmanager
def believed(where: str) -> Iterator[None]:
    """Read a file of unverified origin; raise DatasetError if it is not a kdissect file.

    `where` names the file.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise DatasetError(no_such_file(where)) from error
    except UNSOUND as error:
        raise DatasetError(f"{where}: was not written by kdissect: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """First line of an error's message."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0]


def check_rows(file: Any, rows: int, where: str) -> None:
    """Raise DatasetError if a Parquet file does not have so many rows."""
    found = file.metadata.num_rows
    if rows not in (UNKNOWN_ROWS, found):
        raise DatasetError(f"{where}: {found} rows in place of {rows}")


def as_declared(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast the rows to the columns and types of a schema; raises what `believed` handles."""
    chosen = rows.select(schema.names)
    # Of files that other programs have rewritten; Arrow makes no dictionaries of views.
    plain = [
        field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field
        for field in chosen.schema
    ]
    return chosen.cast(pa.schema(plain)).cast(schema)


def with_nulls(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Add the columns that the rows lack: they are from before those were declared."""
    for field in schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows
