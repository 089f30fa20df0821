"""Topic-partitions of one exchange: packed rows, and `Partition` for one of them.

A fetch names a thousand of them, so the values of each are a row of `WIDTH` integers in one
`cells`, NULL for absent values. Topics are stored separately, once each. `row` and `rows` convert
them to objects, for callers that need few. FIELDS declares the fields: from there come their roles,
the code that reads them from a body, and their columns. Longer than other modules: fields, packed
rows and `Partition` are kept in one order.
"""

from typing import Final, NamedTuple

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from kdissect.messages import roles
from kdissect.messages.batches import Batch
from kdissect.messages.columns import INT16, INT32, INT64, TEXT, Column
from kdissect.protocol.readers import NULL

NO_ID: Final = bytes(16)
MIXED_CODEC: Final = 8  # more than any code of 3 bits


class PartitionField(NamedTuple):
    """A column of `partitions`, and a cell of each row: its place is that in FIELDS, from 1 on.

    `role` is -1 if no code names it. `asked` and `answered` are upstream's names in requests and in
    responses. Counted fields are made of the records, and have no role.
    """

    column: Column
    role: int = -1
    asked: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    is_counted: bool = False

    @property
    def name(self) -> str:
        """Name of the attribute and of the column."""
        return self.column.name


FIELDS: Final[tuple[PartitionField, ...]] = (
    PartitionField(Column("partition", INT32, "", "partition index"), role=roles.PARTITION),
    PartitionField(
        Column("error_code", INT16, "", "error code of the partition in the response"),
        role=roles.ERROR,
    ),
    PartitionField(
        Column(
            "base_offset", INT64, "",
            "Produce: offset given to the first record; ListOffsets: the offset; Offsets of Kafka"
            " 0.7: the first of those listed",
        ),
        answered=("BaseOffset", "Offset"),
    ),
    PartitionField(
        Column(
            "fetch_offset", INT64, "",
            "Fetch: offset asked for (the last one of the fetch session)",
        ),
        asked=("FetchOffset",),
    ),
    PartitionField(
        Column(
            "committed_offset", INT64, "",
            "OffsetCommit, OffsetFetch: the committed offset; -1 none",
        ),
        asked=("CommittedOffset",), answered=("CommittedOffset",),
    ),
    PartitionField(
        Column("high_watermark", INT64, "", "high watermark in the response"),
        answered=("HighWatermark",),
    ),
    PartitionField(
        Column("last_stable_offset", INT64, "", "last stable offset in the response"),
        answered=("LastStableOffset",),
    ),
    PartitionField(
        Column("log_start_offset", INT64, "", "log start offset in the response"),
        answered=("LogStartOffset",),
    ),
    PartitionField(
        Column(
            "record_count", INT64, "",
            "records, as the batch headers count them, without those of control batches",
        ),
        is_counted=True,
    ),
    PartitionField(
        Column("record_bytes", INT64, "bytes", "size of the records field on the wire"),
        is_counted=True,
    ),
    PartitionField(
        Column("batch_count", INT32, "", "rows of this partition in `batches`"),
        is_counted=True,
    ),
    PartitionField(
        Column("codec", TEXT, "", "compression of the batches; mixed when they differ"),
        is_counted=True,
    ),
    PartitionField(
        Column("leader_epoch", INT32, "", "leader epoch of the request or response"),
        role=roles.LEADER_EPOCH,
        asked=("CurrentLeaderEpoch", "LeaderEpoch"), answered=("LeaderEpoch",),
    ),
    PartitionField(
        Column("preferred_read_replica", INT32, "", "Fetch: replica the consumer is sent to"),
        answered=("PreferredReadReplica",),
    ),
    PartitionField(
        Column(
            "control_count", INT64, "",
            "records of control batches (transaction markers), of which consumers get none",
        ),
        is_counted=True,
    ),
    PartitionField(
        Column(
            "redelivered_count", INT64, "",
            "ShareFetch: records that the member acquired and that were delivered before; null "
            "where it acquired none",
        ),
        is_counted=True,
    ),
)  # fmt: skip

