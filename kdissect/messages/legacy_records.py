"""Message sets of magic 0 and 1 (Kafka 0.8 - 0.10, and old segments to this day).

    message  int64 offset, int32 size, uint32 crc, int8 magic, int8 attributes,
             [int64 timestamp: magic 1], int32 key size, key, int32 value size, value
    wrapper  a message with a codec in its attributes; its value is a compressed message set

Offsets inside a wrapper are absolute in magic 0, counted from 0 in magic 1, where the wrapper has
the last one's absolute offset (KIP-31).
"""

import zlib
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from kdissect.errors import CorruptRecords
from kdissect.messages.batches import (
    CODEC_MASK,
    INT64_MAX,
    LOG_APPEND_TIME,
    MAGIC_AT,
    PREFIX_SIZE,
    TIMESTAMP_TYPE_MASK,
    Batch,
    Record,
    RecordScan,
)
from kdissect.messages.compressed_frames import claimed_size
from kdissect.messages.compression import decompress

OFFSET_SIZE: Final = 8
CRC_AT: Final = 12
ATTRIBUTES_AT: Final = 17
TIMESTAMP_AT: Final = 18
MAGIC_0_BODY_AT: Final = 18
MAGIC_1_BODY_AT: Final = 26
MAGIC_0_MIN: Final = 26  # MAGIC_0_BODY_AT + two size fields
MAGIC_1_MIN: Final = 34


def scan_message(data: bytes, start: i64, end: i64, magic: i64, batches: list[Batch]) -> str:
    """Add the message ``data[start:end]`` to `batches`, or to the run at their end.

    Returns "" or a description of its error.
    """
    if magic == 1 and end - start < MAGIC_1_MIN:
        return f"message of {end - start - PREFIX_SIZE} bytes, magic 1 needs 22"
    attributes: i64 = data[start + ATTRIBUTES_AT]
    if attributes & CODEC_MASK:
        return scan_wrapper(data, start, end, magic, attributes, batches)
    offset = read_i64_be(data, start)
    time_ms = read_i64_be(data, start + TIMESTAMP_AT) if magic == 1 else -1
    timestamp_type = find_timestamp_type(magic, attributes)
    if batches:
        run = batches[-1]
        if (
            run.end == start
            and run.magic == magic
            and run.codec == 0
            and run.timestamp_type == timestamp_type
        ):
            extend_run(run, end, offset, time_ms)
            return ""
    batches.append(
        Batch(
            start, end, start, end - start, end - start, magic, attributes, 0, timestamp_type,
            offset, offset, 1, time_ms, time_ms, -1, -1, -1, -1, read_crc(data, start),
        )
    )  # fmt: skip
    return ""


def extend_run(run: Batch, end: i64, offset: i64, time_ms: i64) -> None:
    """Extend the run by a plain message that ends at `end`."""
    run.end = end
    run.compressed_size = end - run.start
    run.uncompressed_size = run.compressed_size
    run.last_offset = offset
    run.record_count += 1
    if time_ms > run.max_time_ms:
        run.max_time_ms = time_ms


def scan_wrapper(
    data: bytes, start: i64, end: i64, magic: i64, attributes: i64, batches: list[Batch]
) -> str:
    """Add the compressed message ``data[start:end]``; return "" or its error."""
    body = start + (MAGIC_0_BODY_AT if magic == 0 else MAGIC_1_BODY_AT)
    key_size: i64 = i64(read_i32_be(data, body))
    # Both size fields are present (the callers' minimum); the error is a key that covers the
    # second.
    if key_size < -1 or key_size > end - body - 8:
        return f"key of {key_size} bytes, {end - body - 8} left"
    value = body + 4 + max(key_size, 0)
    value_size: i64 = i64(read_i32_be(data, value))
    if value_size < 0:
        return "compressed message without a value"
    if value_size > end - value - 4:
        return f"value of {value_size} bytes, {end - value - 4} left"
    codec = attributes & CODEC_MASK
    unpacked = claimed_size(codec, data, value + 4, value + 4 + value_size)
    time_ms = read_i64_be(data, start + TIMESTAMP_AT) if magic == 1 else -1
    batches.append(
        Batch(
            start, end, value + 4, value_size, unpacked, magic, attributes, codec,
            find_timestamp_type(magic, attributes), -1, read_i64_be(data, start), -1, -1, time_ms,
            -1, -1, -1, -1, read_crc(data, start),
        )
    )  # fmt: skip
    return ""


def find_timestamp_type(magic: i64, attributes: i64) -> i64:
    """0 create, 1 log append, -1 for magic 0, which has no times."""
    if magic == 0:
        return -1
    return 1 if attributes & TIMESTAMP_TYPE_MASK else 0


def read_messages(
    data: bytes, batch: Batch, limit: i64, record_limit: i64, scan: RecordScan
) -> None:
    """Read the messages of a run or of a wrapper into `scan`; `batch` gets the inner values."""
    if batch.codec == 0:
        walk_messages(data, batch.start, batch.end, batch.magic, record_limit, scan)
        return
    packed = data[batch.records_start : batch.records_start + batch.compressed_size]
    payload = decompress(batch.codec, packed, limit, batch.magic)
    batch.uncompressed_size = len(payload)
    last = walk_messages(payload, 0, len(payload), batch.magic, record_limit, scan)
    batch.record_count = len(scan.records) + scan.lost_count
    place_messages(batch, scan.records, last)


