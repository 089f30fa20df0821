"""Record batches of exchanges → rows of `batches` and `records`, checksums verified.

An exchange may have millions of records. Those of a large one are written in steps, between which
rows can be taken.
"""

from collections.abc import Iterator
from typing import Final

from mypy_extensions import i64

from kdissect.dissection.cancellation import RECORD_STEPS, Cancellation
from kdissect.dissection.detail import Detail
from kdissect.dissection.row_sink import RowSink
from kdissect.errors import CorruptRecords, DecompressionLimit
from kdissect.exchanges.exchange import Exchange
from kdissect.messages.batches import Batch
from kdissect.messages.decompression_budget import Unpacking
from kdissect.messages.message_sets import check_read_set_crc, read_set_within
from kdissect.messages.metadata_topics import CLUSTER_METADATA, CLUSTER_METADATA_ID
from kdissect.messages.partitions import Partition, Partitions
from kdissect.messages.record_slices import read_set_slices, read_slices
from kdissect.messages.records import (
    Budget,
    RecordScan,
    check_read_crc,
    has_inner_crc,
    pack_within,
    read_within,
)
from kdissect.protocol.readers import NULL
from kdissect.tables.rows import aborted_or_null

RECORD_BYTES: Final = 32  # of a row without payload
BATCH_BYTES: Final = 200
# An exchange with more records than this on the wire, or records in it, is written in steps.
LARGE_RECORD_BYTES: Final = 256 << 10
LARGE_RECORD_COUNT: Final = 65_536
DONE: Final = object()
NO_RECORDS: Final = RecordScan()  # of a batch that is not scanned; nothing is added to it
TOO_MANY: Final = "too many records and headers in one message"


