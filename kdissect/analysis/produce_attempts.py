"""Write attempts: each Produce request's attempt for a partition, grouped into chains of retries.

Attempts for the same batch by the same client form a chain. A batch is identified by producer id,
epoch and first sequence number where the producer is idempotent; otherwise by its checksum, number
of records and size. A program may send the same batch twice within a millisecond, so in the latter
case the next attempt must follow a failed one, or arrive on a connection opened after the previous
one was sent, as with clients that have timed out.
"""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.dimensions import with_ends
from kdissect.analysis.grouping import is_unanswered
from kdissect.analysis.question import Tables

if TYPE_CHECKING:
    import ibis.expr.types as ir

NO_CODE: Final = 0
# Brokers return it for a batch that they already have; clients treat it as success.
DUPLICATE_SEQUENCE_NUMBER: Final = 46
OK: Final = "ok"
UNANSWERED: Final = "unanswered"
UNKNOWN: Final = "unknown"  # acks=0, or a response that could not be decoded
SEQUENCE: Final = "sequence"
CHECKSUM: Final = "checksum"
# Scope in which attempts are compared: two programs with one client id on one host are one client.
OF_CLIENT: Final = ("client_id", "client_ip", "topic", "partition")


def attempts(tables: Tables) -> "ir.Table":
    """Partitions of Produce requests, with their outcome (`state`) and their batch."""
    exchanges = tables["exchanges"].filter(tables["exchanges"].api == "Produce")
    exchanges = with_ends(tables, exchanges).select(
        "exchange_id", "connection_id", "client_id", "client_ip", "broker", "acks", "outcome",
        "decode_status", "transactional_id", "request_start", "request_start_ns",
        "response_end_ns", "request_packet",
    )  # fmt: skip
    partitions = tables["partitions"]
    partitions = partitions.select(
        "exchange_id", "partition", "error_code", "error", "base_offset", "record_count",
        topic=partitions.topic.coalesce(partitions.topic_id),
    )  # fmt: skip
    rows = partitions.inner_join(exchanges, "exchange_id")
    joined = rows.left_join(sent_batches(tables), ["exchange_id", "topic", "partition"])
    joined = joined.drop("exchange_id_right", "topic_right", "partition_right")
    is_ok = joined.error_code.isin([NO_CODE, DUPLICATE_SEQUENCE_NUMBER])
    return joined.mutate(state=state_of(joined, is_ok))


def state_of(rows: "ir.Table", is_ok: "ir.BooleanValue") -> "ir.StringValue":
    """Outcome of an attempt: ok, the name of its error, unanswered, unknown."""
    import ibis

    return ibis.cases(
        (is_unanswered(rows), UNANSWERED),
        (rows.outcome != "answered", UNKNOWN),
        (rows.error_code.isnull(), UNKNOWN),
        (is_ok, OK),
        else_=rows.error,
    )


def sent_batches(tables: Tables) -> "ir.Table":
    """Data sent to a partition in an exchange: old clients send several batches at once."""
    batches = tables["batches"]
    batches = batches.mutate(topic=batches.topic.coalesce(batches.topic_id))
    return batches.group_by("exchange_id", "topic", "partition").aggregate(
        magic=batches.magic.max(),
        producer_id=batches.producer_id.min(),
        producer_epoch=batches.producer_epoch.min(),
        base_sequence=batches.base_sequence.min(),
        # Of several batches (old clients send several at once): the identity of all of them.
        checksum=batches.crc.sum(),
        size=batches.compressed_size.sum(),
        is_transactional=batches.is_transactional.cast("int8").max() == 1,
    )


def chains(tables: Tables) -> "ir.Table":
    """A row for each batch sent, however often: its first and last outcome."""
    rows = chained(tables)
    at = rows.exchange_id
    is_ok = rows.state == OK
    return rows.group_by(*OF_CLIENT, "identity", "chain").aggregate(
        first_sent=rows.request_start.min(),
        sent_ns=rows.request_start_ns.min(),
        failures=rows.is_failure.cast("int64").sum(),
        first_failure=rows.state.argmin(at, where=rows.is_failure),
        tries=rows.count(),
        ended=rows.state.argmax(at),
        succeeded_ns=is_ok.ifelse(rows.response_end_ns, None).max(),
        next_ok_ns=rows.next_ok_ns.min(),
        copies=(is_ok & (rows.base_offset >= 0)).ifelse(rows.base_offset, None).nunique(),
        records=rows.record_count.max(),
        acks=rows.acks.min(),
        transactional_id=rows.transactional_id.max(),
        matched_by=rows.matched_by.min(),
        magic=rows.magic.max(),
        is_transactional=rows.is_transactional.cast("int8").max() == 1,
        producer_id=rows.producer_id.min(),
        producer_epoch=rows.producer_epoch.min(),
        base_sequence=rows.base_sequence.min(),
        broker=rows.broker.argmin(at),
        last_broker=rows.broker.argmax(at),
        first_packet=rows.request_packet.min(),
        last_packet=rows.request_packet.max(),
    )


def chained(tables: Tables) -> "ir.Table":
    """The attempts with the `chain` of each, and whether it is a repeat.

    `is_failure`: an attempt with an error or without a response; `next_ok_ns`: the time of the
    client's next successful response for the partition.
    """
    import ibis

    rows = with_identity(attempts(tables))
    rows = rows.mutate(is_failure=~rows.state.isin([OK, UNKNOWN]))
    connections = tables["connections"]
    opened = connections.select("connection_id", opened_ns=connections.first_time_ns)
    rows = rows.left_join(opened, "connection_id").drop("connection_id_right")
    same = ibis.window(group_by=(*OF_CLIENT, "identity"), order_by="exchange_id")
    rows = rows.mutate(
        failed_before=rows.is_failure.lag().over(same),
        sent_before_ns=rows.request_start_ns.lag().over(same),
    )
    gave_up = rows.opened_ns > rows.sent_before_ns
    is_again = (rows.matched_by == SEQUENCE) | rows.failed_before | gave_up
    rows = rows.mutate(is_repeat=rows.sent_before_ns.notnull() & is_again.coalesce(False))
    starts = (~rows.is_repeat).cast("int64")
    to_here = ibis.window(
        group_by=(*OF_CLIENT, "identity"), order_by="exchange_id", preceding=None, following=0
    )
    later = ibis.window(group_by=OF_CLIENT, order_by="exchange_id", following=(1, None))
    success_ns = (rows.state == OK).ifelse(rows.response_end_ns, None)
    return rows.mutate(chain=starts.sum().over(to_here), next_ok_ns=success_ns.min().over(later))


def with_identity(rows: "ir.Table") -> "ir.Table":
    """The attempts with the `identity` of their batch and of the client that sent it."""
    import ibis

    def text(*columns: "ir.Value") -> "ir.StringValue":
        return ibis.literal("/").join([column.cast("string") for column in columns])

    is_idempotent = rows.producer_id.notnull()
    has_batch = rows.checksum.notnull()
    return rows.mutate(
        matched_by=ibis.cases((is_idempotent, SEQUENCE), (has_batch, CHECKSUM), else_=None),
        identity=ibis.cases(
            (is_idempotent, text(rows.producer_id, rows.producer_epoch, rows.base_sequence)),
            (has_batch, text(rows.checksum, rows.record_count, rows.size)),
            else_=ibis.literal("exchange ") + rows.exchange_id.cast("string"),
        ),
    )
