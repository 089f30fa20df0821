"""Results of scanning a records field: `Batch` and `Record`, and the scans that carry them.

All sizes are bytes, all times ms since 1970, -1 stands for absent or unknown. Longer than other
modules: the columns of `batches` are declared beside the attributes that they are made of.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from kdissect.errors import CorruptRecords
from kdissect.messages.columns import BOOL, INT8, INT16, INT32, INT64, TEXT, TIME, Column
from kdissect.messages.varints import read_varint
from kdissect.protocol.readers import NULL

PREFIX_SIZE: Final = 12  # of magic 0 to 2: offset and size, which the size does not count
MAGIC_AT: Final = 16
# A record takes 7 bytes or more, a `Record` takes 128: 100 MiB of the smallest would take 2 GB.
RECORD_LIMIT: Final = 4_000_000
ANY_NUMBER: Final = 1 << 62
INT64_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40

LOG_APPEND_TIME: Final = 1

CONTROL_KEY_SIZE: Final = 4
CONTROL_TYPES: Final = (
    "ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION",
    "KRAFT_VOTERS",
)  # fmt: skip


@mypyc_attr(acyclic=True, free_list_len=1)
class Batch:
    """One entry of a records field, ``data[start:end]`` of the scanned bytes.

    A magic-2 batch, a compressed magic-0/1 wrapper message, or a run of plain magic-0/1 messages
    of one magic and timestamp type. The record bytes are ``data[records_start:]``,
    `compressed_size` of them: the bytes after the header, the wrapper's value, or the whole run.

    `uncompressed_size` of a compressed batch is the size in its codec's own headers. Of a wrapper,
    `base_offset`, `base_time_ms` and `record_count` are only known inside; `read_records` fills
    them in, and the true `uncompressed_size`. `last_offset` is as in the header, so compacted
    batches span more than `record_count`. With `has_delete_horizon`, `base_time_ms` is the time
    after which tombstones may be removed. `timestamp_type` is 0 create, 1 log append, -1 none
    (magic 0). `crc` is the stored one, unsigned; that of the first message of a run. `aborted` is 1
    if the response marks the batch as part of an aborted transaction, 0 if it does not.
    """

    __slots__ = (
        "start", "end", "records_start", "compressed_size", "uncompressed_size", "magic",
        "attributes", "codec", "timestamp_type", "base_offset", "last_offset", "record_count",
        "base_time_ms", "max_time_ms", "producer_id", "producer_epoch", "base_sequence",
        "leader_epoch", "crc", "aborted",
    )  # fmt: skip

    def __init__(
        self,
        start: i64,
        end: i64,
        records_start: i64,
        compressed_size: i64,
        uncompressed_size: i64,
        magic: i64,
        attributes: i64,
        codec: i64,
        timestamp_type: i64,
        base_offset: i64,
        last_offset: i64,
        record_count: i64,
        base_time_ms: i64,
        max_time_ms: i64,
        producer_id: i64,
        producer_epoch: i64,
        base_sequence: i64,
        leader_epoch: i64,
        crc: i64,
    ) -> None:
        self.start = start
        self.end = end
        self.records_start = records_start
        self.compressed_size = compressed_size
        self.uncompressed_size = uncompressed_size
        self.magic = magic
        self.attributes = attributes
        self.codec = codec
        self.timestamp_type = timestamp_type
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.record_count = record_count
        self.base_time_ms = base_time_ms
        self.max_time_ms = max_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.leader_epoch = leader_epoch
        self.crc = crc
        self.aborted: i64 = -1

    @property
    def size(self) -> i64:
        """The whole entry on the wire, headers included."""
        return self.end - self.start

    @property
    def is_transactional(self) -> bool:
        """Return whether it was written inside a transaction (magic 2)."""
        return self.magic == 2 and (self.attributes & TRANSACTIONAL_MASK) != 0

    @property
    def is_control(self) -> bool:
        """Return whether it contains a marker of the broker instead of records (magic 2)."""
        return self.magic == 2 and (self.attributes & CONTROL_MASK) != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Return whether `base_time_ms` is a delete horizon (magic 2, log cleaner since 3.1)."""
        return self.magic == 2 and (self.attributes & DELETE_HORIZON_MASK) != 0


