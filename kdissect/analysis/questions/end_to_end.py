"""End to end: time from produce to consume, for the consumers of each group.

A batch is followed by topic, partition and offset: from the first byte of the Produce request
whose response assigned its offset to the last byte of the first Fetch response that delivered it
to a group.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdissect.analysis.consumption import (
    BATCH_TIME,
    PARTITION,
    PRODUCE,
    consumer_fetches,
    fetched,
    named,
    produced,
    with_run,
)
from kdissect.analysis.dimensions import (
    DEFAULT_WINDOW_NS,
    WINDOW,
    check_names,
    group_option,
    in_order,
    window_of,
)
from kdissect.analysis.question import FLAG, Option, Question, Tables
from kdissect.analysis.questions.latency import PERCENTILES, whole
from kdissect.tables.schemas import INT64, TEXT, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

# Columns that identify consumers.
CHOICES: Final = (
    "topic", "partition", "group", "client", "client_ip", "connection", "capture", "tap", "date",
    "window",
)  # fmt: skip
COLUMNS: Final = (
    Column(
        "since", TEXT, "", "start of the time: produce (captured) or batch time (producer's clock)"
    ),
    Column("batches", INT64, "", "delivered batches, counted once per group"),
    Column(
        "backlog", INT64, "", "batches produced before the group's first fetch of the partition"
    ),
    Column(
        "records", INT64, "", "records of the batches; null for wrappers that were not unpacked"
    ),
    *[
        Column(f"{name}_ns", INT64, "ns", f"{name} from produce to consume")
        for name in (*PERCENTILES, "max")
    ],
    Column("produce_p99_ns", INT64, "ns", "p99 of the part until the response to the producer"),
    Column("fetch_p99_ns", INT64, "ns", "p99 of the part from there to the end of the fetch"),
)
LIVE: Final = Option("live", FLAG, False, "Without the backlog that a group started with.")
BY: Final = group_option(("topic", "group"), CHOICES)


def end_to_end(
    tables: Tables,
    by: Sequence[str] = ("topic", "group"),
    window: int = DEFAULT_WINDOW_NS,
    live: bool = False,
) -> "ir.Table":
    """Percentiles of the time from produce to consume, a row for each value of `by`."""
    import ibis

    check_names(by, CHOICES)
    rows = timed(deliveries(tables), tables)
    if live:
        rows = rows.filter(~rows.is_backlog)
    if "window" in by:
        rows = rows.mutate(window=window_of(rows.got_ns, window))
    found = rows.group_by([*by, "since"]).aggregate(
        batches=rows.count(),
        backlog=rows.is_backlog.sum(),
        records=rows.record_count.sum(),
        **{f"{name}_ns": whole(rows.took_ns.quantile(at)) for name, at in PERCENTILES.items()},
        max_ns=rows.took_ns.max(),
        produce_p99_ns=whole(rows.produce_ns.quantile(0.99)),
        fetch_p99_ns=whole(rows.fetch_ns.quantile(0.99)),
    )
    return in_order(found, by, ibis.desc("since"), ibis.desc("p99_ns"))


def deliveries(tables: Tables) -> "ir.Table":
    """Batches with the fetch that first delivered them to a group, or to a client without one."""
    import ibis

    fetches = consumer_fetches(tables).select(
        "exchange_id", "group", "client_ip", "capture", "tap", "date", "request_start_ns",
        client="client_id",
        connection="connection_id",
        got_ns="response_end_ns",
    )  # fmt: skip
    fetches = fetches.mutate(
        reader=ibis.coalesce(
            "group " + fetches.group,
            "client " + fetches.client_ip + " " + fetches.client,
            fetches.client_ip,
        )
    )
    asked = (
        named(tables["partitions"])
        .select("exchange_id", *PARTITION)
        .inner_join(fetches.select("exchange_id", "reader", "request_start_ns"), "exchange_id")
    )
    place = ["reader", *PARTITION]
    begun = asked.group_by(place).aggregate(begun_ns=asked.request_start_ns.min())
    # Consumers of read_committed receive aborted records, and do not deliver them.
    given = fetched(tables).filter(lambda t: ~t.is_aborted).drop("is_aborted")
    rows = given.inner_join(fetches.drop("request_start_ns"), "exchange_id")
    rows = rows.left_join(begun, place).drop(*[f"{name}_right" for name in place])
    order = ibis.row_number().over(
        group_by=[*place, "first_offset"], order_by=["got_ns", "exchange_id"]
    )
    return rows.mutate(order=order).filter(lambda t: t.order == 0)


def timed(rows: "ir.Table", tables: Tables) -> "ir.Table":
    """Deliveries with their duration, and its parts where the produce was captured."""
    import ibis

    rows = with_run(rows, "first_offset", produced(tables), ["sent_ns", "answered_ns"])
    is_seen = rows.sent_ns.notnull()
    begun_ns = rows.sent_ns.coalesce(rows.base_ns)
    rows = rows.filter(begun_ns.notnull(), rows.got_ns.notnull())
    return rows.mutate(
        is_backlog=(begun_ns < rows.begun_ns).fill_null(False),
        since=is_seen.ifelse(PRODUCE, BATCH_TIME),
        took_ns=ibis.greatest(rows.got_ns - begun_ns, 0),
        produce_ns=rows.answered_ns - rows.sent_ns,
        # Consumers may receive it before the producer has its response.
        fetch_ns=is_seen.ifelse(ibis.greatest(rows.got_ns - rows.answered_ns, 0), None),
    )


QUESTION: Final = Question(
    "end-to-end",
    "How long do records take from producer to consumer?",
    ("connections", "exchanges", "partitions", "batches", "all_exchanges"),
    COLUMNS,
    end_to_end,
    (BY, WINDOW, LIVE),
    (
        "kdissect end-to-end broker.pcap --live",
        "kdissect end-to-end broker.pcap --by topic,partition,group_id",
        "kdissect end-to-end broker.pcap --by group_id,window --window 1s",
    ),
    derived=("group_id",),
)
