"""Counters of rows left out of the tables by shedding; compiled, as rows are."""

from mypy_extensions import i64

from kdissect.messages.partitions import (
    AT_BATCH_COUNT,
    AT_CONTROL_COUNT,
    AT_RECORD_COUNT,
    WIDTH,
    Partitions,
)


class ShedCounters:
    """Rows not made because of shedding, by table, since the start.

    `records` are counted by the headers of batches; the records inside a compressed wrapper of
    magic 0 or 1 cannot be counted without unpacking it. `record_batches` are the batches of these
    records, such wrappers included.
    """

    def __init__(self) -> None:
        self.records: i64 = 0
        self.record_batches: i64 = 0
        self.bodies: i64 = 0
        self.partitions: i64 = 0
        self.batches: i64 = 0

    def add_records(self, partitions: Partitions, reads_kept: bool) -> None:
        """Count the records of an exchange; with `reads_kept`, those with kept bytes are made."""
        cells = partitions.cells
        index: i64 = 0
        while index < partitions.count:
            at = index * WIDTH
            held = partitions.batches_of(index) if reads_kept else None
            if cells[at + AT_BATCH_COUNT] > 0 and (held is None or not held.records):
                self.record_batches += cells[at + AT_BATCH_COUNT]
                self.records += max(0, cells[at + AT_RECORD_COUNT])
                self.records += max(0, cells[at + AT_CONTROL_COUNT])
            index += 1

    def add_batches(self, partitions: Partitions) -> None:
        """Count the batches of an exchange before any is made."""
        cells = partitions.cells
        index: i64 = 0
        while index < partitions.count:
            self.batches += max(0, cells[index * WIDTH + AT_BATCH_COUNT])
            index += 1

    def counts(self) -> dict[str, int]:
        """All counters, by name."""
        return {
            "records": int(self.records),
            "record_batches": int(self.record_batches),
            "bodies": int(self.bodies),
            "partitions": int(self.partitions),
            "batches": int(self.batches),
        }
