"""Exchange, connection, problem → packed rows: one 64-bit integer for each stored column.

The hot path of the tables: rows of a table are appended to one buffer by its writer; texts become
indices into a dictionary of the batch. `batches.py` turns the buffer into Arrow a column at a time.
"""

from typing import Final, cast

from librt.strings import write_i64_le
from librt.vecs import extend, vec
from mypy_extensions import i64

from kdissect.errors import Problem
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import Exchange
from kdissect.messages.partitions import AT_ERROR_CODE, WIDTH, Partition, Partitions
from kdissect.messages.record_columns import RecordColumns
from kdissect.messages.records import Batch, Record
from kdissect.protocol.readers import NULL
from kdissect.tables.row_buffers import (
    BatchWriter,
    ConnectionRow,
    ConnectionWriter,
    ErrorWriter,
    ExchangeWriter,
    PartitionWriter,
    ProblemWriter,
    RecordWriter,
    Rows,
    aborted_or_null,
    code_in,
)
from kdissect.tables.row_writers import new_writer
from kdissect.tls.session_properties import SessionProperties

__all__ = [
    "BatchRows", "ConnectionRows", "ErrorRows", "ExchangeRows", "PartitionRows", "ProblemRows",
    "RecordRows", "Rows", "aborted_or_null",
]  # fmt: skip

HEADER_BYTES: Final = 150  # a record's header as a pair, approximately


class ExchangeRows(Rows):
    """Rows of `exchanges`."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = cast(ExchangeWriter, new_writer("exchanges", self))

    def add(self, x: Exchange) -> None:
        """Append one exchange."""
        self.writer.write(self.buffer, x)
        self.count += 1


class PartitionRows(Rows):
    """Rows of `partitions`: `cells`, and in the buffer the values that many of them share.

    A run covers one topic of an exchange: its columns in the order of the table, and its number of
    partitions. The cells are those of `messages.partitions`, in that order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.writer = cast(PartitionWriter, new_writer("partitions", self))
        self.cells: vec[i64] = vec[i64]()

    def add(self, x: Exchange) -> None:
        """Append the topic-partitions of an exchange."""
        partitions = x.partitions
        if partitions is None:
            return
        cells = partitions.cells
        start: i64 = 0
        at: i64 = 0
        while at < len(cells):
            at += WIDTH
            if at == len(cells) or cells[at] != cells[start]:
                self._add_run(x, partitions, cells[start], (at - start) // WIDTH)
                start = at
        self.count += partitions.count
        at = len(self.cells) + AT_ERROR_CODE
        self.cells = extend(self.cells, cells)
        if x.dialect != 0:
            while at < len(self.cells):
                self.cells[at] = code_in(x.dialect, self.cells[at])
                at += WIDTH

    def _add_run(self, x: Exchange, partitions: Partitions, topic: i64, count: i64) -> None:
        self.writer.write(self.buffer, x, partitions, topic)
        write_i64_le(self.buffer, count)


class BatchRows(Rows):
    """Rows of `batches`."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = cast(BatchWriter, new_writer("batches", self))

    def add(self, x: Exchange, p: Partition, batch: Batch, crc_ok: i64) -> None:
        """Append one batch; `crc_ok` is 1, 0 or NULL (not verified)."""
        self.writer.write(self.buffer, x, p, batch, crc_ok)
        self.count += 1


class RecordRows(Rows):
    """Rows of `records`: `columns`, and in the buffer the values that many of them share.

    A run covers one batch: its columns in the order of the table, and its number of records.
    Keys, values and headers are kept beside them when payload is requested.
    """

    def __init__(self) -> None:
        super().__init__()
        self.writer = cast(RecordWriter, new_writer("records", self))
        self.columns = RecordColumns()
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[list[tuple[bytes, bytes | None]]] = []

    def add_run(self, x: Exchange, p: Partition, count: i64, aborted: i64 = NULL) -> None:
        """Append a run for the last `count` records in the columns; `aborted`: 1, 0 or NULL."""
        if count == 0:
            return
        self.writer.write(self.buffer, x, p, aborted)
        write_i64_le(self.buffer, count)
        self.count += count

    def add(self, record: Record) -> None:
        """Append one record to the columns; `add_run` assigns it to a batch."""
        self.columns.add(
            record.offset, record.time_ms, record.key_size, record.value_size, record.header_count
        )

    def add_payload(self, record: Record, is_secret: bool = False) -> None:
        """Append key, value and headers of the record; null for a secret one."""
        if is_secret:
            self.keys.append(None)
            self.values.append(None)
            self.headers.append([])
            return
        self.keys.append(record.key())
        self.values.append(record.value())
        self.headers.append(record.headers())
        self.text_size += record.end - record.start + HEADER_BYTES * record.header_count


class ErrorRows(Rows):
    """Rows of `errors`."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = cast(ErrorWriter, new_writer("errors", self))

    def add(self, x: Exchange) -> None:
        """Append the errors of one exchange; its own group where the error has none."""
        errors = x.errors
        if errors is None:
            return
        for error in errors:
            self.writer.write(self.buffer, x, error)
            self.count += 1


class ProblemRows(Rows):
    """Rows of `problems`."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = cast(ProblemWriter, new_writer("problems", self))

    def add(self, problem: Problem) -> None:
        """Append one problem."""
        self.writer.write(self.buffer, problem)
        self.count += 1


class ConnectionRows(Rows):
    """Rows of `connections`."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = cast(ConnectionWriter, new_writer("connections", self))

    def add(
        self,
        state: ConnectionState,
        framed: tuple[int, int],
        skipped: tuple[int, int],
        facts: SessionProperties | None,
    ) -> None:
        """Append a closed connection; framed and skipped bytes are by direction."""
        self.writer.write(self.buffer, ConnectionRow(state, framed, skipped, facts))
        self.count += 1
