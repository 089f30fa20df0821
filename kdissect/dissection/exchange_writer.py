"""Exchanges → rows of all tables that are about exchanges."""

from typing import Final, cast

from mypy_extensions import i64

from kdissect.dissection.body_writer import BodyWriter
from kdissect.dissection.detail import Detail
from kdissect.dissection.record_writer import RecordWriter
from kdissect.dissection.row_sink import RowSink
from kdissect.exchanges.exchange import Exchange, is_group_api
from kdissect.messages.extracted import ROW_BYTES
from kdissect.tables.rows import ErrorRows

EXCHANGE_BYTES: Final = 336  # its row of 42 integers
ERROR_BYTES: Final = 280  # an error and its row


class ExchangeWriter:
    """Adds rows of exchanges to `sink`, as `detail` says; those of bodies and records by others."""

    def __init__(
        self, sink: RowSink, detail: Detail, records: RecordWriter, bodies: BodyWriter
    ) -> None:
        self.sink = sink
        self.detail = detail
        self.records = records
        self.bodies = bodies

    def add_rows(self, exchange: Exchange) -> None:
        """Add the rows of an exchange that depend on its fetch session."""
        if self.detail.makes_exchanges:
            self.sink.exchange_rows.add(exchange)
        if self.detail.makes_partitions:
            self.sink.partition_rows.add(exchange)

    def add_details(self, exchange: Exchange) -> None:
        """Add the rows of its errors, members, batches and records."""
        detail = self.detail
        if detail.makes_errors and exchange.errors is not None:
            cast(ErrorRows, self.sink.tables["errors"]).add(exchange)
        if detail.makes_members and is_group_api(exchange.api_key):
            self.bodies.write_members(exchange)
        partitions = exchange.partitions
        if partitions is not None and (detail.makes_batches or detail.makes_records):
            self.records.write(exchange, partitions)


def size_of_rows(exchange: Exchange) -> i64:
    """Approximate bytes of the rows of an exchange, its partitions and errors."""
    size: i64 = EXCHANGE_BYTES
    partitions = exchange.partitions
    if partitions is not None:
        size += partitions.count * ROW_BYTES + partitions.spent
    if exchange.errors is not None:
        size += len(exchange.errors) * ERROR_BYTES
    return size
