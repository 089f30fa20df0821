"""The SQL of what findings rest on, as `tools.print_evidence` printed it."""

import json
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from kdissect.analysis.declared import times_of
from kdissect.tables.schemas import TABLES

DIRECTORY: Final = Path(__file__).parent / "sql"
NS: Final = "_ns"  # beside each time stands its number of nanoseconds


class Printed(NamedTuple):
    """A query, and the columns of tables that it reads: ``request_start`` for its number, too."""

    sql: str
    columns: dict[str, list[str]]


def names() -> list[str]:
    """All that were printed."""
    return sorted(path.stem for path in DIRECTORY.glob("*.sql"))


@cache
def printed(name: str) -> Printed:
    """The query of that name."""
    text = (DIRECTORY / f"{name}.sql").read_text(encoding="utf-8")
    first, _, sql = text.partition("\n")
    read = json.loads(first.removeprefix("--"))
    return Printed(sql, {table: _stored(table, columns) for table, columns in read.items()})


@cache
def columns_needed() -> dict[str, list[str]]:
    """Table → the columns that any of the queries reads."""
    found: dict[str, set[str]] = {}
    for name in names():
        for table, columns in printed(name).columns.items():
            found.setdefault(table, set()).update(columns)
    return {
        table: [column.name for column in TABLES[table].columns if column.name in chosen]
        for table, chosen in found.items()
    }


def _stored(table: str, columns: list[str]) -> list[str]:
    numbers = {f"{time}{NS}": time for time in times_of(TABLES[table])}
    return sorted({numbers.get(column, column) for column in columns})
