"""Records fields (Produce, Fetch, log segments): bytes → `Batch`es → `Record`s.

A field is a concatenation of entries, each `int64 offset, int32 size, size bytes`, of any mixture
of formats; byte 16 of an entry, its magic, determines which. Magic 0 and 1 are in `legacy_records`.

    batch   int64 base offset, int32 size, int32 leader epoch, int8 magic = 2, uint32 crc,
            int16 attributes, int32 last offset delta, int64 base time, int64 max time,
            int64 producer id, int16 producer epoch, int32 base sequence, int32 record count,
            records, compressed together                                              (KIP-98)
    record  varint size, int8 attributes, varlong time delta, varint offset delta,
            varint key size, key, varint value size, value,
            varint header count, { varint size, name, varint size, value }

The declared size of an entry or record is authoritative: an invalid one is lost alone. Over 300
lines, because the fields that are read and the dicts for `show` are kept together.

Longer than other modules: the readers of a batch share positions and budget in one compiled module.
"""

from typing import Final

import google_crc32c
from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from kdissect.errors import CorruptRecords, DecompressionLimit
from kdissect.limits import UNPACKED_RATIO
from kdissect.messages.batches import (
    ANY_NUMBER,
    CODEC_MASK,
    CONTROL_TYPES,
    INT64_MAX,
    LOG_APPEND_TIME,
    MAGIC_AT,
    PREFIX_SIZE,
    RECORD_LIMIT,
    TIMESTAMP_TYPE_MASK,
    Batch,
    BatchScan,
    Budget,
    Record,
    RecordScan,
)
from kdissect.messages.compressed_frames import claimed_size
from kdissect.messages.compression import CODECS, DECOMPRESSED_LIMIT, decompress
from kdissect.messages.headers import SIGN32, U32
from kdissect.messages.legacy_records import (
    check_inner_crc,
    check_messages_crc,
    read_messages,
    scan_message,
)
from kdissect.messages.record_columns import RecordColumns, pack_records
from kdissect.messages.record_headers import check_size, skip_headers
from kdissect.messages.value_budget import current
from kdissect.messages.varints import read_varint, read_varlong
from kdissect.protocol.readers import NULL

__all__ = [
    "Batch",
    "BatchScan",
    "Budget",
    "Record",
    "RecordScan",
    "check_crc",
    "check_read_crc",
    "decode_records",
    "has_inner_crc",
    "make_budget",
    "pack_within",
    "read_records",
    "read_within",
    "scan_batches",
]

ENTRY_MIN: Final = 26  # the smallest message, magic 0 with neither key nor value
HEADER_SIZE: Final = 61

CRC_AT: Final = 17
CRC_FROM: Final = 21  # the broker may rewrite the bytes before it

# Offsets to which any 32-bit delta can be added: none of them is NULL, and none wraps.
OFFSET_MAX: Final[i64] = 0x3FFF_FFFF_0000_0000
INT64_MIN: Final = -INT64_MAX - 1

# Each costs an exception (2 µs): 100 MiB of zeros would be 100 million of them.
DAMAGED_RECORD_LIMIT: Final = 1_000

# The best compression ratio: a zstd block of 4 bytes represents 128 KiB.
PACKED_RATIO: Final = 32_768

# Of one message beyond the limit of one batch. Text compresses to a tenth, a broker's answer
# contains 50 MiB (fetch.max.bytes) of it.
LARGE_RATIO: Final = 16
# Of any message: producers send batches of 1 MiB at most by default, of any compression ratio.
UNPACKED_FLOOR: Final = 16 << 20

# Approximate bytes of memory, as values for `show`.
SHOWN_BATCH_BYTES: Final = 2_048
SHOWN_RECORD_BYTES: Final = 300
SHOWN_HEADER_BYTES: Final = 150
SHOWN_LIMIT: Final = 500_000  # records and headers


