"""Table schemas: every column's name, type, unit, meaning and source, declared once.

The Arrow schema, the code that writes rows (`writers_source`), the Spark schema and docs/tables.md
are all derived from here. A `stored` column is one packed integer a row (text is an index into the
batch's dictionary); the others are computed a column at a time when a batch is closed
(`batches.py`). The columns are in `declarations`, or beside the fields that they are made of.
"""

from typing import Final

from kdissect.messages.columns import (
    BINARY,
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    TEXT,
    TIME,
    Column,
)
from kdissect.tables.declarations.connections import CONNECTIONS
from kdissect.tables.declarations.exchanges import EXCHANGES
from kdissect.tables.declarations.problems import PROBLEMS
from kdissect.tables.declarations.records import BATCHES, PARTITIONS, RECORDS
from kdissect.tables.declarations.responses import BODIES, ERRORS, MEMBERS
from kdissect.tables.declarations.table import Table

__all__ = [
    "BINARY", "BOOL", "INT8", "INT16", "INT32", "INT64", "TEXT", "TIME", "Column", "Table",
    "CONNECTIONS", "EXCHANGES", "PARTITIONS", "BATCHES", "RECORDS", "ERRORS", "MEMBERS", "BODIES",
    "PROBLEMS", "TABLES", "DEFAULT_TABLES",
]  # fmt: skip

TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        CONNECTIONS, EXCHANGES, PARTITIONS, BATCHES, RECORDS, ERRORS, MEMBERS, BODIES, PROBLEMS,
    )
}  # fmt: skip
DEFAULT_TABLES: Final = tuple(table.name for table in TABLES.values() if table.is_default)
