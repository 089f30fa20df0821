"""The SQL of what findings rest on, as `tools.print_evidence` printed it."""

import json
from functools import cache
from pathlib import Path
from typing import Final

from kdissect.analysis.engines.ibis_tables import times_of
from kdissect.rules.evidence_rows import ROWS
from kdissect.tables.schemas import TABLES

DIRECTORY: Final = Path(__file__).parent / "sql"
COLUMNS: Final = "columns.json"
LIMITED: Final = f" LIMIT {ROWS + 1}\n)\n"  # as every query ends
NS: Final = "_ns"  # beside each time stands its number of nanoseconds


def names() -> list[str]:
    """All that were printed."""
    return sorted(path.stem for path in DIRECTORY.glob("*.sql"))


def query(name: str) -> str:
    """The SQL of that name."""
    return (DIRECTORY / f"{name}.sql").read_text(encoding="utf-8")


def whole_query(name: str) -> str:
    """The same without its limit."""
    text = query(name)
    if not text.endswith(LIMITED):
        raise ValueError(f"{name}.sql has no limit")
    return text.removesuffix(LIMITED) + "\n)\n"


@cache
def columns_needed() -> dict[str, list[str]]:
    """Table → the columns that any of the queries reads, in the order of the table."""
    text = (DIRECTORY / COLUMNS).read_text(encoding="utf-8")
    return {table: list(columns) for table, columns in json.loads(text).items()}


def stored_columns(table: str, read: set[str]) -> list[str]:
    """The columns behind those that a query reads: ``request_start`` for its number, too."""
    numbers = {f"{time}{NS}": time for time in times_of(TABLES[table])}
    wanted = {numbers.get(column, column) for column in read}
    return [column.name for column in TABLES[table].columns if column.name in wanted]
