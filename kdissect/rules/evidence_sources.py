"""Where all rows of an evidence come from: a list, columns of a plan, or a table of DuckDB."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from kdissect.rules.conditions import ALL, Condition
from kdissect.rules.evidence_rows import Row
from kdissect.rules.plans.columns import Column

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH_ROWS: Final = 1_000  # 1 MB, as most rows are
# Sorted at once: DuckDB reads a table in any order, with several threads. More would not be sorted
# with 32 MB.
SORTED_ROWS: Final = 20_000


class EveryRow(Protocol):
    """All rows of an evidence."""

    def batches(self, condition: Condition = ALL) -> Iterator[list[Row]]:
        """The rows for which a condition holds, in the order of the evidence."""

    def largest(self, column: str, by: str, condition: Condition) -> dict[str, int]:
        """The largest number of a column by the values of another, of rows that have both."""


class GivenRows:
    """Rows of a list, few of them."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def batches(self, condition: Condition = ALL) -> Iterator[list[Row]]:
        """The rows for which a condition holds."""
        yield from _batches(row for row in self.rows if condition.holds(row))

    def largest(self, column: str, by: str, condition: Condition) -> dict[str, int]:
        """The largest number of a column by the values of another, of rows that have both."""
        found: dict[str, int] = {}
        for rows in self.batches(condition):
            for row in rows:
                found[row[by]] = max(found.get(row[by], 0), row[column])
        return found


class PlannedRows:
    """Rows of a relation of a plan; `columns` are its columns by name."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.count = max((len(column) for column in columns.values()), default=0)
        self.columns = {name: column.spread(self.count) for name, column in columns.items()}

    def batches(self, condition: Condition = ALL) -> Iterator[list[Row]]:
        """The rows for which a condition holds."""
        places = self._places(condition)
        for start in range(0, len(places), BATCH_ROWS):
            chosen = places[start : start + BATCH_ROWS]
            values = [column.take(chosen).python() for column in self.columns.values()]
            yield [dict(zip(self.columns, row, strict=True)) for row in zip(*values, strict=True)]

    def largest(self, column: str, by: str, condition: Condition) -> dict[str, int]:
        """The largest number of a column by the values of another, of rows that have both."""
        places = self._places(condition)
        keys = self.columns[by].take(places)
        found = np.zeros(len(keys.texts), np.int64)
        np.maximum.at(found, keys.values, self.columns[column].values[places])
        return {keys.texts[code]: int(found[code]) for code in np.flatnonzero(found).tolist()}

    def _places(self, condition: Condition) -> "np.ndarray[Any, Any]":
        return np.flatnonzero(condition.flags(self.columns, self.count))


class KeptRows:
    """Rows of a table that DuckDB keeps, while its connection is open."""

    def __init__(self, connection: "DuckDBPyConnection", table: str) -> None:
        self.connection = connection
        self.table = table

    def batches(self, condition: Condition = ALL) -> Iterator[list[Row]]:
        """The rows for which a condition holds; others may be read at the same time."""
        wanted, values = condition.sql()
        for start in range(0, self._count(), SORTED_ROWS):
            cursor = self.connection.cursor().execute(
                f"SELECT * FROM {self.table} WHERE rowid BETWEEN ? AND ? AND {wanted} "  # noqa: S608
                "ORDER BY rowid",  # names and conditions of ours
                [start, start + SORTED_ROWS - 1, *values],
            )
            yield from row_batches(cursor)

    def first(self, count: int) -> list[Row]:
        """The first rows."""
        # Not by a cursor, whose query `interrupt` would not end.
        found = self.connection.execute(
            f"SELECT * FROM {self.table} WHERE rowid < ? ORDER BY rowid",  # noqa: S608  # ours
            [count],
        )
        return [row for rows in row_batches(found) for row in rows]

    def largest(self, column: str, by: str, condition: Condition) -> dict[str, int]:
        """The largest number of a column by the values of another, of rows that have both."""
        wanted, values = condition.sql()
        found = self.connection.cursor().execute(
            f'SELECT "{by}", max("{column}") FROM {self.table} WHERE {wanted} GROUP BY 1',  # noqa: S608
            values,  # names and conditions of ours
        )
        return dict(found.fetchall())

    def _count(self) -> int:
        query = f"SELECT count(*) FROM {self.table}"  # noqa: S608  # a name of ours
        ((count,),) = self.connection.cursor().execute(query).fetchall()
        return int(count)


def row_batches(cursor: "DuckDBPyConnection") -> Iterator[list[Row]]:
    """The rows of a query."""
    titles = [column[0] for column in cursor.description or ()]
    while rows := cursor.fetchmany(BATCH_ROWS):
        yield [dict(zip(titles, row, strict=True)) for row in rows]


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    every = iter(rows)
    while batch := list(islice(every, BATCH_ROWS)):
        yield batch