class RecordWriter:
    """Adds rows of batches and records to `sink`, as `detail` says."""

    def __init__(
        self,
        sink: RowSink,
        detail: Detail,
        cancellation: Cancellation,
        unpacking: Unpacking,
        has_payload: bool,
    ) -> None:
        self.sink = sink
        self.detail = detail
        self.cancellation = cancellation
        self.unpacking = unpacking
        self.has_payload = has_payload
        # Of the exchange that is being written.
        self._steps: Iterator[None] | None = None

    @property
    def is_behind(self) -> bool:
        """Return whether records of the last exchange wait: call `step`."""
        return self._steps is not None

    def write(self, exchange: Exchange, partitions: Partitions) -> None:
        """Add the rows of an exchange, of a large one as far as there is room."""
        held = partitions.held
        if held is None:
            return
        budget = self.unpacking.budget(max(exchange.record_bytes, 0))
        if self.detail.makes_records and is_large(exchange):
            self._steps = self._large(exchange, partitions, budget)
            while self._steps is not None and not self.sink.is_full:
                self.step()
            return
        for index in sorted(held):
            self._batches(exchange, partitions.row(index), budget)
        self.unpacking.settle(budget)

    def step(self) -> None:
        """Continue with the records of one exchange."""
        if self._steps is not None and next(self._steps, DONE) is DONE:
            self._steps = None

    def _batches(self, exchange: Exchange, partition: Partition, budget: Budget) -> None:
        batches = partition.batches
        if batches is None:
            return
        for batch in batches:
            scan = NO_RECORDS
            if self.detail.makes_records and partition.records:
                scan = self._records(exchange, partition, batch, budget)
            elif self.detail.verifies_crc and has_inner_crc(batch):
                scan = self._read(exchange, partition, batch, budget)
            self._batch_row(exchange, partition, batch, scan, budget)

    def _batch_row(
        self,
        exchange: Exchange,
        partition: Partition,
        batch: Batch,
        scan: RecordScan,
        budget: Budget,
    ) -> None:
        """Add the row of a batch, with the results of `scan` of its records."""
        detail = self.detail
        if scan.error is not None and detail.makes_records:
            self._report_lost(exchange, partition, scan, budget)
        if detail.makes_batches:
            crc_ok: i64 = NULL
            if detail.verifies_crc:
                crc_ok = 1 if crc_is_right(exchange, partition, batch, scan) else 0
            self.sink.batch_rows.add(exchange, partition, batch, crc_ok)
            self.sink.note_made(BATCH_BYTES)
            if detail.has_shed:
                detail.shed.batches -= 1
        self.cancellation.look()

    def _large(self, exchange: Exchange, partitions: Partitions, budget: Budget) -> Iterator[None]:
        """Add the rows of the batches of an exchange, some records at a time."""
        held = partitions.held
        if held is None:
            return
        for index in sorted(held):
            partition = partitions.row(index)
            for batch in partition.batches or ():
                whole = RecordScan()
                for scan in self._slices(exchange, partition, batch, budget):
                    self._add_run(exchange, partition, batch, scan, budget)
                    combine(whole, scan, batch)
                    if self.sink.is_full:
                        yield
                self._batch_row(exchange, partition, batch, whole, budget)
                self.unpacking.settle(budget)
                if self.sink.is_full:
                    yield

    def _slices(
        self, exchange: Exchange, partition: Partition, batch: Batch, budget: Budget
    ) -> Iterator[RecordScan]:
        if exchange.dialect:
            return read_set_slices(partition.records, batch, budget, self.unpacking.limit)
        return read_slices(partition.records, batch, budget, self.unpacking.limit)

    def _read(
        self, exchange: Exchange, partition: Partition, batch: Batch, budget: Budget
    ) -> RecordScan:
        if exchange.dialect:
            return read_set_within(partition.records, batch, budget, self.unpacking.limit)
        return read_within(partition.records, batch, budget, self.unpacking.limit)

    def _records(
        self, exchange: Exchange, partition: Partition, batch: Batch, budget: Budget
    ) -> RecordScan:
        """Add the rows of the records of a batch."""
        if self.has_payload or exchange.dialect:
            scan = self._read(exchange, partition, batch, budget)
        else:
            columns, limit = self.sink.record_rows.columns, self.unpacking.limit
            scan = pack_within(partition.records, batch, budget, columns, limit)
        self._add_run(exchange, partition, batch, scan, budget)
        return scan

    def _add_run(
        self,
        exchange: Exchange,
        partition: Partition,
        batch: Batch,
        scan: RecordScan,
        budget: Budget,
    ) -> None:
        """Add the rows of records of one batch."""
        count = scan.packed_count
        if scan.records:
            count += self._add_records(partition, scan, budget)
        self.cancellation.worked += RECORD_STEPS * count
        self.sink.record_rows.add_run(exchange, partition, count, aborted_or_null(batch))
        self.sink.note_made(RECORD_BYTES * count)

    def _add_records(self, partition: Partition, scan: RecordScan, budget: Budget) -> i64:
        """Add records that were read one by one; return their number."""
        # Credentials are among the records of the metadata log; opened bodies have them redacted.
        is_secret = partition.topic_id == CLUSTER_METADATA_ID or partition.topic == CLUSTER_METADATA
        rows = self.sink.record_rows
        count: i64 = 0
        for record in scan.records:
            if not budget.take(1 + record.header_count if self.has_payload else 1):
                scan.fail(CorruptRecords(TOO_MANY), len(scan.records) - count)
                break
            rows.add(record)
            if self.has_payload:
                before = rows.text_size
                rows.add_payload(record, is_secret)
                self.sink.note_made(rows.text_size - before)
            count += 1
        return count

    def _report_lost(
        self, exchange: Exchange, partition: Partition, scan: RecordScan, budget: Budget
    ) -> None:
        """Report records of a batch that could not be read."""
        text = f"partition {partition.partition}: {scan.lost_count} records lost: {scan.error}"
        kind = "corrupt-records"
        if budget.is_of_all and isinstance(scan.error, DecompressionLimit):
            kind = "unpacked-limit"
            text += f", what is left of {self.unpacking.ratio_in_all} times the captured bytes"
        time, packet = exchange.request_start, exchange.request_packet
        self.sink.report(exchange, kind, text, time, packet, partition.record_bytes)


def is_large(exchange: Exchange) -> bool:
    """Return whether an exchange may have very many records."""
    if exchange.record_bytes > LARGE_RECORD_BYTES:
        return True
    return exchange.record_count > LARGE_RECORD_COUNT


def combine(whole: RecordScan, scan: RecordScan, batch: Batch) -> None:
    """Take the results for a batch once all its slices are read."""
    whole.lost_count += scan.lost_count
    if whole.error is None:
        whole.error = scan.error
    if has_inner_crc(batch):
        # Records inside a wrapper come in one slice, and are few enough.
        whole.records = scan.records


def crc_is_right(exchange: Exchange, partition: Partition, batch: Batch, scan: RecordScan) -> bool:
    """Return whether the checksums of a batch, and of the messages of `scan` inside it, match."""
    if exchange.dialect:
        return check_read_set_crc(partition.records, batch, scan)
    return check_read_crc(partition.records, batch, scan)
