"""Transactions: open, long, aborted, taken over, hanging.

A transaction of a transactional id begins with the first request that adds to it and ends with
EndTxn, or with an InitProducerId of the same id, after which the coordinator aborts it. One open
longer than its producer's timeout is aborted too, as fetch responses show: to read_committed
consumers its outcome, to all consumers its end time, by the marker in the partition.
"""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.brokers import is_peer
from kdissect.analysis.dimensions import MS, SECOND_NS, with_ends
from kdissect.analysis.produce_attempts import sent_batches
from kdissect.analysis.question import DURATION, Option, Question, Tables
from kdissect.analysis.shared_columns import BATCH_RECORDS, CLIENT_IP, PRODUCER_CLIENT
from kdissect.tables.schemas import INT16, INT64, TEXT, TIME, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

ADDING: Final = ("AddPartitionsToTxn", "AddOffsetsToTxn", "Produce", "TxnOffsetCommit")
END: Final = "EndTxn"
TAKE_OVER: Final = "InitProducerId"
# What producers send to the coordinator, as they do the end; brokers add partitions, too.
COORDINATED: Final = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")
# Error for a producer that takes over while the coordinator aborts the open transaction.
CONCURRENT_TRANSACTIONS: Final = 51
OF_TRANSACTION: Final = ("transactional_id", "number")
OF_MARKER: Final = ("topic", "partition", "producer_id")
OUTCOMES: Final = (
    "hanging", "open", "refused", "timed out", "taken over", "aborted", "ended", "committed"
)  # fmt: skip

TIMEOUT: Final = Option(
    "timeout", DURATION, 60 * SECOND_NS,
    "transaction.timeout.ms of producers that began before the capture: open for longer is "
    "hanging.",
)  # fmt: skip
COLUMNS: Final = (
    Column("transactional_id", TEXT, "", "transactional id"),
    PRODUCER_CLIENT,
    Column("started", TIME, "", "first request of the transaction"),
    Column(
        "outcome", TEXT, "",
        "hanging, open, timed out, taken over, aborted, committed, ended or refused",
    ),
    Column(
        "duration_ns", INT64, "ns",
        "time until the response that ends it, else the broker's time in the marker, else the end "
        "of the capture",
    ),
    Column("idle_ns", INT64, "ns", "time since its last request, if it is open"),
    Column(
        "timeout_ns", INT64, "ns",
        "transaction.timeout.ms of the producer; null when it began before the capture",
    ),
    Column("ended_by", TEXT, "", "client id of the request that ended it"),
    Column("partitions", INT64, "", "topic-partitions written to"),
    Column("batches", INT64, "", "batches"),
    BATCH_RECORDS,
    Column("group_id", TEXT, "", "group whose offsets it commits"),
    Column("errors", INT64, "", "responses with errors"),
    Column("last_error", TEXT, "", "last error"),
    Column("producer_id", INT64, "", "producer id"),
    Column("producer_epoch", INT16, "", "its epoch"),
    CLIENT_IP,
    Column("first_packet", INT64, "", "frame number of the first request"),
    Column("last_packet", INT64, "", "frame number of the last request"),
)  # fmt: skip


def transactions(tables: Tables, timeout: int = TIMEOUT.default) -> "ir.Table":
    """Transactions, unfinished ones first, then the longest."""
    import ibis

    rows = steps(tables)
    found = summed(rows).left_join(written(tables, rows), OF_TRANSACTION)
    found = found.drop(*[f"{name}_right" for name in OF_TRANSACTION])
    found = found.left_join(timeouts(tables), "transactional_id").drop("transactional_id_right")
    found = found.mutate(
        is_coordinated=found.transactional_id.isin(coordinated(tables).transactional_id)
    )
    end_ns = tables["exchanges"].request_start_ns.max().as_scalar()
    closed_ns = found.closed_ns.coalesce(found.marker_ns)
    is_open = closed_ns.isnull()
    found = found.mutate(duration_ns=closed_ns.coalesce(end_ns) - found.started_ns)
    found = found.mutate(
        outcome=outcome_of(found, timeout),
        producer_id=found.batch_producer_id.coalesce(found.producer_id),
        producer_epoch=found.batch_producer_epoch.coalesce(found.producer_epoch),
        idle_ns=is_open.ifelse(end_ns - found.last_ns, None),
    )
    severity = found.outcome.cases(*[(name, place) for place, name in enumerate(OUTCOMES)])
    is_closed = (severity > OUTCOMES.index("open")).cast("int8")
    order = [is_closed, is_open.ifelse(severity, 0), ibis.desc("duration_ns"), "started"]
    return found.order_by(order).select(*[column.name for column in COLUMNS])


