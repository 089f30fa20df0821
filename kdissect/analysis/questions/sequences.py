"""Sequences: sequence numbers of idempotent producers: repeats, gaps and steps back."""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.produce_attempts import chained
from kdissect.analysis.question import BY_PARTITION, Question, Tables
from kdissect.analysis.shared_columns import BATCH_RECORDS, PRODUCER_CLIENT, TOPIC_OR_ID
from kdissect.tables.schemas import INT16, INT32, INT64, TEXT, TIME, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

OF_PRODUCER: Final = ("producer_id", "producer_epoch", "topic", "partition")
OUT_OF_ORDER: Final = 45
DUPLICATE: Final = 46
# Numbers wrap to 0 after 2^31-1; a gap of half of that is the wraparound, not a loss.
LARGEST_HOLE: Final = 1 << 30
COLUMNS: Final = (
    PRODUCER_CLIENT,
    Column("transactional_id", TEXT, "", "its transactional id"),
    Column("producer_id", INT64, "", "producer id"),
    Column("producer_epoch", INT16, "", "its epoch"),
    TOPIC_OR_ID,
    Column("partition", INT32, "", "partition"),
    Column("batches", INT64, "", "batches, identified by their first sequence number"),
    BATCH_RECORDS,
    Column("repeated", INT64, "", "repeated attempts of a batch"),
    Column("reordered", INT64, "", "batches first sent after one with a larger number"),
    Column("missing", INT64, "", "numbers between the first and the last that were not captured"),
    Column("out_of_order_errors", INT64, "", "responses with OUT_OF_ORDER_SEQUENCE_NUMBER"),
    Column("duplicate_errors", INT64, "", "responses with DUPLICATE_SEQUENCE_NUMBER"),
    Column("first_sequence", INT32, "", "smallest number"),
    Column("last_sequence", INT32, "", "number of the last record"),
    Column("first_sent", TIME, "", "first batch"),
    Column("last_sent", TIME, "", "last attempt of the last batch"),
)  # fmt: skip


def sequences(tables: Tables) -> "ir.Table":
    """Producer ids by epoch and partition, those with irregularities first."""
    import ibis

    rows = numbered(tables)
    found = rows.group_by(*OF_PRODUCER).aggregate(
        client_id=rows.client_id.max(),
        transactional_id=rows.transactional_id.max(),
        batches=rows.count(),
        records=rows.records.sum(),
        repeated=(rows.tries - 1).sum(),
        reordered=rows.is_late.cast("int64").sum(),
        missing=rows.missing.sum(),
        out_of_order_errors=rows.out_of_order_errors.sum(),
        duplicate_errors=rows.duplicate_errors.sum(),
        first_sequence=rows.base_sequence.min(),
        last_sequence=(rows.base_sequence + rows.records).max() - 1,
        first_sent=rows.first_sent.min(),
        last_sent=rows.last_sent.max(),
    )
    odd = ("out_of_order_errors", "missing", "reordered", "duplicate_errors", "repeated")
    found = found.order_by([*[ibis.desc(name) for name in odd], *OF_PRODUCER])
    return found.select(*[column.name for column in COLUMNS])


def numbered(tables: Tables) -> "ir.Table":
    """Batches with sequence numbers: times sent, and numbers missing before each (`missing`)."""
    import ibis

    rows = chained(tables)
    rows = rows.filter(rows.producer_id.notnull() & (rows.base_sequence >= 0))
    rows = rows.group_by(*OF_PRODUCER, "base_sequence").aggregate(
        client_id=rows.client_id.max(),
        transactional_id=rows.transactional_id.max(),
        exchange_id=rows.exchange_id.min(),
        tries=rows.count(),
        records=rows.record_count.max(),
        out_of_order_errors=(rows.error_code == OUT_OF_ORDER).cast("int64").sum(),
        duplicate_errors=(rows.error_code == DUPLICATE).cast("int64").sum(),
        first_sent=rows.request_start.min(),
        last_sent=rows.request_start.max(),
    )
    by_number = ibis.window(group_by=OF_PRODUCER, order_by="base_sequence")
    expected = (rows.base_sequence + rows.records).lag().over(by_number)
    before = ibis.window(group_by=OF_PRODUCER, order_by="exchange_id", preceding=(None, 1))
    hole = (rows.base_sequence - expected).coalesce(0)
    return rows.mutate(
        missing=((hole > 0) & (hole < LARGEST_HOLE)).ifelse(hole, 0),
        is_late=(rows.base_sequence < rows.base_sequence.max().over(before)).coalesce(False),
    )


QUESTION: Final = Question(
    "sequences",
    "Where do sequence numbers of idempotent producers repeat, skip or go back?",
    ("connections", "exchanges", "partitions", "batches"),
    COLUMNS,
    sequences,
    (),
    ("kdissect sequences broker.pcap",),
    bucketed_by=BY_PARTITION,
)
