"""The records of a valid magic-2 batch → packed columns, without an object for each record.

Properties of the whole batch are not here. A batch with any irregularity adds nothing: the caller
walks it again with `records.walk_records`, which reports the errors by record.
"""

from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64, mypyc_attr

from kdissect.errors import CorruptRecords
from kdissect.messages.batches import LOG_APPEND_TIME, Batch
from kdissect.messages.record_headers import skip_headers
from kdissect.messages.varints import INT32_MAX, INT32_MIN, VARINT_SIZE
from kdissect.protocol.readers import NULL

MAX_MS: Final = 9_223_372_036_854  # the last ms that fits into a 64-bit count of ns
MS: Final = 1_000_000
# With it 8 bytes of a varint, 56 bits, can be added to a time without wrapping.
TIME_MAX: Final = 1 << 61

SHORT_SIZE: Final = 8  # 7 groups of 7 bits and the sign stay clear of bit 63
SIZE_BITS: Final = 4
SIZE_MASK: Final = 15


@mypyc_attr(acyclic=True)
class RecordColumns:
    """Values that differ from record to record.

    64 bits for offsets and times (ns, NULL for none), 32 for the others (-1 for no key or value).
    """

    __slots__ = ("offsets", "times", "key_sizes", "value_sizes", "header_counts")

    def __init__(self) -> None:
        self.offsets = BytesWriter()
        self.times = BytesWriter()
        self.key_sizes = BytesWriter()
        self.value_sizes = BytesWriter()
        self.header_counts = BytesWriter()

    def add(
        self, offset: i64, time_ms: i64, key_size: i64, value_size: i64, header_count: i64
    ) -> None:
        """Append one record; sizes of 32 bits, -1 for null."""
        write_i64_le(self.offsets, offset)
        write_i64_le(self.times, ns_of_ms(time_ms))
        write_i32_le(self.key_sizes, i32(key_size))
        write_i32_le(self.value_sizes, i32(value_size))
        write_i32_le(self.header_counts, i32(header_count))

    def truncate(self, count: i64) -> None:
        """Keep only the first `count` records."""
        self.offsets.truncate(count * 8)
        self.times.truncate(count * 8)
        self.key_sizes.truncate(count * 4)
        self.value_sizes.truncate(count * 4)
        self.header_counts.truncate(count * 4)


def ns_of_ms(ms: i64) -> i64:
    """A record timestamp in ns; NULL for none (negative) and for values that do not fit."""
    return NULL if ms < 0 or ms > MAX_MS else ms * MS


def pack_records(
    payload: bytes, start: i64, end: i64, batch: Batch, columns: RecordColumns
) -> bool:
    """Append all records of ``payload[start:end]``; return False, without any, if one is odd."""
    base_time = batch.base_time_ms
    if base_time > TIME_MAX or base_time < -TIME_MAX:
        return False
    count: i64 = len(columns.header_counts) >> 2
    try:
        if pack_all(payload, start, end, batch, columns):
            return True
    except (CorruptRecords, IndexError):
        # A varint or a header that extends beyond the last byte.
        pass
    columns.truncate(count)
    return False


