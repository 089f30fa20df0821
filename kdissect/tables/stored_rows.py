"""Parquet files that others may have written, as the rows that kdissect declares."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from kdissect.errors import DatasetError

# What Arrow and numpy raise of bytes, types and values that do not fit. Arrow's own errors are
# ValueError, KeyError, TypeError or OSError besides.
UNSOUND: Final = (pa.ArrowException, OSError, LookupError, ValueError, TypeError, RuntimeError)
UNKNOWN_ROWS: Final = -1


@contextmanager
def believed(where: str) -> Iterator[None]:
    """Read a file that others may have written; raises DatasetError where it is not ours.

    `where` names the file.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise DatasetError(f"{where}: no such file") from error
    except UNSOUND as error:
        raise DatasetError(f"{where}: is not what kdissect wrote: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """What an error says, on one line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0]


def check_rows(file: Any, rows: int, where: str) -> None:
    """Raise DatasetError where a Parquet file has not so many rows."""
    found = file.metadata.num_rows
    if rows not in (UNKNOWN_ROWS, found):
        raise DatasetError(f"{where}: {found} rows in place of {rows}")


def as_declared(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns and types of a schema; raises what `believed` takes."""
    return rows.select(schema.names).cast(schema)
