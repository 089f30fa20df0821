"""Delivery: risks of producers and their outcome: lost, given up, duplicated."""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.produce_attempts import OK, UNANSWERED, UNKNOWN, chains
from kdissect.analysis.question import Question, Tables
from kdissect.analysis.shared_columns import BATCH_RECORDS, CLIENT_IP, PRODUCER_CLIENT, TOPIC_OR_ID
from kdissect.tables.schemas import BOOL, INT16, INT64, TEXT, TIME, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

OF_PRODUCER: Final = ("client_id", "client_ip", "topic", "acks", "is_idempotent")
ORDER: Final = (
    "wrote twice", "gave up", "unanswered at the end", "unknown: batches were not decoded",
    "may lose: not answered (acks=0)", "may lose at a failover: acks=1",
    "may repeat: not idempotent", "none",
)  # fmt: skip
COLUMNS: Final = (
    PRODUCER_CLIENT,
    CLIENT_IP,
    TOPIC_OR_ID,
    Column("acks", INT16, "",
        "acks of the requests: -1 all in-sync replicas, 1 the leader, 0 none"),
    Column("is_idempotent", BOOL, "", "its batches have sequence numbers"),
    Column("is_transactional", BOOL, "", "its batches are parts of transactions"),
    Column("risk", TEXT, "", f"the worst that applies: {', '.join(ORDER)}"),
    Column("batches", INT64, "", "batches, each counted once"),
    BATCH_RECORDS,
    Column("sent_again", INT64, "", "batches sent more than once"),
    Column("written_twice", INT64, "", "batches to which brokers assigned two offsets or more"),
    Column("records_twice", INT64, "", "duplicate records in the log due to that"),
    Column("given_up", INT64, "", "batches whose last attempt ended with an error"),
    Column("unanswered", INT64, "", "batches whose last attempt has no response: written or not"),
    Column("unconfirmed", INT64, "", "batches without a decoded response, also those with acks=0"),
    Column("last_error", TEXT, "", "last error of an abandoned batch"),
    Column("first_sent", TIME, "", "first batch"),
    Column("last_sent", TIME, "", "first attempt of the last batch"),
)  # fmt: skip


def delivery(tables: Tables) -> "ir.Table":
    """Producers by topic, worst risk first."""
    import ibis

    rows = chains(tables)
    rows = rows.mutate(
        is_idempotent=rows.magic.isnull().ifelse(None, rows.producer_id.notnull()),
        was_given_up=~rows.ended.isin([OK, UNANSWERED, UNKNOWN]),
    )
    is_twice = rows.copies > 1
    found = rows.group_by(*OF_PRODUCER).aggregate(
        is_transactional=rows.is_transactional.cast("int8").max() == 1,
        batches=rows.count(),
        records=rows.records.sum(),
        sent_again=(rows.tries > 1).cast("int64").sum(),
        written_twice=is_twice.cast("int64").sum(),
        records_twice=is_twice.ifelse(rows.records * (rows.copies - 1), 0).sum(),
        given_up=rows.was_given_up.cast("int64").sum(),
        unanswered=(rows.ended == UNANSWERED).cast("int64").sum(),
        unconfirmed=(rows.ended == UNKNOWN).cast("int64").sum(),
        last_error=rows.ended.argmax(rows.sent_ns, where=rows.was_given_up),
        first_sent=rows.first_sent.min(),
        last_sent=rows.first_sent.max(),
    )
    answer = found.mutate(risk_number=risk_of(found))
    answer = answer.mutate(risk=answer.risk_number.cases(*enumerate(ORDER)))
    order = ["risk_number", ibis.desc("records"), *OF_PRODUCER]
    return answer.order_by(order).select(*[column.name for column in COLUMNS])


def risk_of(rows: "ir.Table") -> "ir.IntegerValue":
    """The first of `ORDER` that applies."""
    import ibis

    return ibis.cases(
        (rows.written_twice > 0, 0),
        (rows.given_up > 0, 1),
        (rows.unanswered > 0, 2),
        (rows.is_idempotent.isnull(), 3),
        (rows.acks.coalesce(0) == 0, 4),  # Kafka 0.7 has no acks and does not respond to produce
        (rows.acks == 1, 5),
        (~rows.is_idempotent, 6),
        else_=7,
    )


QUESTION: Final = Question(
    "delivery",
    "Which producers may lose, repeat or reorder records, and which have?",
    ("connections", "exchanges", "partitions", "batches"),
    COLUMNS,
    delivery,
    (),
    (
        "kdissect delivery broker.pcap",
        "kdissect delivery broker.pcap --columns client_id,topic,risk,records,records_twice",
    ),
)