def place_messages(batch: Batch, records: list[Record], last: i64) -> None:
    """Set offsets and times of the messages inside a wrapper, and of the wrapper itself.

    `last` is the last offset inside, which may be that of a lost message.
    """
    if not records:
        return
    if batch.magic == 1:
        # Producers, and some librdkafka versions always, leave the wrapper's offset at 0.
        base: i64 = 0
        if batch.last_offset != 0:
            if last < 0 or batch.last_offset < last:
                offsets = f"offset {batch.last_offset}, the last message inside {last}"
                records.clear()
                raise CorruptRecords(f"compressed message has {offsets}")
            base = batch.last_offset - last
        for record in records:
            move_message(record, base, batch)
    batch.base_offset = records[0].offset
    batch.base_time_ms = records[0].time_ms


def move_message(record: Record, base: i64, batch: Batch) -> None:
    """Make the offset absolute, and the time the broker's if the broker set it."""
    # base >= 0; a relative offset that would wrap is impossible in any log.
    if record.offset <= INT64_MAX - base:
        record.offset += base
    if batch.timestamp_type == LOG_APPEND_TIME:
        record.time_ms = batch.max_time_ms


def walk_messages(
    payload: bytes, start: i64, end: i64, magic: i64, record_limit: i64, scan: RecordScan
) -> i64:
    """Read the messages of ``payload[start:end]``, all of `magic` and none compressed.

    Returns the last one's offset, including lost ones as far as present; -1 for none.
    """
    position = start
    last: i64 = -1
    while position < end:
        after = end + 1
        if end - position >= OFFSET_SIZE:
            last = read_i64_be(payload, position)
        if end - position >= PREFIX_SIZE:
            after = position + PREFIX_SIZE + i64(read_i32_be(payload, position + 8))
        if len(scan.records) >= record_limit:
            text = f"more than {record_limit} messages"
            scan.fail(CorruptRecords(text, offset=position, data=payload, length=12), 1)
            return last
        if after > end or after < position + MAGIC_0_MIN:
            scan.fail(
                CorruptRecords("message ends early", offset=position, data=payload, length=12), 1
            )
            return last
        problem = read_message(payload, position, after, magic, scan.records)
        if problem:
            scan.lost_count += 1
            if scan.error is None:
                scan.error = CorruptRecords(problem, offset=position, data=payload, length=12)
        position = after
    return last


def read_message(payload: bytes, start: i64, end: i64, magic: i64, records: list[Record]) -> str:
    """Add the message ``payload[start:end]`` to `records`; return "" or its error."""
    found: i64 = payload[start + MAGIC_AT]
    if found != magic:
        return f"message of magic {found} among those of magic {magic}"
    if payload[start + ATTRIBUTES_AT] & CODEC_MASK:
        return "compressed message inside a compressed message"
    body = start + (MAGIC_0_BODY_AT if magic == 0 else MAGIC_1_BODY_AT)
    if end - body < 8:
        return "message ends early"
    key_size: i64 = i64(read_i32_be(payload, body))
    if key_size < -1 or key_size > end - body - 8:
        return f"key of {key_size} bytes, {end - body - 8} left"
    value = body + 4 + max(key_size, 0)
    value_size: i64 = i64(read_i32_be(payload, value))
    if value_size < -1 or max(value_size, 0) != end - value - 4:
        return f"value of {value_size} bytes, {end - value - 4} left"
    time_ms = read_i64_be(payload, start + TIMESTAMP_AT) if magic == 1 else -1
    records.append(
        Record(
            payload, start + PREFIX_SIZE, end, read_i64_be(payload, start), time_ms, body + 4,
            key_size, value + 4, value_size, 0, end,
        )
    )  # fmt: skip
    return ""


def read_crc(data: bytes, start: i64) -> i64:
    """Stored CRC-32 of the message at `start`."""
    return i64(read_i32_be(data, start + CRC_AT)) & 0xFFFF_FFFF


def check_inner_crc(records: list[Record]) -> bool:
    """Return whether the CRC-32 of every message inside a wrapper matches the stored one."""
    for record in records:
        # A message's own fields start behind its offset and size, with the checksum.
        stored = i64(read_i32_be(record.payload, record.start)) & 0xFFFF_FFFF
        if zlib.crc32(record.payload[record.start + 4 : record.end]) != stored:
            return False
    return True


def check_messages_crc(data: bytes, batch: Batch) -> bool:
    """Return whether the CRC-32 of each message of a run, or of the wrapper, matches."""
    position = batch.start
    while position < batch.end:
        after = position + PREFIX_SIZE + i64(read_i32_be(data, position + 8))
        if zlib.crc32(data[position + MAGIC_AT : after]) != read_crc(data, position):
            return False
        position = after
    return True
