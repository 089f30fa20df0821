"""Traffic: produced, fetched and replicated data, its batching and its skew."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdissect.analysis.brokers import is_peer
from kdissect.analysis.consumption import named
from kdissect.analysis.dimensions import (
    DEFAULT_WINDOW_NS,
    WINDOW,
    check_names,
    group_option,
    in_order,
    window_of,
    with_ends,
)
from kdissect.analysis.grouping import CONSUMING, PRODUCING, beside, listed
from kdissect.analysis.partition_skew import SKEW_COLUMNS, skew
from kdissect.analysis.question import RATE, SHARE, TEXT, Question, Tables
from kdissect.analysis.questions.latency import whole
from kdissect.tables.schemas import INT32, INT64, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

COLUMNS: Final = (
    Column("produced_bytes", INT64, "bytes", "batches in produce requests, as on the wire"),
    Column("produced_records", INT64, "", "records of these batches"),
    Column("fetched_bytes", INT64, "bytes", "batches in responses to clients' fetches"),
    Column("fetched_records", INT64, "", "records of these batches"),
    Column("fan_out", RATE, "", "bytes fetched for each byte produced; null by client"),
    Column("replicated_bytes", INT64, "bytes", "batches in responses to brokers' fetches"),
    Column("batches", INT64, "", "produced batches"),
    Column("batch_records", RATE, "", "average number of records in a produced batch"),
    Column("batch_bytes", INT64, "bytes", "average size of a produced batch on the wire"),
    Column("single", SHARE, "", "share of produced batches with a single record"),
    Column("compression", RATE, "", "bytes before for each one after compression, of the produced "
           "batches whose sizes are both known"),
    Column("produced_codecs", TEXT, "", "codecs of produced batches"),
    Column("fetched_codecs", TEXT, "", "codecs of batches that clients fetched"),
    *SKEW_COLUMNS,
    Column("produces", INT64, "", "produce requests"),
    Column("fetches", INT64, "", "clients' fetches"),
    Column("empty", SHARE, "", "share of fetches answered with less than min_bytes"),
    Column("metadata", INT64, "", "metadata requests; null by topic or partition"),
    Column("throttled", INT64, "", "exchanges that the broker throttled"),
    Column("throttle_max_ms", INT32, "ms", "longest throttle"),
)  # fmt: skip
CHOICES: Final = (
    "topic", "partition", "client", "client_ip", "user", "broker", "rack", "connection",
    "capture", "tap", "date", "window",
)  # fmt: skip
BY: Final = group_option(("topic",), CHOICES)
OF_TOPICS: Final = ("topic", "partition")
OF_CLIENTS: Final = ("client", "client_ip", "user", "rack", "connection")


def traffic(
    tables: Tables, by: Sequence[str] = ("topic",), window: int = DEFAULT_WINDOW_NS
) -> "ir.Table":
    """A row for each value of `by`: in order of time, then those with most bytes first."""
    import ibis

    check_names(by, CHOICES)
    exchanges = dimensioned(tables)
    if "window" in by:
        exchanges = exchanges.mutate(window=window_of(exchanges.request_start_ns, window))
    moved = of_topics(exchanges, tables["partitions"])
    requests = named_requests(exchanges, moved, by)
    found = beside(counted(requests, by), volumes(moved, by), by)
    found = beside(found, batched(of_topics(exchanges, tables["batches"]), by), by)
    found = beside(found, skew(moved, by), by)
    # One client's reads and its writes are independent of each other.
    fan_out = found.fetched_bytes / found.produced_bytes.nullif(0)
    is_client = any(name in OF_CLIENTS for name in by)
    found = found.mutate(
        fan_out=ibis.null("float64") if is_client else fan_out,
        batch_bytes=whole(found.produced_bytes / found.batches.nullif(0)),
    )
    size = found.produced_bytes.coalesce(0) + found.fetched_bytes.coalesce(0)
    ordered = in_order(found, by, ibis.desc(size))
    return ordered.select(*by, *[column.name for column in COLUMNS])


def dimensioned(tables: Tables) -> "ir.Table":
    """Exchanges with the columns they can be grouped by, and the direction of their records."""
    import ibis

    rows = with_ends(tables, tables["exchanges"])
    return rows.select(
        "exchange_id", "api", "client_ip", "user", "broker", "capture", "tap", "date",
        "fetch_class", "throttle_ms", "request_start_ns",
        rack=rows.rack_id,
        client=rows.client_id,
        connection=rows.connection_id,
        way=ibis.cases(
            (rows.api.isin(PRODUCING), "produced"),
            (rows.api.isin(CONSUMING) & is_peer(rows), "replicated"),
            (rows.api.isin(CONSUMING), "fetched"),
        ),
    )  # fmt: skip


def of_topics(exchanges: "ir.Table", rows: "ir.Table") -> "ir.Table":
    """Rows of partitions or batches with the dimensions of the exchange that carried them.

    A topic whose name was not captured is its id, so that several are not taken for one.
    """
    carrying = exchanges.filter(exchanges.way.notnull())
    rows = named(rows).drop("connection_id", "capture", "topic_id")
    return rows.inner_join(carrying, "exchange_id")


def named_requests(exchanges: "ir.Table", moved: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """The exchanges that count; by topic or partition, one row for each that they name."""
    topics = [name for name in by if name in OF_TOPICS]
    if not topics:
        return exchanges
    return exchanges.inner_join(moved.select("exchange_id", *topics).distinct(), "exchange_id")


def counted(rows: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """Counts from the exchanges."""
    import ibis

    is_topic = any(name in OF_TOPICS for name in by)
    fetches = (rows.way == "fetched").sum().coalesce(0)
    empty = ((rows.way == "fetched") & (rows.fetch_class == "empty")).sum().coalesce(0)
    metadata = (rows.api == "Metadata").sum().coalesce(0)
    return rows.group_by(list(by)).aggregate(
        produces=(rows.way == "produced").sum().coalesce(0),
        fetches=fetches,
        empty=empty / fetches.nullif(0),
        metadata=ibis.null("int64") if is_topic else metadata,
        throttled=(rows.throttle_ms > 0).sum().coalesce(0),
        throttle_max_ms=rows.throttle_ms.max(),
    )


def volumes(moved: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """Bytes and records of each direction."""
    ways = {way: moved.way == way for way in ("produced", "fetched", "replicated")}
    sizes = {
        f"{way}_bytes": is_so.ifelse(moved.record_bytes, 0).sum() for way, is_so in ways.items()
    }
    records = {
        f"{way}_records": is_so.ifelse(moved.record_count, 0).sum() for way, is_so in ways.items()
    }
    return moved.group_by(list(by)).aggregate(**sizes, **records)


def batched(batches: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """Batching and compression of records."""
    is_produced = batches.way == "produced"
    is_known = is_produced & batches.uncompressed_size.notnull() & (batches.compressed_size > 0)
    before = is_known.ifelse(batches.uncompressed_size, None).sum()
    after = is_known.ifelse(batches.compressed_size, None).sum()
    number = is_produced.sum().coalesce(0)
    counted_records = is_produced.ifelse(batches.record_count, None)
    return batches.group_by(list(by)).aggregate(
        batches=number,
        batch_records=counted_records.mean(),
        single=(is_produced & (batches.record_count == 1)).sum().coalesce(0) / number.nullif(0),
        compression=before / after,
        produced_codecs=listed(is_produced.ifelse(batches.codec, None)),
        fetched_codecs=listed((batches.way == "fetched").ifelse(batches.codec, None)),
    )


QUESTION: Final = Question(
    "traffic",
    "What is produced and fetched, and how well is it batched and spread?",
    ("connections", "exchanges", "partitions", "batches"),
    COLUMNS,
    traffic,
    (BY, WINDOW),
    (
        "kdissect traffic broker.pcap",
        "kdissect traffic broker.pcap --by client_id --columns client_id,batch_records,empty",
        "kdissect traffic broker.pcap --by window,topic --window 1s",
        "kdissect traffic broker.pcap --by topic,partition",
    ),
)