ABORTED_MEANING: Final = (
    "part of an aborted transaction, according to a read_committed fetch; null: of a "
    "transaction whose outcome is not known"
)
# Columns of `batches`, in order; `source` is code, see `tables.writers_source`.
BATCH_COLUMNS: Final = (
    Column("magic", INT8, "", "record format: 0, 1 or 2", source="batch.magic"),
    Column("codec", TEXT, "", "none, gzip, snappy, lz4 or zstd", source="batch.codec"),
    Column(
        "compressed_size", INT64, "bytes", "size of the records part on the wire",
        source="batch.compressed_size",
    ),
    Column(
        "uncompressed_size", INT64, "bytes",
        "decompressed size of the records part, as its codec states it; known of every batch if "
        "records are requested too",
        source="count_or_null(batch.uncompressed_size)",
    ),
    Column(
        "record_count", INT64, "", "records; null for a wrapper that was not decompressed",
        source="count_or_null(batch.record_count)",
    ),
    Column(
        "base_offset", INT64, "",
        "first offset (in a produce request: relative); Kafka 0.7: position of the first byte",
        source="batch.base_offset",
    ),
    Column(
        "last_offset", INT64, "",
        "last offset of the batch; Kafka 0.7: position after the last byte",
        source="batch.last_offset",
    ),
    Column(
        "base_time", TIME, "", "first record's timestamp (ms resolution)",
        source="ns_of_ms(batch.base_time_ms)",
    ),
    Column(
        "max_time", TIME, "", "largest timestamp (ms resolution)",
        source="ns_of_ms(batch.max_time_ms)",
    ),
    Column(
        "timestamp_type", TEXT, "", "create or append",
        source="count_or_null(batch.timestamp_type)",
    ),
    Column(
        "producer_id", INT64, "", "producer id; null without idempotence",
        source="count_or_null(batch.producer_id)",
    ),
    Column(
        "producer_epoch", INT16, "", "producer epoch",
        source="batch.producer_epoch if batch.producer_id >= 0 else NULL",
    ),
    Column(
        "base_sequence", INT32, "", "sequence number of the first record",
        source="batch.base_sequence if batch.producer_id >= 0 else NULL",
    ),
    Column(
        "leader_epoch", INT32, "", "partition leader epoch in the batch header",
        source="batch.leader_epoch",
    ),
    Column(
        "is_transactional", BOOL, "", "part of a transaction",
        source="1 if batch.is_transactional else 0",
    ),
    Column(
        "is_control", BOOL, "", "control batch (transaction marker, leader change ...)",
        source="1 if batch.is_control else 0",
    ),
    Column("is_aborted", BOOL, "", ABORTED_MEANING, source="aborted_or_null(batch)"),
    Column(
        "crc", INT64, "",
        "checksum in the header, 0 to 2^32 - 1; of a run of plain messages that of the first; a "
        "batch that is sent twice has the same",
        source="batch.crc",
    ),
    Column("crc_ok", BOOL, "", "checksum is correct; null if not verified", source="crc_ok"),
)  # fmt: skip


@mypyc_attr(acyclic=True, free_list_len=1)
class BatchScan:
    """Batches of a records field, in order; every byte of it is accounted for.

    Their sizes + `corrupt_size` + `partial_size` = the bytes scanned. `partial_size`: an entry
    truncated at the end, as brokers do at a fetch's byte limit; no error. `corrupt_size`: invalid
    entries, of which `error` describes the first. `next_start` is the start of the first batch
    beyond the maximum, which is not scanned; NULL if all were.
    """

    __slots__ = ("batches", "partial_size", "corrupt_size", "error", "next_start")

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.partial_size: i64 = 0
        self.corrupt_size: i64 = 0
        self.error: CorruptRecords | None = None
        self.next_start: i64 = NULL


