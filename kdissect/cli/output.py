"""Rows on stdout or in a file: table, json, jsonl, csv and parquet, from record batches.

Text from the wire is escaped (`table`, `csv`), so that a terminal or an editor shows it as
characters; in CSV, texts that a spreadsheet would evaluate are prefixed by an apostrophe. JSON has
its own escapes for the same characters and decodes to the original text; Parquet carries it
unchanged. Bytes are text in JSON when they are UTF-8, else ``{"base64": "..."}``. Times are
ISO 8601 with nanoseconds, in UTC.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

import click

from kdissect.cli.cells import is_numeric, json_cells, json_values, text_of
from kdissect.cli.documents import DocumentWriter
from kdissect.cli.help import DOCUMENT
from kdissect.cli.long_values import (
    LongValue,
    csv_pieces,
    is_long,
    row_pieces,
)
from kdissect.text.escape import csv_safe, escaped

if TYPE_CHECKING:
    import pyarrow as pa

# Placeholder for a long value while Arrow writes the others; no escaped text contains it.
_LONG_NUL: Final = "\0"
_LONG_CELL: Final = b'"\0"'
SUFFIXES: Final = {".json": "json", ".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet"}


class Writer(Protocol):
    """Writes the batches of one table, all of the same schema."""

    def write(self, batch: "pa.RecordBatch") -> None: ...

    def close(self) -> None: ...


def chosen_format(asked: str | None, path: Path | None) -> str:
    """The requested format, else by extension, else table on a terminal and jsonl in a pipe."""
    if asked:
        return asked
    if path:
        if path.suffix not in SUFFIXES:
            raise click.UsageError(f"which format is {path.name}? Say --format.")
        return SUFFIXES[path.suffix]
    return "table" if sys.stdout.isatty() else "jsonl"


def make_writer(
    format_: str,
    file: IO[bytes],
    columns: list[str] | None = None,
    schema: "pa.Schema | None" = None,
    extra: Mapping[str, Any] | None = None,
) -> Writer:
    """The writer for a format; with `columns` a table shows all of them, fitting or not.

    With `schema`, files that have a header (csv, parquet) have it without any rows too. `extra` is
    other members of a document of --json.
    """
    if format_ == DOCUMENT:
        return BatchDocumentWriter(file, schema, extra)
    if format_ == "parquet":
        if file.isatty():
            raise click.UsageError("parquet is not for a terminal: use -o FILE")
        return ParquetWriter(file, schema)
    if format_ == "csv":
        return CsvWriter(file, schema)
    if format_ == "table":
        from kdissect.cli.table_writer import TableWriter

        return TableWriter(file, columns)
    return JsonWriter(file, is_array=format_ == "json")


class JsonWriter:
    """One object per line; a single array with `is_array`."""

    def __init__(self, file: IO[bytes], is_array: bool) -> None:
        self._file = file
        self._is_array = is_array
        self._between = b"[\n" if is_array else b""

    def write(self, batch: "pa.RecordBatch") -> None:
        for row in json_rows(batch):
            self._file.write(self._between)
            for piece in row_pieces(row):
                self._file.write(piece)
            if self._is_array:
                self._between = b",\n"
            else:
                self._file.write(b"\n")

    def close(self) -> None:
        if self._is_array:
            self._file.write(b"[]\n" if self._between == b"[\n" else b"\n]\n")


class BatchDocumentWriter(DocumentWriter):
    """A document of --json from record batches."""

    def write(self, batch: "pa.RecordBatch") -> None:
        self.begin(self._schema or batch.schema)
        for row in json_rows(batch):
            self.write_object(row)


class CsvWriter:
    """Comma-separated, with a header line."""

    def __init__(self, file: IO[bytes], schema: "pa.Schema | None" = None) -> None:
        self._file = file
        self._schema = schema
        self._has_header = False

    def write(self, batch: "pa.RecordBatch") -> None:
        import pyarrow as pa
        from pyarrow import csv

        long = {
            number: list(json_cells(column))
            for number, column in enumerate(batch.columns)
            if is_long(column)
        }
        columns = [
            _csv_texts(long[number]) if number in long else _csv_column(column)
            for number, column in enumerate(batch.columns)
        ]
        cells = pa.RecordBatch.from_arrays(columns, batch.schema.names)
        options = csv.WriteOptions(include_header=not self._has_header)
        self._has_header = True
        if not long:
            csv.write_csv(cells, self._file, options)
            return
        rendered = pa.BufferOutputStream()
        csv.write_csv(cells, rendered, options)
        between = rendered.getvalue().to_pybytes().split(_LONG_CELL)
        self._file.write(between[0])
        rows = zip(*long.values(), strict=True)
        values = (cell for row in rows for cell in row if isinstance(cell, LongValue))
        for value, after in zip(values, between[1:], strict=True):
            for piece in csv_pieces(value.data):
                self._file.write(piece)
            self._file.write(after)

    def close(self) -> None:
        if not self._has_header and self._schema is not None:
            self.write(empty_batch(self._schema))


class ParquetWriter:
    """One Parquet file, zstd-compressed, one row group per batch.

    Columns of plain texts and bytes have no dictionary and no statistics, which would copy each of
    their values several times: of one of 64 MB the peak was 600 MB.
    """

    def __init__(self, file: IO[bytes], schema: "pa.Schema | None" = None) -> None:
        self._file = file
        self._schema = schema
        self._writer: Any = None

    def write(self, batch: "pa.RecordBatch") -> None:
        from pyarrow import parquet

        if self._writer is None:
            short = [field.name for field in batch.schema if not _may_be_long(field.type)]
            self._writer = parquet.ParquetWriter(
                self._file, batch.schema, compression="zstd", use_dictionary=short,
                write_statistics=short,
            )  # fmt: skip
        self._writer.write_batch(batch)

    def close(self) -> None:
        if self._writer is None and self._schema is not None:
            self.write(empty_batch(self._schema))
        if self._writer is not None:
            self._writer.close()


def _may_be_long(type_: "pa.DataType") -> bool:
    """Return whether a column holds plain texts or bytes, without a dictionary."""
    import pyarrow as pa

    plain = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return any(is_of(type_) for is_of in (*plain, pa.types.is_large_binary))


def empty_batch(schema: "pa.Schema") -> "pa.RecordBatch":
    """A batch without rows."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema)


def json_rows(batch: "pa.RecordBatch") -> Iterator[dict[str, Any]]:
    """Rows as JSON values; long values are `LongValue`."""
    names = batch.schema.names
    columns = [
        json_cells(column) if is_long(column) else json_values(column) for column in batch.columns
    ]
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _csv_column(column: "pa.Array") -> "pa.Array":
    import pyarrow as pa

    if is_numeric(column.type) or pa.types.is_boolean(column.type):
        return column
    return _csv_texts(json_values(column))


def _csv_texts(values: Iterable[Any]) -> "pa.Array":
    """Cells as text; long ones as `_LONG_NUL`, which no other contains: they are escaped."""
    import pyarrow as pa

    texts = (
        None if value is None
        else _LONG_NUL if isinstance(value, LongValue)
        else escaped(csv_safe(text_of(value)))
        for value in values
    )  # fmt: skip
    return pa.array(texts, pa.string())
