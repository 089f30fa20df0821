"""Failures of DuckDB queries.

DuckDB's messages quote what a query read: column names of a damaged file, texts of its rows. Where
that is not UTF-8, its Python module cannot decode the message and raises UnicodeDecodeError, whose
object is the message.
"""

from kdissect.sql.connections import MEMORY_VARIABLE, memory_limit


def engine_failures() -> tuple[type[Exception], ...]:
    """All exceptions by which DuckDB reports a failed query."""
    import duckdb

    return duckdb.Error, UnicodeDecodeError


def lacks_memory(failure: Exception) -> bool:
    """Return whether a query failed because what it holds cannot be spilled, and did not fit."""
    import duckdb

    return isinstance(failure, duckdb.OutOfMemoryException)


def reason_of(failure: Exception) -> str:
    """The first line of DuckDB's message."""
    if lacks_memory(failure):
        return f"it takes more memory than {memory_limit()}; {MEMORY_VARIABLE}=4GB allows more"
    if isinstance(failure, UnicodeDecodeError):
        text = failure.object.decode("utf-8", "replace")
    else:
        text = str(failure)
    return (text.strip().splitlines() or [type(failure).__name__])[0]