def scan_batches(data: bytes, start: i64, end: i64, most: i64 = ANY_NUMBER) -> BatchScan:
    """Scan the entries of the records field ``data[start:end]``, without decompression.

    The scan stops at an entry with an impossible size, at a truncated entry, or behind `most`
    batches, see `BatchScan.next_start`.
    """
    scan = BatchScan()
    position = start
    while end - position >= PREFIX_SIZE:
        size = i64(read_i32_be(data, position + 8)) + PREFIX_SIZE
        if size < ENTRY_MIN:
            reason = f"entry of {size - PREFIX_SIZE} bytes, the smallest has 14"
            note_corrupt(scan, data, position, end - position, reason)
            return scan
        if size > end - position:
            break
        magic: i64 = data[position + MAGIC_AT]
        if magic == 2:
            problem = scan_batch(data, position, position + size, scan.batches)
        elif magic < 2:
            problem = scan_message(data, position, position + size, magic, scan.batches)
        else:
            problem = f"unknown magic {magic}"
        if problem:
            note_corrupt(scan, data, position, size, problem)
        elif len(scan.batches) > most:
            # Only now the end of the previous run is known.
            del scan.batches[-1]
            scan.next_start = position
            return scan
        position += size
    scan.partial_size = end - position
    return scan


def note_corrupt(scan: BatchScan, data: bytes, position: i64, size: i64, reason: str) -> None:
    """Count `size` bytes as corrupt; the first reason becomes the error."""
    scan.corrupt_size += size
    if scan.error is None:
        scan.error = CorruptRecords(reason, offset=position, data=data, length=PREFIX_SIZE)


def scan_batch(data: bytes, start: i64, end: i64, batches: list[Batch]) -> str:
    """Add the magic-2 batch ``data[start:end]``; return "" or a description of its error."""
    packed_size = end - start - HEADER_SIZE
    if packed_size < 0:
        return f"record batch of {end - start} bytes, its header alone has 61"
    base_offset = read_i64_be(data, start)
    if base_offset > OFFSET_MAX or base_offset < -OFFSET_MAX:
        return f"base offset {base_offset}"
    # 8 bytes from a smaller field on, shifted right, are that field with its sign. Bytes 17-24 are
    # checksum, attributes, half the last offset delta; 53-60 base sequence and record count.
    marks = read_i64_be(data, start + CRC_AT)
    attributes = marks >> 16 & 0xFFFF
    codec = attributes & CODEC_MASK
    counts = read_i64_be(data, start + 53)
    record_count = (counts & U32 ^ SIGN32) - SIGN32
    # Counts are added up before records are read: uncompressed records have a byte each at least.
    if record_count < 0 or (codec == 0 and record_count > packed_size):
        return f"{record_count} records in {packed_size} bytes"
    unpacked_size = packed_size
    if codec != 0:
        unpacked_size = claimed_size(codec, data, start + HEADER_SIZE, end)
        most = unpacked_size if unpacked_size >= 0 else packed_size * PACKED_RATIO
        if record_count > most:
            return f"{record_count} records in {packed_size} packed bytes"
    batches.append(
        Batch(
            start,
            end,
            start + HEADER_SIZE,
            packed_size,
            unpacked_size,
            2,
            attributes,
            codec,
            1 if attributes & TIMESTAMP_TYPE_MASK else 0,
            base_offset,
            base_offset + (read_i64_be(data, start + 23) >> 32),
            record_count,
            read_i64_be(data, start + 27),
            read_i64_be(data, start + 35),
            read_i64_be(data, start + 43),
            read_i64_be(data, start + 51) >> 48,
            counts >> 32,
            read_i64_be(data, start + 12) >> 32,
            marks >> 32 & U32,
        )
    )
    return ""


def check_crc(data: bytes, batch: Batch) -> bool:
    """Return whether the checksums of the batch (each message of a run) match the stored ones.

    CRC-32C from the attributes on (magic 2), CRC-32 from the magic on (magic 0 and 1).
    """
    if batch.magic != 2:
        return check_messages_crc(data, batch)
    found: int = google_crc32c.value(data[batch.start + CRC_FROM : batch.end])
    return found == batch.crc


def has_inner_crc(batch: Batch) -> bool:
    """Return whether messages in a batch have their own checksums, as in a wrapper."""
    return batch.magic != 2 and batch.codec != 0