# Indices in a row of fields that code names. Sizes are bytes, the topic is the index in `topics`
# and `topic_ids`.
AT_TOPIC: Final = 0
AT_PARTITION: Final = 1
AT_ERROR_CODE: Final = 2
AT_BASE_OFFSET: Final = 3
AT_FETCH_OFFSET: Final = 4
AT_COMMITTED_OFFSET: Final = 5
AT_HIGH_WATERMARK: Final = 6
AT_LAST_STABLE_OFFSET: Final = 7
AT_LOG_START_OFFSET: Final = 8
AT_RECORD_COUNT: Final = 9
AT_RECORD_BYTES: Final = 10
AT_BATCH_COUNT: Final = 11
AT_CODEC: Final = 12
AT_LEADER_EPOCH: Final = 13
AT_PREFERRED_READ_REPLICA: Final = 14
AT_CONTROL_COUNT: Final = 15
AT_REDELIVERED_COUNT: Final = 16
WIDTH: Final = 17


@mypyc_attr(acyclic=True, free_list_len=1)
class Partition:
    """One topic-partition of one exchange; NULL, "" and NO_ID for absent values.

    `topic` may be "" if only `topic_id` is on the wire. Sizes are in bytes. `batches` are present
    only on request, and `records`, the bytes that their spans point into, only if records are
    requested.
    """

    __slots__ = (
        "topic", "topic_id", "partition", "error_code", "base_offset", "fetch_offset",
        "committed_offset", "high_watermark", "last_stable_offset", "log_start_offset",
        "record_count", "record_bytes", "batch_count", "codec", "leader_epoch",
        "preferred_read_replica", "control_count", "redelivered_count", "batches", "records",
    )  # fmt: skip

    def __init__(self, topic: str, topic_id: bytes, partition: i64) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.error_code: i64 = NULL
        self.base_offset: i64 = NULL
        self.fetch_offset: i64 = NULL
        self.committed_offset: i64 = NULL
        self.high_watermark: i64 = NULL
        self.last_stable_offset: i64 = NULL
        self.log_start_offset: i64 = NULL
        self.record_count: i64 = NULL
        self.record_bytes: i64 = NULL
        self.batch_count: i64 = NULL
        self.codec: i64 = NULL
        self.leader_epoch: i64 = NULL
        self.preferred_read_replica: i64 = NULL
        self.control_count: i64 = NULL
        self.redelivered_count: i64 = NULL
        self.batches: list[Batch] | None = None
        self.records: bytes = b""


@mypyc_attr(acyclic=True, free_list_len=1)
class HeldBatches:
    """The batches of one partition, and the bytes that they are in if records are requested."""

    __slots__ = ("batches", "records")

    def __init__(self, batches: list[Batch], records: bytes) -> None:
        self.batches = batches
        self.records = records


