"""Failures of DuckDB queries.

DuckDB's messages quote what a query read: column names of a damaged file, texts of its rows. Where
that is not UTF-8, its Python module cannot decode the message and raises UnicodeDecodeError, whose
object is the message.
"""

import re
from collections.abc import Iterable
from typing import Final

from kdissect.errors import NO_MORE_MEMORY, InvalidArgument, KdissectError
from kdissect.sql.memory_limits import MEMORY_VARIABLE, memory_limit
from kdissect.text.suggestions import known_words

NO_COLUMN: Final = re.compile(r'Referenced column "([^"]*)" (?:was )?not found')
# The system refuses memory that DuckDB's own limit allows.
REFUSED: Final = re.compile("allocation failure|bad allocation|bad_alloc", re.IGNORECASE)
NO_MEMBER: Final = re.compile(r'does not have a column named "([^"]*)"')


def engine_failures() -> tuple[type[Exception], ...]:
    """All exceptions by which DuckDB reports a failed query."""
    import duckdb

    return duckdb.Error, UnicodeDecodeError


def lacks_memory(failure: Exception) -> bool:
    """Return whether a query failed because of state that cannot be spilled and did not fit."""
    import duckdb

    return isinstance(failure, duckdb.OutOfMemoryException)


def exceeds_limit(failure: Exception) -> bool:
    """Return whether a query needs more than DuckDB's limit, so that a larger one may help."""
    return lacks_memory(failure) and REFUSED.search(str(failure)) is None


def query_error(what: str, failure: Exception, columns: Iterable[str]) -> KdissectError:
    """The error for a failed query; `what` is its option and text, `columns` those it may name."""
    kind = InvalidArgument if is_mistake(failure) else KdissectError
    return kind(f"{what}: {explained(failure, columns)}")


def explained(failure: Exception, columns: Iterable[str]) -> str:
    """DuckDB's reason; for an unknown column, the nearest one and those there are."""
    message = str(failure)
    missing = NO_COLUMN.search(message) or NO_MEMBER.search(message)
    if missing is None or isinstance(failure, UnicodeDecodeError):
        return reason_of(failure)
    return f"no column {missing[1]!r}; {known_words(missing[1], columns)}"


def is_mistake(failure: Exception) -> bool:
    """Return whether the query itself is wrong: its syntax, its names, the types of its values."""
    import duckdb

    return isinstance(
        failure,
        duckdb.BinderException
        | duckdb.CatalogException
        | duckdb.ConversionException
        | duckdb.ParserException
        | duckdb.SyntaxException
        | duckdb.OutOfRangeException
        | duckdb.InvalidTypeException,
    )


def reason_of(failure: Exception) -> str:
    """The first line of DuckDB's message."""
    if exceeds_limit(failure):
        return f"it takes more memory than {memory_limit()}; {MEMORY_VARIABLE}=4GB allows more"
    if lacks_memory(failure):
        return NO_MORE_MEMORY
    if isinstance(failure, UnicodeDecodeError):
        text = failure.object.decode("utf-8", "replace")
    else:
        text = str(failure)
    return (text.strip().splitlines() or [type(failure).__name__])[0]
