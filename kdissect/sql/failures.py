"""Failures of DuckDB queries.

DuckDB's messages quote what a query read: column names of a damaged file, texts of its rows. Where
that is not UTF-8, its Python module cannot decode the message and raises UnicodeDecodeError, whose
object is the message.
"""


def engine_failures() -> tuple[type[Exception], ...]:
    """All exceptions by which DuckDB reports a failed query."""
    import duckdb

    return duckdb.Error, UnicodeDecodeError


def reason_of(failure: Exception) -> str:
    """The first line of DuckDB's message."""
    if isinstance(failure, UnicodeDecodeError):
        text = failure.object.decode("utf-8", "replace")
    else:
        text = str(failure)
    return (text.strip().splitlines() or [type(failure).__name__])[0]
