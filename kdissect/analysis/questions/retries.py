"""Retries: batches that failed, were unanswered or were sent again, and their outcome."""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.produce_attempts import UNANSWERED, chains
from kdissect.analysis.question import BY_PARTITION, Question, Tables
from kdissect.analysis.shared_columns import CLIENT_IP, PRODUCER_CLIENT, TOPIC_OR_ID
from kdissect.protocol.error_codes import error_codes
from kdissect.tables.schemas import BOOL, EXCHANGES, INT32, INT64, TEXT, TIME, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

SENT_AGAIN: Final = "sent again"
ACKS: Final = next(column for column in EXCHANGES.columns if column.name == "acks")
COLUMNS: Final = (
    Column("first_sent", TIME, "", "first packet of the first attempt"),
    PRODUCER_CLIENT,
    TOPIC_OR_ID,
    Column("partition", INT32, "", "partition"),
    Column("cause", TEXT, "", "first error; unanswered; or sent again: retried without an error"),
    Column("tries", INT64, "", "attempts: how often the batch was sent"),
    Column("ended", TEXT, "",
        "outcome of the last attempt: ok, error, unanswered, unknown (acks=0)"),
    Column(
        "until_success_ns", INT64, "ns",
        "time from the first attempt to the response of the last attempt that succeeded",
    ),
    Column(
        "next_success_ns", INT64, "ns",
        "time from the first attempt to the next successful response to the client for the "
        "partition, of any batch",
    ),
    Column("copies", INT64, "", "offsets that brokers assigned to it; 2: it is in the log twice"),
    Column("records", INT64, "", "records of the batch"),
    Column("is_retriable", BOOL, "", "clients may retry after the error; null without one"),
    ACKS,
    Column(
        "matched_by", TEXT, "",
        "how attempts were matched to the batch: sequence, checksum; null: not matched",
    ),
    Column("producer_id", INT64, "", "producer id; null without idempotence"),
    Column("producer_epoch", INT32, "", "its epoch"),
    Column("base_sequence", INT32, "", "sequence number of the batch's first record"),
    CLIENT_IP,
    Column("broker", TEXT, "", "broker of the first attempt"),
    Column("last_broker", TEXT, "", "broker of the last attempt"),
    Column("first_packet", INT64, "", "frame number of the first attempt"),
    Column("last_packet", INT64, "", "frame number of the last attempt"),
)  # fmt: skip


def retries(tables: Tables) -> "ir.Table":
    """Batches without immediate success, in order of time."""
    import ibis

    found = chains(tables)
    found = found.filter((found.failures > 0) | (found.tries > 1))
    cause = (found.failures > 0).ifelse(found.first_failure, SENT_AGAIN)
    has_no_error = cause.isin([SENT_AGAIN, UNANSWERED])
    answer = found.mutate(
        cause=cause,
        until_success_ns=found.succeeded_ns - found.sent_ns,
        next_success_ns=found.next_ok_ns - found.sent_ns,
        is_retriable=has_no_error.ifelse(None, cause.isin(retriable_names())),
    ).select(*[column.name for column in COLUMNS])
    return answer.order_by([ibis.asc(name) for name in ("first_sent", "topic", "partition")])


def retriable_names() -> list[str]:
    """Names of the retriable errors."""
    return [known.name for known in error_codes().values() if known.is_retriable]


QUESTION: Final = Question(
    "retries",
    "Which batches failed or were retried, and how long until they were written?",
    ("connections", "exchanges", "partitions", "batches"),
    COLUMNS,
    retries,
    (),
    (
        "kdissect retries broker.pcap",
        "kdissect retries broker.pcap --format csv --columns client_id,topic,cause,copies",
    ),
    bucketed_by=BY_PARTITION,
)
