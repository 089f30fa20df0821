"""Retries: batches that failed, were unanswered or were sent again, and their outcome."""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.produce_attempts import UNANSWERED, chains
from kdissect.analysis.question import Question, Tables
from kdissect.analysis.shared_columns import CLIENT_IP, PRODUCER_CLIENT, TOPIC_OR_ID
from kdissect.protocol.error_codes import error_codes
from kdissect.tables.schemas import BOOL, EXCHANGES, INT32, INT64, TEXT, TIME, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

SENT_AGAIN: Final = "sent again"
ACKS: Final = next(column for column in EXCHANGES.columns if column.name == "acks")
COLUMNS: Final = (
    Column("first_sent", TIME, "", "first packet of the first try"),
    PRODUCER_CLIENT,
    TOPIC_OR_ID,
    Column("partition", INT32, "", "partition"),
    Column("cause", TEXT, "", "first error; unanswered; or sent again: no error, and yet again"),
    Column("tries", INT64, "", "times that the batch was sent"),
    Column("ended", TEXT, "", "ok, the error, unanswered or unknown (acks=0): the last try"),
    Column(
        "until_success_ns", INT64, "ns",
        "from the first try to the answer without an error, of the last try that has one",
    ),
    Column(
        "next_success_ns", INT64, "ns",
        "from the first try until a later request of the client, with whatever batch, was answered "
        "without an error for the partition",
    ),
    Column("copies", INT64, "", "offsets that brokers gave the batch: 2 is twice in the log"),
    Column("records", INT64, "", "records of the batch"),
    Column("is_retriable", BOOL, "", "clients may try again after the error; null without one"),
    ACKS,
    Column(
        "matched_by", TEXT, "",
        "how tries were known to be of one batch: sequence, checksum; null: not",
    ),
    Column("producer_id", INT64, "", "producer id; null without idempotence"),
    Column("producer_epoch", INT32, "", "its epoch"),
    Column("base_sequence", INT32, "", "sequence number of the batch's first record"),
    CLIENT_IP,
    Column("broker", TEXT, "", "broker of the first try"),
    Column("last_broker", TEXT, "", "broker of the last try"),
    Column("first_packet", INT64, "", "frame number of the first try"),
    Column("last_packet", INT64, "", "frame number of the last try"),
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
)
