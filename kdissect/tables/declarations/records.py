"""Columns of `partitions`, `batches` and `records`.

Those of partitions' fields are declared in `messages.partitions`, of batches in `messages.batches`.
"""

from typing import Final

from kdissect.messages.batches import ABORTED_MEANING, BATCH_COLUMNS
from kdissect.messages.columns import BINARY, BOOL, INT32, INT64, TEXT, TIME, Column
from kdissect.messages.partitions import FIELDS as PARTITION_FIELDS
from kdissect.tables.declarations.table import (
    CAPTURE,
    CONNECTION_ID,
    ERROR_NAME,
    EXCHANGE_ID,
    Table,
)

# Of the content of a partition in an exchange.
IN_PARTITION: Final = (
    CAPTURE,
    CONNECTION_ID,
    EXCHANGE_ID,
    Column(
        "topic", TEXT, "", "topic name, from the message or resolved from the topic id",
        source="own.index_or_null(p.topic)",
    ),
    Column("topic_id", TEXT, "", "topic id", source="topic_ids.index_or_null(p.topic_id)"),
    Column("partition", INT32, "", "partition index", source="p.partition"),
)  # fmt: skip
PARTITION_COLUMNS: Final = [field.column for field in PARTITION_FIELDS]

PARTITIONS = Table(
    "partitions",
    "a topic-partition in an exchange",
    (
        CAPTURE,
        CONNECTION_ID,
        EXCHANGE_ID,
        Column(
            "topic", TEXT, "", "topic name, from the message or resolved from the topic id",
            source="own.index_or_null(partitions.topics[topic])",
        ),
        Column(
            "topic_id", TEXT, "", "topic id as Kafka writes it (22 characters of base64)",
            source="topic_ids.index_or_null(partitions.topic_ids[topic])",
        ),
        *PARTITION_COLUMNS[:2],
        ERROR_NAME,
        *PARTITION_COLUMNS[2:],
    ),
)  # fmt: skip

BATCHES = Table(
    "batches",
    "a record batch, a compressed wrapper message, or a run of plain messages of one magic",
    (
        *IN_PARTITION,
        *BATCH_COLUMNS,
    ),
)  # fmt: skip

RECORDS = Table(
    "records",
    "a record",
    (
        *IN_PARTITION,
        Column(
            "offset", INT64, "",
            "offset (in a produce request: relative); Kafka 0.7: position in bytes after the "
            "message, or after the compressed message that contains it",
        ),
        Column("time", TIME, "", "timestamp (ms resolution)"),
        Column("key_size", INT32, "bytes", "size of the key; null for no key"),
        Column("value_size", INT32, "bytes", "size of the value; null for a tombstone"),
        Column("header_count", INT32, "", "record headers"),
        Column("is_aborted", BOOL, "", ABORTED_MEANING, source="aborted"),
        Column("key", BINARY, "", "the key (only with payload)", stored=False),
        Column(
            "value", BINARY, "",
            "the value (only with payload; never of the metadata log, which has credentials)",
            stored=False,
        ),
        Column("headers", BINARY, "", "the headers as JSON (only with payload)", stored=False),
    ),
    is_default=False,
)  # fmt: skip
