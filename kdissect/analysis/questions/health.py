"""Health: connections with loss, stalls, failures, reconnects, and the network's share of p99."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdissect.analysis.dimensions import check_names, group_option
from kdissect.analysis.grouping import CONCERNED, beside
from kdissect.analysis.question import SHARE, Question, Tables
from kdissect.analysis.questions.latency import whole
from kdissect.tables.schemas import INT64, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

COLUMNS: Final = (
    Column("connections", INT64, "", "connections"),
    Column("refused", INT64, "", "connections that the broker reset before a byte was sent"),
    Column("no_answer", INT64, "", "connections whose SYN was never answered"),
    Column(
        "unacknowledged_ns", INT64, "ns",
        "longest time for which the broker's host acknowledged nothing of what was sent again; a "
        "host does so for a paused process, too",
    ),
    Column("reset_by_broker", INT64, "", "connections that the broker reset later"),
    Column("closed_by_broker", INT64, "",
        "connections that the broker closed with FIN after an exchange"),
    Column("idle_min_ns", INT64, "ns", "shortest time from their last response to the FIN"),
    Column("idle_max_ns", INT64, "ns", "longest time from their last response to the FIN"),
    Column("reset_by_client", INT64, "", "connections that the client reset"),
    Column("reconnects", INT64, "",
        "connections opened after another of the same client and broker ended"),
    Column("life_p50_ns", INT64, "ns", "median time from the first to the last packet"),
    Column("retransmitted", SHARE, "", "retransmitted share of segments"),
    Column("retransmitted_segments", INT64, "", "number of retransmitted segments"),
    Column("lost_bytes", INT64, "bytes", "bytes that the network lost"),
    Column("zero_windows", INT64, "", "segments that announce a full receive buffer"),
    Column("zero_windows_by_broker", INT64, "", "of them, announced by the broker"),
    Column("zero_window_ns", INT64, "ns", "time for which windows were full"),
    Column("zero_window_by_broker_ns", INT64, "ns", "time for which the broker's were full"),
    Column("missing_bytes", INT64, "bytes", "bytes that are missing in the capture"),
    Column("rtt_p50_ns", INT64, "ns", "median of the connections' smallest TCP round trips"),
    Column(
        "rtt_broker_p50_ns", INT64, "ns",
        "median of their parts between the tap and the broker, which is part of latency",
    ),
    Column("exchanges", INT64, "", "answered exchanges"),
    Column("troubled", INT64, "",
        "exchanges during which there were retransmissions or zero windows; retransmissions count "
        "on connections where bytes were lost"),
    Column("time_p99_ns", INT64, "ns", "p99 of upload, latency and download, without what was "
           "asked for (wait)"),
    Column("untroubled_p99_ns", INT64, "ns", "the same, of exchanges that are not `troubled`"),
    Column("troubled_p99_ns", INT64, "ns", "the same, of `troubled` exchanges"),
    Column("network", SHARE, "", "share of p99 due to `troubled` exchanges, an upper bound"),
)  # fmt: skip
CHOICES: Final = ("client", "client_ip", "user", "broker", "connection", "capture", "tap", "date")
DEFAULT_BY: Final = ("client", "broker")
BY: Final = group_option(DEFAULT_BY, CHOICES)


def health(tables: Tables, by: Sequence[str] = DEFAULT_BY) -> "ir.Table":
    """A row for each value of `by`, those with most trouble first."""
    import ibis

    check_names(by, CHOICES)
    connections = ends_of_connections(tables)
    found = beside(of_connections(connections, by), of_exchanges(tables, connections, by), by)
    symptoms = [
        found[name]
        for name in ("retransmitted_segments", "zero_windows", "refused", "no_answer",
                     "reset_by_broker", "reset_by_client", "reconnects")
    ]  # fmt: skip
    trouble = sum(symptoms[1:], symptoms[0])
    ordered = found.order_by([ibis.desc(trouble), ibis.desc("exchanges"), *by])
    return ordered.select(*by, *[column.name for column in COLUMNS])


def ends_of_connections(tables: Tables) -> "ir.Table":
    """The connections with the columns they can be grouped by.

    Connections with exchanges count when one of those is selected; those without always count.
    """
    import ibis

    exchanges = tables["exchanges"]
    speakers = exchanges.group_by("connection_id").aggregate(
        client=exchanges.client_id.max(), last_response_ns=exchanges.response_end_ns.max()
    )
    connections = tables["connections"]
    ours = connections.filter(connections.protocol.isin(CONCERNED)).rename(
        all_exchanges="exchanges"
    )
    ours = ours.mutate(is_both_ways=ours.packets_to_client.max().as_scalar() > 0)
    joined = ours.left_join(speakers, "connection_id")
    is_chosen = joined.connection_id_right.notnull() | (joined.all_exchanges.coalesce(0) == 0)
    named = joined.filter(is_chosen).mutate(
        user=ibis._.sasl_user,
        broker=ibis._.broker_ip + ":" + ibis._.broker_port.cast("string"),
        connection=ibis._.connection_id,
    )
    pair = ["client", "client_ip", "broker"]
    first_end = named.last_time_ns.min().over(group_by=pair)
    return named.mutate(
        is_again=(named.syn_seen & (named.first_time_ns > first_end)).coalesce(False)
    )


def of_connections(rows: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """Events of the connections."""
    import ibis

    is_unused = (rows.payload_bytes_to_broker + rows.payload_bytes_to_client).coalesce(0) == 0
    is_reset = rows.rst_by == "broker"
    is_closed = (rows.ended_by == "broker") & rows.last_response_ns.notnull()
    is_closed &= rows.rst_by.isnull()
    idle = is_closed.ifelse(rows.last_time_ns - rows.last_response_ns, None)
    segments = both(rows, "retransmitted_segments")
    return rows.group_by(list(by)).aggregate(
        connections=rows.count(),
        refused=(is_reset & is_unused).sum().coalesce(0),
        no_answer=has_no_answer(rows).sum().coalesce(0),
        unacknowledged_ns=rows.is_both_ways.ifelse(rows.unacknowledged_ns_to_broker, 0)
        .max()
        .coalesce(0),
        reset_by_broker=(is_reset & ~is_unused).sum().coalesce(0),
        closed_by_broker=is_closed.sum().coalesce(0),
        idle_min_ns=idle.min(),
        idle_max_ns=idle.max(),
        reset_by_client=(rows.rst_by == "client").sum().coalesce(0),
        reconnects=rows.is_again.sum(),
        life_p50_ns=whole((rows.last_time_ns - rows.first_time_ns).quantile(0.5)),
        retransmitted=segments.sum() / ibis.greatest(both(rows, "packets").sum(), 1),
        retransmitted_segments=segments.sum(),
        lost_bytes=both(rows, "network_lost_bytes").sum(),
        zero_windows=both(rows, "zero_windows").sum(),
        zero_windows_by_broker=rows.zero_windows_to_client.sum().coalesce(0),
        zero_window_ns=both(rows, "zero_window_ns").sum(),
        zero_window_by_broker_ns=rows.zero_window_ns_to_client.sum().coalesce(0),
        missing_bytes=both(rows, "missing_bytes").sum(),
        rtt_p50_ns=whole(round_trip(rows).quantile(0.5)),
        rtt_broker_p50_ns=whole(
            least(rows.min_rtt_broker_ns, rows.handshake_rtt_broker_ns).quantile(0.5)
        ),
    )


def has_no_answer(rows: "ir.Table") -> "ir.BooleanValue":
    """Return whether a client got no answer: no packet came, and it never went beyond SYN.

    A client that sends data or a FIN was answered, and the answers were not captured.
    """
    is_silent = rows.syn_seen & (rows.packets_to_client == 0) & rows.is_both_ways
    has_spoken = (rows.bytes_to_broker.coalesce(0) > 0) | rows.fin_seen.coalesce(False)
    return is_silent & ~has_spoken & rows.rst_by.isnull()


def both(rows: "ir.Table", name: str) -> "ir.NumericValue":
    """Sum of both directions."""
    to_broker: ir.NumericValue = rows[f"{name}_to_broker"].coalesce(0)
    return to_broker + rows[f"{name}_to_client"].coalesce(0)


def round_trip(rows: "ir.Table") -> "ir.NumericValue":
    """The smaller round trip of handshake and data on both sides of the tap; null if unknown.

    `kdissect.analysis.summary.network` has the same.
    """
    return least(rows.min_rtt_broker_ns + rows.min_rtt_client_ns, rows.handshake_rtt_ns)


def least(one: "ir.NumericValue", other: "ir.NumericValue") -> "ir.NumericValue":
    """The smaller of two numbers, or the one that is known."""
    import ibis

    found: ir.NumericValue = ibis.least(one.coalesce(other), other.coalesce(one))
    return found


def of_exchanges(tables: Tables, connections: "ir.Table", by: Sequence[str]) -> "ir.Table":
    """Duration of exchanges, with trouble and without."""
    import ibis

    exchanges = tables["exchanges"]
    answered = exchanges.filter(exchanges.outcome == "answered", exchanges.latency_ns.notnull())
    parts = answered.select(
        "connection_id",
        is_repeated=answered.retransmits.coalesce(0) > 0,
        is_full=answered.zero_windows.coalesce(0) > 0,
        time=answered.latency_ns
        + answered.upload_ns.coalesce(0)
        + answered.download_ns.coalesce(0)
        - answered.wait_ns.coalesce(0),
    )
    keys = connections.select(
        *dict.fromkeys(["connection_id", *by]),
        has_losses=both(connections, "network_lost_bytes") > 0,
    )
    rows = parts.inner_join(keys, "connection_id")
    rows = rows.mutate(is_troubled=(rows.is_repeated & rows.has_losses) | rows.is_full)
    found = rows.group_by(list(by)).aggregate(
        exchanges=rows.count(),
        troubled=rows.is_troubled.sum(),
        time_p99_ns=whole(rows.time.quantile(0.99)),
        untroubled_p99_ns=whole(rows.is_troubled.ifelse(None, rows.time).quantile(0.99)),
        troubled_p99_ns=whole(rows.is_troubled.ifelse(rows.time, None).quantile(0.99)),
    )
    saved = found.time_p99_ns - found.untroubled_p99_ns
    share = ibis.greatest(saved, 0) / ibis.greatest(found.time_p99_ns, 1)
    return found.mutate(network=(found.troubled == found.exchanges).ifelse(None, share))


QUESTION: Final = Question(
    "health",
    "Which connections lose data, stall, fail or reconnect, and how much of p99 is the network's?",
    ("connections", "exchanges"),
    COLUMNS,
    health,
    (BY,),
    (
        "kdissect health broker.pcap",
        "kdissect health broker.pcap --by capture --columns capture,time_p99_ns,network",
        "kdissect health broker.pcap --by client_ip,broker",
    ),
)
