"""Reads the records of a batch in slices: a batch may have millions, each an object while read.

Batches of magic 2, and runs of plain messages, are read in slices of SLICE records. The messages of
a compressed wrapper come at once, because the last one determines the offsets of all.
"""

from collections.abc import Iterator
from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from kdissect.errors import CorruptRecords
from kdissect.messages.batches import PREFIX_SIZE, Batch, Budget, RecordScan
from kdissect.messages.compression import DECOMPRESSED_LIMIT
from kdissect.messages.message_sets import SIZE_SIZE, read_set_within
from kdissect.messages.records import (
    charge,
    check_records_end,
    read_within,
    step_records,
    unpacked,
)

SLICE: Final = 8_192
# Messages inside one wrapper. A `Record` takes 128 bytes: 32 MB.
WRAPPED_LIMIT: Final = 250_000


def read_slices(
    data: bytes, batch: Batch, budget: Budget, limit: i64 = DECOMPRESSED_LIMIT
) -> Iterator[RecordScan]:
    """Like `records.read_within`, in consecutive scans; the last one has the error, if any."""
    if batch.magic == 2:
        yield from slices_of_batch(data, batch, budget, limit)
    elif batch.codec == 0:
        for part in parts_of_run(data, batch, PREFIX_SIZE):
            yield read_within(data, part, budget, limit)
    else:
        wrapped = Budget(budget.size, min(budget.count, WRAPPED_LIMIT))
        scan = read_within(data, batch, wrapped, limit)
        budget.size = wrapped.size
        yield scan


def read_set_slices(
    data: bytes, batch: Batch, budget: Budget, limit: i64 = DECOMPRESSED_LIMIT
) -> Iterator[RecordScan]:
    """Like `read_slices`, for a message set of Kafka 0.7, see `message_sets.read_set_within`."""
    if batch.codec == 0:
        for part in parts_of_run(data, batch, SIZE_SIZE):
            yield read_set_within(data, part, budget, limit)
    else:
        wrapped = Budget(budget.size, min(budget.count, WRAPPED_LIMIT))
        scan = read_set_within(data, batch, wrapped, limit)
        budget.size = wrapped.size
        yield scan


def slices_of_batch(data: bytes, batch: Batch, budget: Budget, limit: i64) -> Iterator[RecordScan]:
    """Slices of a batch of magic 2."""
    limit = min(limit, budget.size)
    scan = RecordScan()
    left = batch.record_count
    try:
        payload, position, end = unpacked(data, batch, limit)
    except CorruptRecords as error:
        scan.fail(error, left)
        charge(budget, batch, scan, limit)
        yield scan
        return
    charge(budget, batch, scan, limit)
    while True:
        count = min(left, SLICE)
        try:
            if count > 0 and budget.count <= 0:
                text = f"batch of more than {batch.record_count - left} records"
                raise CorruptRecords(text)  # noqa: TRY301  # it fails as a bad record does
            position = step_records(payload, position, end, batch, count, scan)
            if count == left:
                check_records_end(payload, position, end, batch)
        except CorruptRecords as error:
            scan.fail(error, max(left - len(scan.records) - scan.lost_count, 0))
            yield scan
            return
        left -= count
        yield scan
        if left == 0:
            return
        scan = RecordScan()


def parts_of_run(data: bytes, batch: Batch, prefix: i64) -> Iterator[Batch]:
    """Split a run of plain messages into runs of SLICE; each message has `prefix` bytes in front.

    The last 4 of those are its size. All were scanned, so they are present.
    """
    start = batch.start
    position = start
    count: i64 = 0
    while position < batch.end:
        position += prefix + i64(read_i32_be(data, position + prefix - 4))
        count += 1
        if count == SLICE or position == batch.end:
            yield part_of(batch, start, position, count)
            start = position
            count = 0


def part_of(batch: Batch, start: i64, end: i64, count: i64) -> Batch:
    """The `count` messages ``data[start:end]`` of a run."""
    return Batch(
        start, end, start, end - start, end - start, batch.magic, batch.attributes, 0,
        batch.timestamp_type, batch.base_offset + start - batch.start, batch.last_offset, count,
        batch.base_time_ms, batch.max_time_ms, -1, -1, -1, -1, batch.crc,
    )  # fmt: skip
