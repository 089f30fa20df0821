"""Message sets of Kafka 0.7: bytes → `Batch`es → `Record`s.

    set      messages, one after the other, without a count
    message  int32 size, int8 magic, [int8 attributes: magic 1], uint32 crc, payload
    wrapper  a message with a codec in the lowest two bits of its attributes: gzip 1, snappy 2;
             its payload is a compressed message set, which may hold wrappers in turn

The size excludes itself. The CRC-32 covers the payload alone. 0.6 wrote magic 0, 0.7 magic 1. An
offset is a position in bytes: that of the next message is 4 + size further on. Messages inside a
wrapper have no positions; a consumer continues after the whole wrapper. Longer than other modules:
scanning and reading share the nesting of wrappers.
"""

import zlib
from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from kdissect.errors import CorruptRecords, DecompressionLimit
from kdissect.messages.batches import (
    ANY_NUMBER,
    RECORD_LIMIT,
    Batch,
    BatchScan,
    Budget,
    Record,
    RecordScan,
)
from kdissect.messages.compressed_frames import claimed_size
from kdissect.messages.compression import DECOMPRESSED_LIMIT, decompress

SIZE_SIZE: Final = 4
MAGIC_0_HEADER: Final = 5  # magic and crc
MAGIC_1_HEADER: Final = 6  # and attributes
CODEC_MASK: Final = 3
LAST_CODEC: Final = 2
POSITION_MAX: Final = 0x7FFF_FFFF_0000_0000  # any int32 can be added without wrapping
# Nested wrappers: no writer produces them, the readers of 0.7 accept them. Each is a level of
# recursion, and all of them together may decompress to the limit once.
NESTING_LIMIT: Final = 8
# Wrappers inside one wrapper, and invalid messages of a batch: each costs 2 µs and more, and 100
# MiB could hold millions of them.
INNER_WRAPPER_LIMIT: Final = 1_000
DAMAGED_LIMIT: Final = 1_000


def scan_set(data: bytes, start: i64, end: i64, position: i64, most: i64 = ANY_NUMBER) -> BatchScan:
    """Scan the runs and wrappers of the set ``data[start:end]``, at `position` of the log.

    Only the first `most` of them, see `BatchScan.next_start`. A batch's `base_offset` is the
    position of its first byte, its `last_offset` that behind its last, where a consumer continues.
    Positions count from 0 if `position` cannot be one.
    """
    if position < 0 or position > POSITION_MAX:
        position = 0
    scan = BatchScan()
    at = start
    while end - at > SIZE_SIZE:
        size: i64 = i64(read_i32_be(data, at))
        if size < MAGIC_0_HEADER:
            note_corrupt(scan, data, at, end - at, f"message of {size} bytes, the smallest has 5")
            return scan
        if size > end - at - SIZE_SIZE:
            break
        after = at + SIZE_SIZE + size
        problem = scan_message(data, at, after, position + at - start, scan.batches)
        if problem:
            note_corrupt(scan, data, at, after - at, problem)
        elif len(scan.batches) > most:
            # Only now the end of the previous run is known.
            del scan.batches[-1]
            scan.next_start = at
            return scan
        at = after
    scan.partial_size = end - at
    return scan


def note_corrupt(scan: BatchScan, data: bytes, at: i64, size: i64, reason: str) -> None:
    """Count `size` bytes as corrupt; the first reason becomes the error."""
    scan.corrupt_size += size
    if scan.error is None:
        scan.error = CorruptRecords(reason, offset=at, data=data, length=SIZE_SIZE)


def scan_message(data: bytes, start: i64, end: i64, position: i64, batches: list[Batch]) -> str:
    """Add the message ``data[start:end]`` to `batches`, or to the run at their end.

    Returns "" or a description of its error.
    """
    magic: i64 = data[start + SIZE_SIZE]
    problem = message_problem(data, start, end)
    if problem:
        return problem
    codec = codec_of(data, start)
    payload = start + SIZE_SIZE + header_size(magic)
    after = position + end - start
    if codec == 0 and batches:
        run = batches[-1]
        if run.end == start and run.magic == magic and run.codec == 0:
            run.end = end
            run.compressed_size = end - run.start
            run.uncompressed_size = run.compressed_size
            run.last_offset = after
            run.record_count += 1
            return ""
    size = end - start if codec == 0 else end - payload
    unpacked = size if codec == 0 else claimed_size(codec, data, payload, end)
    batches.append(
        Batch(
            start, end, start if codec == 0 else payload, size, unpacked, magic,
            attributes_of(data, start), codec, -1, position, after, 1 if codec == 0 else -1, -1,
            -1, -1, -1, -1, -1, crc_of(data, start),
        )
    )  # fmt: skip
    return ""


