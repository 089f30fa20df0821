"""Acks: acknowledgements requested by producers, and the brokers that slow ones waited for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdissect.analysis.dimensions import (
    DEFAULT_WINDOW_NS,
    WINDOW,
    check_names,
    group_option,
    with_dimensions,
)
from kdissect.analysis.grouping import is_failed, is_unanswered
from kdissect.analysis.question import SHARE, Question, Tables
from kdissect.analysis.questions.latency import whole
from kdissect.analysis.replication import last_followers
from kdissect.tables.schemas import INT32, INT64, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

COLUMNS: Final = (
    Column("follower", INT32, "", "follower that replicated last (acks=all)"),
    Column("exchanges", INT64, "", "produce requests"),
    Column("slow", INT64, "", "requests at or above `all_p99`"),
    Column("p50_ns", INT64, "ns", "p50 of latency"),
    Column("p99_ns", INT64, "ns", "p99 of latency"),
    Column("max_ns", INT64, "ns", "max of latency"),
    Column("all_p99_ns", INT64, "ns", "p99 of latency, whichever follower was last"),
    Column("queue_p99_ns", INT64, "ns", "p99 of queue"),
    Column("replication_p50_ns", INT64, "ns", "p50 from the request to that fetch"),
    Column("replication_p99_ns", INT64, "ns", "p99 from the request to that fetch"),
    Column("replication", SHARE, "", "share of all latency until that fetch"),
    Column("answer_p99_ns", INT64, "ns", "p99 from that fetch to the response"),
    Column("given_up", INT64, "", "requests answered after the follower fell out of sync"),
    Column("records", INT64, "", "records"),
    Column("failed", INT64, "", "requests with an error in the response"),
    Column("unanswered", INT64, "", "requests without the expected response"),
)
CHOICES: Final = (
    "acks", "client", "client_ip", "user", "broker", "topic", "partition", "connection",
    "transaction", "capture", "tap", "date", "window",
)  # fmt: skip
BY: Final = group_option(("acks",), CHOICES)


def acks(
    tables: Tables, by: Sequence[str] = ("acks",), window: int = DEFAULT_WINDOW_NS
) -> "ir.Table":
    """A row for each value of `by` and each follower waited for, those of slow requests first."""
    import ibis

    check_names(by, CHOICES)
    rows = measured_produces(tables, with_dimensions(tables, by, window), by)
    found = rows.group_by([*by, "follower"]).aggregate(
        exchanges=rows.count(),
        slow=(rows.latency_ns >= rows.all_p99_ns).sum().coalesce(0),
        p50_ns=whole(rows.latency_ns.quantile(0.5)),
        p99_ns=whole(rows.latency_ns.quantile(0.99)),
        max_ns=rows.latency_ns.max(),
        all_p99_ns=whole(rows.all_p99_ns.max()),
        queue_p99_ns=whole(rows.queue_ns.quantile(0.99)),
        replication_p50_ns=whole(rows.replication_ns.quantile(0.5)),
        replication_p99_ns=whole(rows.replication_ns.quantile(0.99)),
        replication=rows.replication_ns.sum() / ibis.greatest(rows.latency_ns.sum(), 1),
        answer_p99_ns=whole(rows.answer_ns.quantile(0.99)),
        given_up=rows.is_given_up.sum().coalesce(0),
        records=rows.record_count.sum(),
        failed=is_failed(rows).sum().coalesce(0),
        unanswered=is_unanswered(rows).sum().coalesce(0),
    )
    groups = [ibis.asc(name) for name in by]
    order = [*groups, ibis.desc("slow"), ibis.desc("exchanges"), "follower"]
    return found.order_by(order).select(*by, *[column.name for column in COLUMNS])


def measured_produces(tables: Tables, exchanges: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """Produce requests with their last follower, and the p99 of their group."""
    produces = exchanges.filter(exchanges.api == "Produce")
    rows = produces.left_join(last_followers(tables), "exchange_id").drop("exchange_id_right")
    return rows.mutate(
        all_p99_ns=rows.latency_ns.quantile(0.99).over(group_by=list(by) or None),
        # A leader reads a connection's next request after it has answered the one before.
        replication_ns=(rows.passed_ns - rows.request_end_ns - rows.queue_ns.coalesce(0)).clip(
            lower=0
        ),
        answer_ns=rows.response_start_ns - rows.passed_ns,
    )


QUESTION: Final = Question(
    "acks",
    "How long do producers wait by acks, and for which broker?",
    ("exchanges", "partitions", "all_exchanges", "all_partitions"),
    COLUMNS,
    acks,
    (BY, WINDOW),
    (
        "kdissect acks cluster.pcap",
        "kdissect acks cluster.pcap --by broker,topic",
    ),
)