def check_read_crc(data: bytes, batch: Batch, scan: RecordScan) -> bool:
    """Like `check_crc`, including the checksums of messages read from a wrapper."""
    if has_inner_crc(batch) and not check_inner_crc(scan.records):
        return False
    return check_crc(data, batch)


def make_budget(
    record_bytes: i64, limit: i64 = DECOMPRESSED_LIMIT, ratio: i64 = UNPACKED_RATIO
) -> Budget:
    """Budget for the records of a message with `record_bytes` of them on the wire."""
    return Budget(unpacked_size(record_bytes, limit, ratio), RECORD_LIMIT + record_bytes)


def unpacked_size(size: i64, limit: i64, ratio: i64) -> i64:
    """Bytes to which the records of a message of `size` bytes may decompress, see `unpacking`."""
    return min(limit + size * LARGE_RATIO, UNPACKED_FLOOR + size * ratio)


def read_within(
    data: bytes, batch: Batch, budget: Budget, limit: i64 = DECOMPRESSED_LIMIT
) -> RecordScan:
    """Like `read_records`, within the rest of the budget, which is charged for decompressed bytes.

    The caller charges the records that it converts to values.
    """
    limit = min(limit, budget.size)
    scan = read_records(data, batch, limit, min(RECORD_LIMIT, max(budget.count, 0)))
    charge(budget, batch, scan, limit)
    return scan


def pack_within(
    data: bytes,
    batch: Batch,
    budget: Budget,
    columns: RecordColumns,
    limit: i64 = DECOMPRESSED_LIMIT,
) -> RecordScan:
    """Like `read_within`, but the records of a valid magic-2 batch go into `columns`.

    They are charged to the budget, and `packed_count` of the scan is their number.
    """
    if batch.magic != 2:
        return read_within(data, batch, budget, limit)
    limit = min(limit, budget.size)
    record_limit = min(RECORD_LIMIT, max(budget.count, 0))
    scan = RecordScan()
    try:
        payload, start, end = unpacked(data, batch, limit)
        if batch.record_count <= record_limit and pack_records(payload, start, end, batch, columns):
            scan.packed_count = batch.record_count
            budget.count -= batch.record_count
        else:
            walk_records(payload, start, end, batch, record_limit, scan)
    except CorruptRecords as error:
        scan.fail(error, max(batch.record_count - len(scan.records) - scan.lost_count, 0))
    charge(budget, batch, scan, limit)
    return scan


def charge(budget: Budget, batch: Batch, scan: RecordScan, limit: i64) -> None:
    """Charge the decompressed bytes to the budget, of which `limit` was left."""
    if isinstance(scan.error, DecompressionLimit):
        budget.size -= limit
    elif batch.codec != 0:
        budget.size -= min(limit, max(batch.uncompressed_size, 0))


def read_records(
    data: bytes,
    batch: Batch,
    limit: i64 = DECOMPRESSED_LIMIT,
    record_limit: i64 = RECORD_LIMIT,
) -> RecordScan:
    """Read the records of a batch that `scan_batches` found; decompresses `limit` bytes at most.

    Never raises: unreadable records are counted in the scan, with the reason. See `Batch` for the
    fields that are set here.
    """
    scan = RecordScan()
    try:
        if batch.magic == 2:
            read_batch(data, batch, limit, record_limit, scan)
        else:
            read_messages(data, batch, limit, record_limit, scan)
    except CorruptRecords as error:
        scan.fail(error, max(batch.record_count - len(scan.records) - scan.lost_count, 0))
    return scan


def read_batch(data: bytes, batch: Batch, limit: i64, record_limit: i64, scan: RecordScan) -> None:
    """Read the records of a magic-2 batch into `scan`; CorruptRecords when the rest is lost."""
    payload, start, end = unpacked(data, batch, limit)
    walk_records(payload, start, end, batch, record_limit, scan)


def unpacked(data: bytes, batch: Batch, limit: i64) -> tuple[bytes, i64, i64]:
    """Decompressed records of a magic-2 batch: the bytes, start and end."""
    if batch.codec == 0:
        return data, batch.records_start, batch.end
    payload = decompress(batch.codec, data[batch.records_start : batch.end], limit, 2)
    batch.uncompressed_size = len(payload)
    return payload, 0, len(payload)