def message_problem(data: bytes, start: i64, end: i64) -> str:
    """Why ``data[start:end]``, of 9 bytes at least, is not a message; "" if it is one."""
    magic: i64 = data[start + SIZE_SIZE]
    if magic > 1:
        return f"unknown magic {magic}"
    if end - start < SIZE_SIZE + header_size(magic):
        return f"message of {end - start - SIZE_SIZE} bytes, magic 1 needs 6"
    codec = codec_of(data, start)
    return f"unknown codec {codec}" if codec > LAST_CODEC else ""


def header_size(magic: i64) -> i64:
    """Bytes between a message's size and its payload."""
    return MAGIC_0_HEADER if magic == 0 else MAGIC_1_HEADER


def attributes_of(data: bytes, start: i64) -> i64:
    """Attributes of the message at `start`; 0 for magic 0, which has none."""
    return 0 if data[start + SIZE_SIZE] == 0 else data[start + SIZE_SIZE + 1]


def codec_of(data: bytes, start: i64) -> i64:
    """Codec of the message at `start`."""
    return attributes_of(data, start) & CODEC_MASK


def crc_of(data: bytes, start: i64) -> i64:
    """Stored CRC-32 of the message at `start`, unsigned."""
    header = header_size(i64(data[start + SIZE_SIZE]))
    return i64(read_i32_be(data, start + header)) & 0xFFFF_FFFF


def read_set(
    data: bytes, batch: Batch, limit: i64 = DECOMPRESSED_LIMIT, record_limit: i64 = RECORD_LIMIT
) -> RecordScan:
    """Read the messages of a batch that `scan_set` found; decompresses `limit` bytes at most.

    A record's offset is the position behind its (outermost) message, as 0.7's consumers get it.
    Never raises: unreadable messages are counted in the scan, with the reason. The batch of a
    wrapper gets the number of messages and bytes inside.
    """
    walk = Walk(limit, record_limit)
    walk.batch(data, batch)
    return walk.scan


def read_set_within(
    data: bytes, batch: Batch, budget: Budget, limit: i64 = DECOMPRESSED_LIMIT
) -> RecordScan:
    """Like `read_set`, within the rest of the budget, which is charged for decompressed bytes.

    The caller charges the records that it converts to values.
    """
    limit = min(limit, budget.size)
    walk = Walk(limit, min(RECORD_LIMIT, max(budget.count, 0)))
    walk.batch(data, batch)
    if isinstance(walk.scan.error, DecompressionLimit):
        budget.size -= limit
    else:
        budget.size -= limit - walk.room
    return walk.scan


