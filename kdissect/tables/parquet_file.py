"""Arrow record batches → the bytes of a Parquet file.

    file      "PAR1", row groups, footer, u32 size of the footer, "PAR1"
    row group a chunk for each column, one behind the other
    footer    FileMetaData (Thrift): schema, where every chunk is, the Arrow schema

Why not Arrow's own writer: docs/decisions/parquet.md. Only the types of `batches.ARROW_TYPES`.
"""

import base64
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import zstandard

from kdissect import __version__
from kdissect.tables import thrift
from kdissect.tables.parquet_columns import BYTE_ARRAY, COMPRESSION_LEVEL, make_column

MAGIC: Final = b"PAR1"
VERSION: Final = 2
CREATED_BY: Final = f"kdissect version {__version__}".encode()

OPTIONAL: Final = 1
UTF8: Final = 0  # of the converted types
INT_8: Final = 15
INT_16: Final = 16
STRING: Final = 1  # of the logical types
TIMESTAMP: Final = 8
INTEGER: Final = 10
NANOSECONDS: Final = 3


class RowGroups:
    """Writes a file by `put`, which takes bytes: `write` batches, `end_group` now and then, `end`.

    `rows` and `size` (bytes, before compression) are those of the row group that is being filled.
    """

    def __init__(self, put: Callable[[bytes], object], schema: pa.Schema) -> None:
        self.put = put
        self.schema = schema
        self.columns = [make_column(field) for field in schema]
        self.compressor = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
        self.position = 0
        self.rows = 0
        self.total_rows = 0
        self.groups: list[bytes] = []
        self._write([MAGIC])

    @property
    def size(self) -> int:
        """About how many bytes wait."""
        return sum(column.size for column in self.columns)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a page to every column."""
        for column, array in zip(self.columns, batch.columns, strict=True):
            column.add(array)
        self.rows += batch.num_rows

    def end_group(self) -> None:
        """Write the row group; nothing when it has no rows."""
        if self.rows == 0:
            return
        start = self.position
        parts: list[bytes] = []
        chunks: list[bytes] = []
        raw_size = 0
        at = start
        for column in self.columns:
            pages, chunk, raw = column.finish(at, self.compressor)
            parts += pages
            chunks.append(chunk)
            raw_size += raw
            at += sum(map(len, pages))
        self._write(parts)
        fields = [
            thrift.listed(1, thrift.STRUCT, chunks),
            thrift.int64(2, raw_size),
            thrift.int64(3, self.rows),
            thrift.int64(5, start),
            thrift.int64(6, at - start),
        ]
        self.groups.append(thrift.struct(fields))
        self.total_rows += self.rows
        self.rows = 0

    def end(self) -> None:
        """Write what waits, and the footer."""
        self.end_group()
        elements = [root_element(len(self.columns))]
        elements += [
            element(field, column.physical)
            for field, column in zip(self.schema, self.columns, strict=True)
        ]
        footer = thrift.struct(
            [
                thrift.int32(1, VERSION),
                thrift.listed(2, thrift.STRUCT, elements),
                thrift.int64(3, self.total_rows),
                thrift.listed(4, thrift.STRUCT, self.groups),
                thrift.listed(5, thrift.STRUCT, key_values(self.schema)),
                thrift.binary(6, CREATED_BY),
                # Values are ordered as their types say: without it nobody trusts the statistics.
                thrift.listed(
                    7, thrift.STRUCT, [thrift.struct([thrift.nested(1, [])])] * len(self.columns)
                ),
            ]
        )
        self._write([footer, len(footer).to_bytes(4, "little"), MAGIC])

    def _write(self, parts: list[bytes]) -> None:
        content = b"".join(parts)
        self.position += len(content)
        self.put(content)


def root_element(columns: int) -> bytes:
    """The schema's first element, which has the others inside."""
    return thrift.struct(
        [thrift.int32(3, 0), thrift.binary(4, b"schema"), thrift.int32(5, columns)]
    )


def element(field: pa.Field, physical: int) -> bytes:
    """The schema's element of a column; all may have nulls."""
    fields = [
        thrift.int32(1, physical),
        thrift.int32(3, OPTIONAL),
        thrift.binary(4, field.name.encode()),
    ]
    if pa.types.is_timestamp(field.type):
        # Adjusted to UTC, in ns.
        kind = [thrift.boolean(1, True), thrift.nested(2, [thrift.nested(NANOSECONDS, [])])]
        fields.append(thrift.nested(10, [thrift.nested(TIMESTAMP, kind)]))
    elif physical == BYTE_ARRAY and not pa.types.is_binary(field.type):
        fields += [
            thrift.int32(6, UTF8),
            thrift.nested(10, [thrift.nested(STRING, [])]),
        ]
    elif pa.types.is_integer(field.type) and field.type.bit_width < 32:
        width = field.type.bit_width
        kind = [thrift.byte(1, width), thrift.boolean(2, True)]
        fields += [
            thrift.int32(6, INT_8 if width == 8 else INT_16),
            thrift.nested(10, [thrift.nested(INTEGER, kind)]),
        ]
    return thrift.struct(fields)


def key_values(schema: pa.Schema) -> list[bytes]:
    """The schema's metadata, and the schema itself as Arrow's readers look for it."""
    pairs = dict(schema.metadata or {})
    pairs[b"ARROW:schema"] = base64.b64encode(schema.serialize().to_pybytes())
    return [
        thrift.struct([thrift.binary(1, key), thrift.binary(2, value)])
        for key, value in pairs.items()
    ]