def pack_all(payload: bytes, start: i64, end: i64, batch: Batch, columns: RecordColumns) -> bool:
    """Like `pack_records`, without cleaning up.

    Positions only grow, and each byte read is checked to be inside the payload; so when the last
    field ends where its record ends, all were read inside the record.
    """
    offsets = columns.offsets
    times = columns.times
    key_sizes = columns.key_sizes
    value_sizes = columns.value_sizes
    header_counts = columns.header_counts
    base_offset = batch.base_offset
    base_time = batch.base_time_ms
    has_own_times = batch.timestamp_type != LOG_APPEND_TIME
    time_ns = ns_of_ms(batch.max_time_ms)
    position = start
    left = batch.record_count
    # Counted down: the variable of a `for` would be an object each time.
    while left > 0:
        left -= 1
        size: i64 = payload[position]
        position += 1
        if size >= 0x80:
            size = read_longer(payload, position, size)
            position += size & SIZE_MASK
            # A size of 32 bits is checked against the rest; an invalid one is encoded too long.
            if size & SIZE_MASK >= VARINT_SIZE:
                return False
            size >>= SIZE_BITS
        else:
            size = (size >> 1) ^ -(size & 1)
        if size < 0 or size > end - position:
            return False
        record_end = position + size
        time_delta: i64 = payload[position + 1]  # the attributes before are unused
        position += 2
        if time_delta >= 0x80:
            time_delta = read_longer(payload, position, time_delta)
            if time_delta & SIZE_MASK >= SHORT_SIZE:
                return False
            position += time_delta & SIZE_MASK
            time_delta >>= SIZE_BITS
        else:
            time_delta = (time_delta >> 1) ^ -(time_delta & 1)
        offset_delta: i64 = payload[position]
        position += 1
        if offset_delta >= 0x80:
            offset_delta = read_longer(payload, position, offset_delta)
            if offset_delta & SIZE_MASK >= VARINT_SIZE:
                return False
            position += offset_delta & SIZE_MASK
            offset_delta >>= SIZE_BITS
            if offset_delta > INT32_MAX or offset_delta < INT32_MIN:
                return False
        else:
            offset_delta = (offset_delta >> 1) ^ -(offset_delta & 1)
        key_size: i64 = payload[position]
        position += 1
        if key_size >= 0x80:
            key_size = read_longer(payload, position, key_size)
            if key_size & SIZE_MASK >= VARINT_SIZE:
                return False
            position += key_size & SIZE_MASK
            key_size >>= SIZE_BITS
        else:
            key_size = (key_size >> 1) ^ -(key_size & 1)
        if key_size > 0:
            position += key_size
        elif key_size < -1:
            return False
        value_size: i64 = payload[position]
        position += 1
        if value_size >= 0x80:
            value_size = read_longer(payload, position, value_size)
            if value_size & SIZE_MASK >= VARINT_SIZE:
                return False
            position += value_size & SIZE_MASK
            value_size >>= SIZE_BITS
        else:
            value_size = (value_size >> 1) ^ -(value_size & 1)
        if value_size > 0:
            position += value_size
        elif value_size < -1:
            return False
        header_count: i64 = payload[position]
        position += 1
        if header_count != 0:
            if header_count >= 0x80:
                header_count = read_longer(payload, position, header_count)
                if header_count & SIZE_MASK >= VARINT_SIZE:
                    return False
                position += header_count & SIZE_MASK
                header_count >>= SIZE_BITS
            else:
                header_count = (header_count >> 1) ^ -(header_count & 1)
            position = skip_headers(payload, position, record_end, header_count)
        if position != record_end:
            return False
        if has_own_times:
            time_ns = ns_of_ms(base_time + time_delta)
        write_i64_le(offsets, base_offset + offset_delta)
        write_i64_le(times, time_ns)
        write_i32_le(key_sizes, i32(key_size))
        write_i32_le(value_sizes, i32(value_size))
        write_i32_le(header_counts, i32(header_count))
    return position == end


def read_longer(payload: bytes, start: i64, first: i64) -> i64:
    r"""Read a varint whose `first` byte has the continuation bit, at `start`.

    Returns its value times 16 plus the number of bytes that follow, 8 for 8 or more.
    IndexError behind the end of the payload.

    >>> read_longer(b"\xac\x02", 1, 0xAC) == 150 * 16 + 1
    True
    """
    value = first & 0x7F
    shift: i64 = 7
    position = start
    while shift <= 49:
        byte: i64 = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value = (value >> 1) ^ -(value & 1)
            return (value << SIZE_BITS) | (position - start)
        shift += 7
    return SHORT_SIZE