def outcome_of(rows: "ir.Table", timeout_ns: int) -> "ir.StringValue":
    """One of `OUTCOMES`."""
    import ibis

    # Where the coordinator was not captured, an end that the producer asked for was not, either.
    is_late = rows.is_coordinated & (rows.duration_ns > rows.timeout_ns.coalesce(timeout_ns))
    is_aborted = rows.aborted.coalesce(0) > 0
    return ibis.cases(
        (rows.closer == TAKE_OVER, "taken over"),
        (rows.is_commit == 1, "committed"),
        (rows.is_commit == 0, "aborted"),
        (rows.closer == END, "ended"),
        (is_aborted & rows.is_coordinated, "timed out"),
        (is_aborted, "aborted"),
        (rows.went_well == 0, "refused"),
        (is_late & rows.marker_ns.notnull(), "timed out"),
        (is_late, "hanging"),
        (rows.marker_ns.notnull(), "ended"),
        else_="open",
    )


def summed(rows: "ir.Table") -> "ir.Table":
    """A row for each transaction, from its requests."""
    at = rows.exchange_id
    found = rows.group_by(*OF_TRANSACTION).aggregate(
        client_id=rows.client_id.argmin(at, where=rows.adds),
        client_ip=rows.client_ip.argmin(at, where=rows.adds),
        started=rows.request_start.min(where=rows.adds),
        started_ns=rows.request_start_ns.min(where=rows.adds),
        last_ns=rows.request_start_ns.max(),
        went_well=(rows.adds & rows.is_ok).cast("int64").sum(),
        closer=rows.api.max(where=rows.closes),
        is_commit=rows.is_commit.cast("int8").max(where=rows.closes),
        producer_id=rows.producer_id.max(where=rows.adds),
        producer_epoch=rows.producer_epoch.max(where=rows.adds),
        closed_ns=rows.response_start_ns.max(where=rows.closes),
        ended_by=rows.client_id.max(where=rows.closes),
        group_id=rows.group_id.max(),
        errors=rows.has_error.cast("int64").sum(),
        last_error=rows.error.argmax(at, where=rows.has_error),
        first_packet=rows.request_packet.min(where=rows.adds),
        last_packet=rows.request_packet.max(),
    )
    return found.filter(found.started.notnull())


def steps(tables: Tables) -> "ir.Table":
    """Requests of transactional ids, with the `number` of their transaction."""
    import ibis

    rows = with_ends(tables, tables["exchanges"])
    rows = rows.filter(rows.transactional_id != "", rows.api.isin([*ADDING, END, TAKE_OVER]))
    code = rows.error_code.coalesce(0)
    is_ok = (rows.outcome == "answered") & (code == 0)
    is_taking = (rows.api == TAKE_OVER) & (is_ok | (code == CONCURRENT_TRANSACTIONS))
    rows = rows.mutate(
        adds=rows.api.isin(ADDING),
        is_ok=is_ok,
        has_error=code != 0,
        closes=((rows.api == END) & is_ok) | is_taking,
    )
    before = ibis.window(group_by="transactional_id", order_by="exchange_id", preceding=(None, 1))
    return rows.mutate(number=rows.closes.cast("int64").sum().over(before).coalesce(0))