@mypyc_attr(acyclic=True)
class Record:
    """One record, or message of magic 0/1: ``payload[start:end]``, its length field not included.

    The payload is the decompressed records part, or the scanned bytes without compression.
    `key_size` and `value_size` are -1 for null. Headers start at `headers_start`.
    """

    __slots__ = (
        "payload", "start", "end", "offset", "time_ms", "key_start", "key_size", "value_start",
        "value_size", "header_count", "headers_start",
    )  # fmt: skip

    def __init__(
        self,
        payload: bytes,
        start: i64,
        end: i64,
        offset: i64,
        time_ms: i64,
        key_start: i64,
        key_size: i64,
        value_start: i64,
        value_size: i64,
        header_count: i64,
        headers_start: i64,
    ) -> None:
        self.payload = payload
        self.start = start
        self.end = end
        self.offset = offset
        self.time_ms = time_ms
        self.key_start = key_start
        self.key_size = key_size
        self.value_start = value_start
        self.value_size = value_size
        self.header_count = header_count
        self.headers_start = headers_start

    def key(self) -> bytes | None:
        """The key's bytes; None for null."""
        return cut(self.payload, self.key_start, self.key_size)

    def value(self) -> bytes | None:
        """The value's bytes; None for null, which is a tombstone for compaction."""
        return cut(self.payload, self.value_start, self.value_size)

    def headers(self) -> list[tuple[bytes, bytes | None]]:
        """Names and values in wire order; names may repeat and should be UTF-8."""
        headers: list[tuple[bytes, bytes | None]] = []
        position = self.headers_start
        for _ in range(self.header_count):
            name_size, start = read_varint(self.payload, position, self.end)
            position = start + name_size
            value_size, value_start = read_varint(self.payload, position, self.end)
            position = value_start + max(value_size, 0)
            name = self.payload[start : start + name_size]
            headers.append((name, cut(self.payload, value_start, value_size)))
        return headers

    def control_type(self) -> i64:
        """Type of a control batch's record: index in CONTROL_TYPES, more if unknown, -1 for none.

        The key is int16 version, int16 type.
        """
        if self.key_size < CONTROL_KEY_SIZE:
            return -1
        high: i64 = self.payload[self.key_start + 2]
        low: i64 = self.payload[self.key_start + 3]
        return (high << 8) | low


@mypyc_attr(acyclic=True)
class RecordScan:
    """Records of one batch, in order.

    `lost_count` records that the batch declares are not included; `error` is why the first was
    lost, or why all were. Records before and after a damaged one are included. `packed_count` of
    them are in packed columns instead.
    """

    __slots__ = ("records", "packed_count", "lost_count", "error")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.packed_count: i64 = 0
        self.lost_count: i64 = 0
        self.error: CorruptRecords | None = None

    def fail(self, error: CorruptRecords, lost_count: i64) -> None:
        """Count `lost_count` records as lost; only the first error is kept."""
        self.lost_count += lost_count
        if self.error is None:
            self.error = error


@mypyc_attr(acyclic=True)
class Budget:
    """Limits for the records of one message, which no message can exceed.

    `size` bytes may be decompressed, `count` records and headers may become values. `is_of_all`:
    the size is the rest for all messages; `given` is its value at the last count.
    """

    __slots__ = ("size", "count", "is_of_all", "given")

    def __init__(self, size: i64, count: i64) -> None:
        self.size = size
        self.count = count
        self.is_of_all: bool = False
        self.given = size

    def take(self, count: i64) -> bool:
        """Spend `count` records and headers; return False if fewer are left."""
        self.count -= count
        return self.count >= 0


def cut(payload: bytes, start: i64, size: i64) -> bytes | None:
    """Bytes ``payload[start:]``, `size` of them; None for a size of -1."""
    if size < 0:
        return None
    return payload[start : start + size]
