"""Totals of a records field where its batches are not requested: no object for each.

Only valid batches of magic 2 are counted here; `records.scan_batches` handles the rest.
"""

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from kdissect.messages.batches import CODEC_MASK, CONTROL_MASK, MAGIC_AT, PREFIX_SIZE, Batch
from kdissect.messages.compressed_frames import claimed_size
from kdissect.messages.headers import SIGN32, U32
from kdissect.messages.partitions import MIXED_CODEC, codec_of
from kdissect.messages.records import CRC_AT, HEADER_SIZE, OFFSET_MAX, PACKED_RATIO
from kdissect.protocol.readers import NULL


class BatchCounts:
    """Totals of one records field: of its batches, its records, and their common codec.

    Records of control batches (transaction markers) are `controls`, as no consumer gets them. The
    codec is NULL without batches, MIXED_CODEC when they differ.
    """

    def __init__(self) -> None:
        self.batches: i64 = 0
        self.records: i64 = 0
        self.controls: i64 = 0
        self.codec: i64 = NULL

    def count(self, data: bytes, start: i64, end: i64) -> bool:
        """Count ``data[start:end]``, which must be in bounds; return False if anything is odd."""
        batches: i64 = 0
        records: i64 = 0
        controls: i64 = 0
        codec: i64 = NULL
        position = start
        while end - position >= PREFIX_SIZE:
            size = i64(read_i32_be(data, position + 8)) + PREFIX_SIZE
            if size < HEADER_SIZE:
                return False
            if size > end - position:
                # Cut off at the byte limit of a fetch.
                break
            base_offset = read_i64_be(data, position)
            # The last of these 8 bytes is the magic.
            if read_i64_be(data, position + MAGIC_AT - 7) & 0xFF != 2:
                return False
            if base_offset > OFFSET_MAX or base_offset < -OFFSET_MAX:
                return False
            attributes = read_i64_be(data, position + CRC_AT) >> 16
            own_codec = attributes & CODEC_MASK
            # The sign of the last 4 bytes of these 8, base sequence and record count.
            own_records = (read_i64_be(data, position + 53) & U32 ^ SIGN32) - SIGN32
            most = size - HEADER_SIZE
            if own_codec != 0:
                unpacked = claimed_size(own_codec, data, position + HEADER_SIZE, position + size)
                most = unpacked if unpacked >= 0 else most * PACKED_RATIO
            if own_records < 0 or own_records > most:
                return False
            if batches == 0:
                codec = own_codec
            elif codec != own_codec:
                codec = MIXED_CODEC
            batches += 1
            if attributes & CONTROL_MASK:
                controls += own_records
            else:
                records += own_records
            position += size
        self.batches = batches
        self.records = records
        self.controls = controls
        self.codec = codec
        return True

    def clear(self) -> None:
        """Reset the counts."""
        self.batches = 0
        self.records = 0
        self.controls = 0
        self.codec = NULL

    def add(self, batches: list[Batch]) -> None:
        """Add scanned batches."""
        codec = codec_of(batches)
        if self.batches > 0 and batches and codec != self.codec:
            codec = MIXED_CODEC
        if batches:
            self.codec = codec
        self.batches += len(batches)
        for batch in batches:
            if batch.record_count > 0 and batch.is_control:
                self.controls += batch.record_count
            elif batch.record_count > 0:
                self.records += batch.record_count
