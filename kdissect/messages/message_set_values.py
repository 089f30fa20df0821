"""Message sets of Kafka 0.7 as plain values, for `show`."""

from kdissect.messages.batches import Batch, Budget
from kdissect.messages.compression import CODECS
from kdissect.messages.message_sets import check_read_set_crc, read_set_within, scan_set
from kdissect.messages.records import (
    SHOWN_BATCH_BYTES,
    SHOWN_RECORD_BYTES,
    passed_over,
    shown_budget,
    shown_records,
)
from kdissect.messages.value_budget import current


def decode_set(
    data: bytes, position: int = 0, budget: Budget | None = None
) -> list[dict[str, object]]:
    """Decode a whole message set to plain values, for `show`; see `records.decode_records`."""
    if budget is None:
        budget = shown_budget(len(data))
    value_budget = current()
    scan = scan_set(data, 0, len(data), position, max(value_budget.left // SHOWN_BATCH_BYTES, 0))
    value_budget.left -= SHOWN_BATCH_BYTES * len(scan.batches)
    decoded = [decode_batch(data, batch, budget) for batch in scan.batches]
    return decoded + passed_over(scan, len(data))


def decode_batch(data: bytes, batch: Batch, budget: Budget) -> dict[str, object]:
    """Fields and messages of one run or wrapper."""
    most = max(current().left // SHOWN_RECORD_BYTES, 0)
    own = Budget(budget.size, min(budget.count, most))
    scan = read_set_within(data, batch, own)
    budget.size = own.size
    records = shown_records(batch, scan, budget)
    decoded: dict[str, object] = {
        "magic": batch.magic,
        "codec": CODECS[batch.codec],
        "size": batch.size,
        "compressed_size": batch.compressed_size,
        "uncompressed_size": batch.uncompressed_size,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "record_count": batch.record_count,
        "crc": batch.crc,
        "crc_ok": check_read_set_crc(data, batch, scan),
        "records": records,
    }
    if scan.error is not None:
        decoded["lost_count"] = scan.lost_count
        decoded["error"] = str(scan.error)
    return decoded