def walk_records(
    payload: bytes, start: i64, end: i64, batch: Batch, record_limit: i64, scan: RecordScan
) -> None:
    """Read the records of ``payload[start:end]``, as many as the batch declares."""
    position = step_records(payload, start, end, batch, min(batch.record_count, record_limit), scan)
    if batch.record_count > record_limit:
        raise CorruptRecords(f"batch of more than {record_limit} records")
    check_records_end(payload, position, end, batch)


def check_records_end(payload: bytes, position: i64, end: i64, batch: Batch) -> None:
    """Raise CorruptRecords if bytes are left behind the records of a batch."""
    if position != end:
        left = f"{end - position} bytes after {batch.record_count} records"
        raise CorruptRecords(left, offset=position, data=payload)


def step_records(
    payload: bytes, start: i64, end: i64, batch: Batch, count: i64, scan: RecordScan
) -> i64:
    """Add `count` records from `start` on; return the position behind them."""
    position = start
    records = scan.records
    for _ in range(count):
        size, first = read_varint(payload, position, end)
        if size < 0 or size > end - first:
            raise CorruptRecords(
                f"record of {size} bytes, {end - first} left", offset=position, data=payload
            )
        position = first + size
        try:
            records.append(read_record(payload, first, position, batch))
        except CorruptRecords as error:
            scan.fail(error, 1)
            if scan.lost_count >= DAMAGED_RECORD_LIMIT:
                raise CorruptRecords(f"{DAMAGED_RECORD_LIMIT} damaged records") from error
    return position


def read_record(payload: bytes, start: i64, end: i64, batch: Batch) -> Record:
    """Read the record ``payload[start:end]`` (without its size); CorruptRecords if invalid."""
    # The attributes at `start` are unused.
    time_delta, position = read_varlong(payload, start + 1, end)
    offset_delta, position = read_varint(payload, position, end)
    key_size, key_start = read_varint(payload, position, end)
    position = key_start + check_size(payload, key_start, end, key_size)
    value_size, value_start = read_varint(payload, position, end)
    position = value_start + check_size(payload, value_start, end, value_size)
    header_count, headers_start = read_varint(payload, position, end)
    position = headers_start
    if header_count != 0:
        position = skip_headers(payload, headers_start, end, header_count)
    if position != end:
        left = f"{end - position} bytes after the last header"
        raise CorruptRecords(left, offset=position, data=payload)
    return Record(
        payload, start, end, batch.base_offset + offset_delta, find_time(batch, time_delta),
        key_start, key_size, value_start, value_size, header_count, headers_start,
    )  # fmt: skip


def find_time(batch: Batch, time_delta: i64) -> i64:
    """A record's time: the broker's for the whole batch, or the producer's."""
    if batch.timestamp_type == LOG_APPEND_TIME:
        return batch.max_time_ms
    base = batch.base_time_ms
    if base > INT64_MAX - time_delta if time_delta >= 0 else base < INT64_MIN - time_delta:
        raise CorruptRecords(f"time {base} + {time_delta} is past the end of time")
    return base + time_delta


def shown_budget(size: i64, limit: i64 = DECOMPRESSED_LIMIT, ratio: i64 = UNPACKED_RATIO) -> Budget:
    """Budget for the records of a message of `size` bytes in `show`."""
    return Budget(unpacked_size(size, limit, ratio), SHOWN_LIMIT)


