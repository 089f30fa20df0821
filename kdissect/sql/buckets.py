"""Queries that are executed bucket by bucket, where memory is short.

The rows of an answer often depend on the rows of one partition, topic, group or client alone. A
bucket is the rows of tables for which a hash of these columns has the same remainder. The answer is
the rows of all buckets, sorted again.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kdissect.sql.failures import engine_failures, exceeds_limit
from kdissect.sql.separate_statements import (
    Statements,
    keep_separately,
    kept_parts,
    separated_text,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COUNTS: Final = (4, 16)  # of buckets: the second, where one of the first does not fit
ALL_BUCKETS: Final = "rows of all buckets"
EVERY: Final = f'"{ALL_BUCKETS}"'
BUCKET: Final = '"rows of a bucket"'

# Tables, and the columns, as SQL, by whose hash their rows are divided.
Keys = Sequence[tuple[str, str]]
# Replaces a table by its rows for which a condition holds, or by all for "".
Choose = Callable[[str, str], None]


def keep_by_buckets(
    connection: "DuckDBPyConnection",
    table: str,
    queries: tuple[str, str],
    keys: Keys,
    choose: Choose,
) -> None:
    """Keep the rows of an answer as a table, in as few buckets as memory suffices for.

    `queries` are for the rows of a bucket, and for the answer from `ALL_BUCKETS`. Raises what
    DuckDB raises.
    """
    bucket, whole = queries
    steady, statements = separated_text(bucket).split([name for name, _ in keys])
    for count in COUNTS:
        try:
            with kept_parts(connection, steady):
                _keep_buckets(connection, statements, keys, count, choose)
            connection.execute(f"CREATE TABLE {table} AS {whole}")
        except engine_failures() as error:
            if count == COUNTS[-1] or not exceeds_limit(error):
                raise
        else:
            return
        finally:
            connection.execute(f"DROP TABLE IF EXISTS {EVERY}")
            for name, _ in keys:
                choose(name, "")


def _keep_buckets(
    connection: "DuckDBPyConnection",
    statements: Statements,
    keys: Keys,
    count: int,
    choose: Choose,
) -> None:
    """Keep the rows of one bucket after those of another."""
    try:
        for number in range(count):
            for name, columns in keys:
                choose(name, condition_of_bucket(columns, number, count))
            keep_separately(connection, BUCKET, statements)
            added = f"INSERT INTO {EVERY}" if number else f"CREATE TABLE {EVERY} AS"
            connection.execute(f"{added} FROM {BUCKET}")
            connection.execute(f"DROP TABLE {BUCKET}")
    finally:
        connection.execute(f"DROP TABLE IF EXISTS {BUCKET}")


def condition_of_bucket(columns: str, number: int, count: int) -> str:
    """The SQL condition for the rows of a bucket."""
    return f"hash({columns}) % {count} = {number}"