def written(tables: Tables, rows: "ir.Table") -> "ir.Table":
    """For each transaction: the data written, and its outcome as reported to consumers."""
    produced = rows.filter(rows.api == "Produce").select("exchange_id", *OF_TRANSACTION)
    batches = sent_batches(tables).inner_join(produced, "exchange_id")
    partitions = tables["partitions"]
    partitions = partitions.select(
        "exchange_id", "partition", "base_offset", "record_count",
        topic=partitions.topic.coalesce(partitions.topic_id),
    )  # fmt: skip
    batches = batches.inner_join(partitions, ["exchange_id", "topic", "partition"])
    # A batch that was sent again counts once.
    batches = batches.group_by(
        *OF_TRANSACTION, "topic", "partition", "producer_id", "producer_epoch", "base_sequence"
    ).aggregate(record_count=batches.record_count.max(), base_offset=batches.base_offset.max())
    outcomes = batches.left_join(
        aborted_batches(tables), ["topic", "partition", "producer_id", "base_offset"]
    )
    outcomes = outcomes.select(*batches.columns, "was_aborted")
    ended = ends_of(outcomes, markers_of(tables))
    outcomes = outcomes.left_join(ended, [*OF_MARKER, "base_offset"])
    place = outcomes.topic + ":" + outcomes.partition.cast("string")
    return outcomes.group_by(*OF_TRANSACTION).aggregate(
        batch_producer_id=outcomes.producer_id.max(),
        batch_producer_epoch=outcomes.producer_epoch.max(),
        partitions=place.nunique(),
        batches=outcomes.count(),
        records=outcomes.record_count.sum(),
        aborted=(outcomes.was_aborted == 1).cast("int64").sum(),
        marker_ns=outcomes.marker_ns.max(),
    )


def ends_of(batches: "ir.Table", markers: "ir.Table") -> "ir.Table":
    """The time in the next marker after each batch; those before the next batch are its own."""
    import ibis

    kept = batches.filter(batches.base_offset >= 0)
    kept = kept.select(*OF_MARKER, "base_offset").distinct()
    places = kept.mutate(marker_offset=ibis.null("int64")).union(
        markers.select(*OF_MARKER, "marker_offset", base_offset=markers.marker_offset).select(
            *OF_MARKER, "base_offset", "marker_offset"
        )
    )
    down = ibis.cumulative_window(group_by=OF_MARKER, order_by=ibis.desc(places.base_offset))
    following = places.marker_offset.min().over(down)
    placed = places.mutate(following=following).filter(places.marker_offset.isnull())
    placed = placed.select(*OF_MARKER, "base_offset", marker_offset=placed.following)
    found = placed.inner_join(markers, [*OF_MARKER, "marker_offset"])
    return found.select(*OF_MARKER, "base_offset", "marker_ns")


def markers_of(tables: Tables) -> "ir.Table":
    """Fetched control batches: where and when transactions of a producer end."""
    batches = tables["all_batches"]
    batches = batches.filter(batches.is_control, batches.is_transactional)
    batches = batches.mutate(topic=batches.topic.coalesce(batches.topic_id))
    return batches.group_by(*OF_MARKER, marker_offset=batches.base_offset).aggregate(
        marker_ns=batches.base_time_ns.min()
    )


def coordinated(tables: Tables) -> "ir.Table":
    """Transactional ids of which producers' requests to the coordinator are in the capture."""
    rows = tables["all_exchanges"]
    is_own = rows.api.isin(COORDINATED) & ~is_peer(rows)
    return (
        rows.filter(is_own, rows.transactional_id.notnull()).select("transactional_id").distinct()
    )


def timeouts(tables: Tables) -> "ir.Table":
    """For each transactional id: the transaction timeout in its producer's last request."""
    rows = tables["all_exchanges"]
    rows = rows.filter(rows.transactional_id != "", rows.transaction_timeout_ms.notnull())
    return rows.group_by("transactional_id").aggregate(
        timeout_ns=rows.transaction_timeout_ms.argmax(rows.exchange_id).cast("int64") * MS
    )


def aborted_batches(tables: Tables) -> "ir.Table":
    """Batches of transactions in fetches of read_committed consumers: aborted or not."""
    batches = tables["all_batches"]
    known = batches.is_aborted.notnull() & batches.is_transactional & ~batches.is_control
    exchanges = tables["all_exchanges"]
    fetches = exchanges.filter(exchanges.api == "Fetch").select("exchange_id")
    batches = batches.filter(known).inner_join(fetches, "exchange_id")
    batches = batches.mutate(topic=batches.topic.coalesce(batches.topic_id))
    return batches.group_by("topic", "partition", "producer_id", "base_offset").aggregate(
        was_aborted=batches.is_aborted.cast("int8").max()
    )


QUESTION: Final = Question(
    "transactions",
    "Which transactions are open, hang, take long or were aborted?",
    ("connections", "exchanges", "partitions", "batches", "all_exchanges", "all_batches"),
    COLUMNS,
    transactions,
    (TIMEOUT,),
    (
        "kdissect transactions broker.pcap",
        "kdissect transactions broker.pcap --timeout 15m --limit 20",
    ),
)