def decode_records(
    data: bytes, limit: i64 = DECOMPRESSED_LIMIT, budget: Budget | None = None
) -> list[dict[str, object]]:
    """Decode a whole records field to plain values, for `show`.

    A batch is a dict of its header's fields and "records"; truncated, corrupt or omitted bytes are
    one dict of their size and error at the end. `budget` is the rest for the whole message.
    """
    if budget is None:
        budget = shown_budget(len(data), limit)
    value_budget = current()
    scan = scan_batches(data, 0, len(data), max(value_budget.left // SHOWN_BATCH_BYTES, 0))
    value_budget.left -= SHOWN_BATCH_BYTES * len(scan.batches)
    decoded = [decode_batch(data, batch, limit, budget) for batch in scan.batches]
    return decoded + passed_over(scan, len(data))


def passed_over(scan: BatchScan, size: i64) -> list[dict[str, object]]:
    """One more value behind the batches for the bytes that a scan of `size` bytes skipped."""
    rest: dict[str, object] = {}
    if scan.next_start != NULL:
        rest["left_out_size"] = int(size - scan.next_start)
        current().leave_out(1, "")
    if scan.partial_size:
        rest["partial_size"] = int(scan.partial_size)
    if scan.error is not None:
        rest["corrupt_size"] = int(scan.corrupt_size)
        rest["error"] = str(scan.error)
    return [rest] if rest else []


def decode_batch(data: bytes, batch: Batch, limit: i64, budget: Budget) -> dict[str, object]:
    """Header fields and records of one batch."""
    scan = read_shown(data, batch, budget, limit)
    decoded: dict[str, object] = {
        "magic": batch.magic,
        "codec": CODECS[batch.codec] if batch.codec < len(CODECS) else batch.codec,
        "size": batch.size,
        "compressed_size": batch.compressed_size,
        "uncompressed_size": batch.uncompressed_size,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "record_count": batch.record_count,
        "base_time_ms": batch.base_time_ms,
        "max_time_ms": batch.max_time_ms,
        "timestamp_type": batch.timestamp_type,
        "crc": batch.crc,
        "crc_ok": check_read_crc(data, batch, scan),
    }
    if batch.magic == 2:
        decoded["attributes"] = batch.attributes
        decoded["leader_epoch"] = batch.leader_epoch
        decoded["producer_id"] = batch.producer_id
        decoded["producer_epoch"] = batch.producer_epoch
        decoded["base_sequence"] = batch.base_sequence
        decoded["is_transactional"] = batch.is_transactional
        decoded["is_control"] = batch.is_control
        decoded["has_delete_horizon"] = batch.has_delete_horizon
    decoded["records"] = shown_records(batch, scan, budget)
    if scan.error is not None:
        decoded["lost_count"] = scan.lost_count
        decoded["error"] = str(scan.error)
    return decoded


def read_shown(data: bytes, batch: Batch, budget: Budget, limit: i64) -> RecordScan:
    """Like `read_within`, but no more records than the value budget has room for."""
    most = min(budget.count, max(current().left // SHOWN_RECORD_BYTES, 0))
    own = Budget(budget.size, most)
    scan = read_within(data, batch, own, limit)
    budget.size = own.size
    return scan


def shown_cost(batch: Batch, record: Record) -> i64:
    """Approximate bytes of memory of a record as values."""
    cost = SHOWN_RECORD_BYTES + SHOWN_HEADER_BYTES * record.header_count
    # Records that are not compressed have their bytes in the message.
    return cost + (record.end - record.start if batch.codec != 0 else 0)


def shown_records(batch: Batch, scan: RecordScan, budget: Budget) -> list[dict[str, object]]:
    """Convert the records of a scan to values, as far as both budgets go."""
    value_budget = current()
    records: list[dict[str, object]] = []
    for record in scan.records:
        cost = shown_cost(batch, record)
        text = ""
        if not budget.take(1 + record.header_count):
            text = f"more than {SHOWN_LIMIT} records and headers in one message"
        elif cost > value_budget.left:
            text = "more than the limit on what a message may become"
        if text:
            value_budget.leave_out(len(scan.records) - len(records), "")
            scan.fail(CorruptRecords(text), len(scan.records) - len(records))
            break
        value_budget.left -= cost
        records.append(decode_record(record, batch.is_control))
    return records


def decode_record(record: Record, is_control: bool) -> dict[str, object]:
    """One record; of a control batch, with the name of its type (the number if unknown)."""
    decoded: dict[str, object] = {
        "offset": record.offset,
        "time_ms": record.time_ms,
        "key": record.key(),
        "value": record.value(),
        "headers": record.headers(),
    }
    if is_control:
        number = record.control_type()
        named = 0 <= number < len(CONTROL_TYPES)
        decoded["control_type"] = CONTROL_TYPES[number] if named else number
    return decoded