class Walk:
    """One walk over a batch: its results, and the bytes it may still decompress."""

    def __init__(self, room: i64, record_limit: i64) -> None:
        self.scan = RecordScan()
        self.room = room
        self.record_limit = record_limit
        self.wrappers: i64 = 0

    def batch(self, data: bytes, batch: Batch) -> None:
        """Read all messages of the batch into the scan."""
        scan = self.scan
        try:
            if batch.codec == 0:
                self.messages(data, batch.start, batch.end, batch.base_offset, 0)
            else:
                payload = self.unpack(data, batch.records_start, batch.end, batch.codec)
                batch.uncompressed_size = len(payload)
                self.messages(payload, 0, len(payload), batch.last_offset, 1)
        except CorruptRecords as error:
            scan.fail(error, max(batch.record_count - len(scan.records) - scan.lost_count, 0))
        if batch.codec != 0:
            batch.record_count = len(scan.records) + scan.lost_count

    def unpack(self, data: bytes, start: i64, end: i64, codec: i64) -> bytes:
        """Decompress the payload ``data[start:end]``; raise CorruptRecords if invalid."""
        payload = decompress(codec, data[start:end], self.room, 1)
        self.room -= len(payload)
        return payload

    def messages(self, payload: bytes, start: i64, end: i64, offset: i64, depth: i64) -> None:
        """Read the messages of ``payload[start:end]``; raise CorruptRecords when the rest is lost.

        `offset` is the start of the first one, or inside a wrapper the end of the outermost.
        """
        at = start
        while at < end:
            after = at
            if end - at >= SIZE_SIZE + MAGIC_0_HEADER:
                after = at + SIZE_SIZE + i64(read_i32_be(payload, at))
            if after > end or after < at + SIZE_SIZE + MAGIC_0_HEADER:
                raise CorruptRecords("message ends early", offset=at, data=payload, length=4)
            if depth == 0:
                offset += after - at
            self.message(payload, at, after, offset, depth)
            at = after

    def message(self, payload: bytes, start: i64, end: i64, offset: i64, depth: i64) -> None:
        """Read the message ``payload[start:end]``, or the messages inside it."""
        scan = self.scan
        problem = message_problem(payload, start, end)
        if problem:
            error = CorruptRecords(problem, offset=start, data=payload, length=4)
            scan.fail(error, 1)
            if scan.lost_count >= DAMAGED_LIMIT:
                raise CorruptRecords(f"{DAMAGED_LIMIT} damaged messages") from error
            return
        content = start + SIZE_SIZE + header_size(i64(payload[start + SIZE_SIZE]))
        codec = codec_of(payload, start)
        if codec != 0:
            if depth >= NESTING_LIMIT:
                raise CorruptRecords(f"compressed more than {NESTING_LIMIT} times over")
            self.wrappers += 1
            if self.wrappers > INNER_WRAPPER_LIMIT:
                raise CorruptRecords(f"more than {INNER_WRAPPER_LIMIT} compressed messages in one")
            inner = self.unpack(payload, content, end, codec)
            self.messages(inner, 0, len(inner), offset, depth + 1)
            return
        if len(scan.records) >= self.record_limit:
            raise CorruptRecords(f"more than {self.record_limit} messages in a batch")
        scan.records.append(
            Record(
                payload, start + SIZE_SIZE, end, offset, -1, content, -1, content, end - content,
                0, end,
            )
        )  # fmt: skip


def check_set_crc(data: bytes, batch: Batch) -> bool:
    """Return whether the payload CRC-32 of each message of a run, or of the wrapper, matches."""
    at = batch.start
    while at < batch.end:
        after = at + SIZE_SIZE + i64(read_i32_be(data, at))
        payload = at + SIZE_SIZE + header_size(i64(data[at + SIZE_SIZE]))
        if zlib.crc32(data[payload:after]) != crc_of(data, at):
            return False
        at = after
    return True


def check_read_set_crc(data: bytes, batch: Batch, scan: RecordScan) -> bool:
    """Like `check_set_crc`, including the checksums of messages read from a wrapper."""
    if batch.codec != 0:
        for record in scan.records:
            stored = i64(read_i32_be(record.payload, record.value_start - 4)) & 0xFFFF_FFFF
            if zlib.crc32(record.payload[record.value_start : record.end]) != stored:
                return False
    return check_set_crc(data, batch)


def set_end(data: bytes, start: i64, end: i64) -> i64:
    """End of the set that begins at `start`, if it is not given.

    It contains the whole messages with a right checksum; following bytes would match only by
    chance.
    """
    at = start
    while end - at >= SIZE_SIZE + MAGIC_0_HEADER:
        size: i64 = i64(read_i32_be(data, at))
        if size < MAGIC_0_HEADER or size > end - at - SIZE_SIZE:
            break
        after = at + SIZE_SIZE + size
        if message_problem(data, at, after):
            break
        payload = at + SIZE_SIZE + header_size(i64(data[at + SIZE_SIZE]))
        if zlib.crc32(data[payload:after]) != crc_of(data, at):
            break
        at = after
    return at


def is_whole_set(data: bytes, start: i64, end: i64) -> bool:
    """Return whether ``data[start:end]`` consists of whole messages, as producers send them."""
    scan = scan_set(data, start, end, 0)
    return scan.error is None and scan.partial_size == 0