@mypyc_attr(acyclic=True, free_list_len=1)
class Partitions:
    """The topic-partitions of one exchange: `count` rows in `cells`, see the AT_ places.

    A topic has its name, "" if unknown, at the index at which `topic_ids` has its id; only the
    owners of these two lists change them. `held` are batches by row, where requested. `unkept` more
    partitions are named, without a row for lack of memory. `spent` is the approximate number of
    bytes of topics and batches.
    """

    __slots__ = (
        "topics", "topic_ids", "cells", "count", "held", "owns_topics", "unkept", "spent", "_named",
    )  # fmt: skip

    def __init__(
        self,
        topics: list[str],
        topic_ids: list[bytes],
        cells: vec[i64],
        count: i64,
        held: dict[int, HeldBatches] | None,
        owns_topics: bool = True,
    ) -> None:
        self.topics = topics
        self.topic_ids = topic_ids
        self.cells = cells
        self.count = count
        self.held = held
        self.owns_topics = owns_topics
        self._named: frozenset[tuple[str, int]] | None = None
        self.unkept: i64 = 0
        self.spent: i64 = 0

    def row(self, index: i64) -> Partition:
        """Return one row as an independent object."""
        cells = self.cells
        at = index * WIDTH
        topic = cells[at]
        row = Partition(self.topics[topic], self.topic_ids[topic], cells[at + AT_PARTITION])
        row.error_code = cells[at + AT_ERROR_CODE]
        row.base_offset = cells[at + AT_BASE_OFFSET]
        row.fetch_offset = cells[at + AT_FETCH_OFFSET]
        row.committed_offset = cells[at + AT_COMMITTED_OFFSET]
        row.high_watermark = cells[at + AT_HIGH_WATERMARK]
        row.last_stable_offset = cells[at + AT_LAST_STABLE_OFFSET]
        row.log_start_offset = cells[at + AT_LOG_START_OFFSET]
        row.record_count = cells[at + AT_RECORD_COUNT]
        row.record_bytes = cells[at + AT_RECORD_BYTES]
        row.batch_count = cells[at + AT_BATCH_COUNT]
        row.codec = cells[at + AT_CODEC]
        row.leader_epoch = cells[at + AT_LEADER_EPOCH]
        row.preferred_read_replica = cells[at + AT_PREFERRED_READ_REPLICA]
        row.control_count = cells[at + AT_CONTROL_COUNT]
        row.redelivered_count = cells[at + AT_REDELIVERED_COUNT]
        held = self.batches_of(index)
        if held is not None:
            row.batches = held.batches
            row.records = held.records
        return row

    def rows(self) -> list[Partition]:
        """Return all rows as objects, in order."""
        return [self.row(index) for index in range(self.count)]

    def named(self) -> frozenset[tuple[str, int]]:
        """Topic and partition of each row, as at the first call."""
        known = self._named
        if known is None:
            known = frozenset(
                (self.topics[self.cells[at]], int(self.cells[at + AT_PARTITION]))
                for at in range(0, self.count * WIDTH, WIDTH)
            )
            self._named = known
        return known

    @property
    def packed(self) -> bytes:
        """The cells, 8 bytes each in the byte order of the machine."""
        return bytes(memoryview(self.cells))

    def add(self, other: "Partitions", index: i64) -> None:
        """Add a row, a copy of row `index` of others."""
        at = index * WIDTH
        topic = self.topic_index(other.topics[other.cells[at]], other.topic_ids[other.cells[at]])
        cells = append(self.cells, topic)
        for place in range(at + 1, at + WIDTH):
            cells = append(cells, other.cells[place])
        self.cells = cells
        self.hold(self.count, other.batches_of(index))
        self.count += 1

    def batches_of(self, index: i64) -> HeldBatches | None:
        """The batches of one row, if requested."""
        return None if self.held is None else self.held.get(index)

    def hold(self, index: i64, batches: HeldBatches | None) -> None:
        """Keep batches of a row, if there are any."""
        if batches is None:
            return
        if self.held is None:
            self.held = {}
        self.held[index] = batches

    def topic_index(self, topic: str, topic_id: bytes) -> i64:
        """The index of a topic, added unless it is the last one."""
        last = len(self.topics) - 1
        if last >= 0 and self.topics[last] == topic and self.topic_ids[last] == topic_id:
            return last
        if not self.owns_topics:
            self.topics = self.topics[:]
            self.topic_ids = self.topic_ids[:]
            self.owns_topics = True
        self.topics.append(topic)
        self.topic_ids.append(topic_id)
        return last + 1


def unpacked(
    topics: list[str],
    topic_ids: list[bytes],
    cells: bytes,
    held: dict[int, HeldBatches] | None,
    unkept: int = 0,
) -> Partitions:
    """Restore partitions from the output of `Partitions.packed`."""
    integers = vec[i64](memoryview(cells).cast("q").tolist())
    made = Partitions(topics, topic_ids, integers, len(integers) // WIDTH, held)
    made.unkept = unkept
    return made


def partitions_of(rows: list[Partition]) -> Partitions:
    """Build rows from objects, in their order."""
    made = Partitions([], [], vec[i64](), 0, None)
    for row in rows:
        made.cells = append(made.cells, made.topic_index(row.topic, row.topic_id))
        for field in FIELDS:
            made.cells = append(made.cells, getattr(row, field.name))
        if row.batches is not None:
            made.hold(made.count, HeldBatches(row.batches, row.records))
        made.count += 1
    return made


def codec_of(batches: list[Batch]) -> i64:
    """Common codec of a partition's batches, MIXED_CODEC when they differ, NULL without any."""
    if not batches:
        return NULL
    codec = batches[0].codec
    for batch in batches:
        if batch.codec != codec:
            return MIXED_CODEC
    return codec
