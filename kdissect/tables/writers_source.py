"""The source of `generated_writers`: a class for each table, of its columns in `schemas`.

The source of a column is an expression of what its writer is given; `own` in it is the dictionary
of the column's texts, `topic_ids` that of the rows' topic ids. A build writes the module below
build/ and compiles it; where nothing is compiled, `row_writers` runs the same source. It needs only
what a build has: no module that it imports may need a dependency of kdissect.
"""

import re
from typing import Final

from kdissect.tables.schemas import TABLES, Column

# Parameters of the writer of each table, by its class in `row_buffers`.
WRITERS: Final = {
    "connections": ("ConnectionWriter", "c: ConnectionRow"),
    "exchanges": ("ExchangeWriter", "x: Exchange"),
    "partitions": ("PartitionWriter", "x: Exchange, partitions: Partitions, topic: i64"),
    "batches": ("BatchWriter", "x: Exchange, p: Partition, batch: Batch, crc_ok: i64"),
    "records": ("RecordWriter", "x: Exchange, p: Partition, aborted: i64"),
    "errors": ("ErrorWriter", "x: Exchange, error: ErrorFact"),
    "members": ("MemberWriter", "x: Exchange, m: Membership"),
    "bodies": ("BodyWriter", "x: Exchange, request: str, response: str"),
    "problems": ("ProblemWriter", "problem: Problem"),
}
HEAD: Final = '''\
"""Writers of rows, a class for each table; written out of its columns, see `writers_source`."""

from typing import Final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from kdissect.errors import Problem
from kdissect.exchanges.exchange import Exchange
from kdissect.messages.extracted import ErrorFact
from kdissect.messages.memberships import Membership
from kdissect.messages.partitions import Partition, Partitions
from kdissect.messages.record_columns import ns_of_ms
from kdissect.messages.records import Batch
from kdissect.protocol.readers import NULL
from kdissect.tables import row_buffers
from kdissect.tables.body_rows import int_or_null
from kdissect.tables.row_buffers import (
    ConnectionRow,
    Rows,
    aborted_or_null,
    api_code,
    code_in,
    count_or_null,
    flag_or_null,
    in_direction,
    or_null,
    partition_count,
    retransmitted_bytes,
)
'''
OWN: Final = re.compile(r"\bown\b")
TOPIC_IDS: Final = re.compile(r"\btopic_ids\.")
# Read once per row, as several columns are fields of the request.
ASKED: Final = re.compile(r"\bx\.asked\b")


def module_source() -> str:
    """The source of the module."""
    classes = [writer_class(name) for name in TABLES]
    entries = "".join(f'    "{name}": {class_name(name)},\n' for name in TABLES)
    return "\n\n".join([HEAD, *classes, f"WRITERS: Final = {{\n{entries}}}\n"])


def class_name(table: str) -> str:
    """Name of the class that writes a table."""
    return f"{table.capitalize()}Columns"


def writer_class(table: str) -> str:
    """The class that writes the columns of one table."""
    base, parameters = WRITERS[table]
    columns = [column for column in TABLES[table].stored if column.source]
    texts = [column.name for column in columns if OWN.search(column.source)]
    written = [expression(column) for column in columns]
    return "\n".join(
        [
            f"class {class_name(table)}(row_buffers.{base}):",
            "    def __init__(self, rows: Rows) -> None:",
            "        self.topic_ids = rows.topic_ids",
            *[f'        self.{name} = rows.column("{name}")' for name in texts],
            "",
            f"    def write(self, b: BytesWriter, {parameters}) -> None:",
            *(["        asked = x.asked"] if any("asked." in one for one in written) else []),
            *[f"        write_i64_le(b, {one})" for one in written],
            "",
        ]
    )


def expression(column: Column) -> str:
    """The source of a column as code of a method."""
    own = OWN.sub(f"self.{column.name}", column.source)
    return ASKED.sub("asked", TOPIC_IDS.sub("self.topic_ids.", own))
