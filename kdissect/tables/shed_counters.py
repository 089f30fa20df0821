"""What was left out of the tables because there was too much to do; compiled, as rows are."""

from mypy_extensions import i64

from kdissect.messages.partitions import AT_BATCH_COUNT, AT_RECORD_COUNT, WIDTH, Partitions


class ShedCounters:
    """Rows that were not made, by table, since the beginning.

    `records` are as many as the headers of batches say; of what a compressed wrapper of magic 0 or
    1 holds nothing is known without unpacking it. `record_batches` are the batches, such wrappers
    among them, whose records these are.
    """

    def __init__(self) -> None:
        self.records: i64 = 0
        self.record_batches: i64 = 0
        self.bodies: i64 = 0
        self.partitions: i64 = 0
        self.batches: i64 = 0

    def add_records(self, partitions: Partitions, reads_kept: bool) -> None:
        """The records of an exchange; with `reads_kept`, those whose bytes were kept are made."""
        cells = partitions.cells
        index: i64 = 0
        while index < partitions.count:
            at = index * WIDTH
            held = partitions.batches_of(index) if reads_kept else None
            if cells[at + AT_BATCH_COUNT] > 0 and (held is None or not held.records):
                self.record_batches += cells[at + AT_BATCH_COUNT]
                self.records += max(0, cells[at + AT_RECORD_COUNT])
            index += 1

    def add_batches(self, partitions: Partitions) -> None:
        """The batches of an exchange, of which none is made yet."""
        cells = partitions.cells
        index: i64 = 0
        while index < partitions.count:
            self.batches += max(0, cells[index * WIDTH + AT_BATCH_COUNT])
            index += 1

    def counts(self) -> dict[str, int]:
        """All of them, by name."""
        return {
            "records": int(self.records),
            "record_batches": int(self.record_batches),
            "bodies": int(self.bodies),
            "partitions": int(self.partitions),
            "batches": int(self.batches),
        }
