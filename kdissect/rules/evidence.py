"""Evidence of findings: answers of `kdissect.analysis`, reduced to a few rows.

Each is an expression over the answer of one question. Building these with Ibis takes longer than
the page may take, so `tools.print_evidence` generates them as SQL into the package, read by
`compiled_sql`; a test compares the two. Times become numbers of microseconds there.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.dimensions import SECOND_NS
from kdissect.analysis.questions.commits import RISKS
from kdissect.rules.evidence_rows import ROWS
from kdissect.rules.group_rules import SOME_BEHIND

if TYPE_CHECKING:
    import ibis.expr.types as ir

LAG_WINDOW_NS: Final = 5 * SECOND_NS
FALLS: Final = 2  # windows at the end of which a group is later than at that of the one before

SKIPS, REPEATED = RISKS[0], RISKS[1]

Cut = Callable[["ir.Table"], "ir.Table"]


class Evidence(NamedTuple):
    """An answer and the part of it that is used."""

    question: str
    options: Mapping[str, Any]
    cut: Cut


def expression(evidence: Evidence, tables: Mapping[str, "ir.Table"]) -> "ir.Table":
    """The expression of an evidence over the tables."""
    answer = QUESTIONS[evidence.question].answer(tables, **evidence.options)
    # One more row shows that the result was cut.
    return evidence.cut(answer).limit(ROWS + 1)


def errors(rows: "ir.Table") -> "ir.Table":
    """Clients and their errors, the most frequent first."""
    chosen = rows.select(
        "error", "api", "client", "client_ip", "errors", "exchanges", "partitions", "is_retriable",
        "first_seen", "last_seen", "first_packet", "message",
    )  # fmt: skip
    return chosen.order_by(chosen.errors.desc(), "error", "api", "client", "client_ip")


def failovers(rows: "ir.Table") -> "ir.Table":
    """Blackouts of all partitions that moved from one broker to another for the same reason."""
    by = ("access", "cause", "old_broker", "refused_by", "new_broker")
    # Who goes elsewhere after a refusal, and comes back, may have been served by a broker that the
    # capture does not have.
    untried_ns = rows.blackout_ns - rows.failing_ns
    is_away = (rows.new_broker == rows.old_broker) & (untried_ns >= SECOND_NS)
    rows = rows.filter(~is_away.fill_null(False))
    longest = rows.blackout_ns.fill_null(2**62)
    found = rows.group_by(*by).aggregate(
        blackouts=rows.count(),
        blackout_ns=rows.blackout_ns.max(),
        unfinished=rows.blackout_ns.isnull().cast("int64").sum(),
        failing_ns=rows.blackout_ns.isnull().ifelse(rows.failing_ns, None).max(),
        slowest_client_ns=rows.slowest_client_ns.max(),
        clients=rows.clients.max(),
        unrecovered=rows.unrecovered.max(),
        errors=rows.errors.sum(),
        topic=rows.topic.argmax(longest),
        partition=rows.partition.argmax(longest),
        topics=rows.topic.nunique(),
        started=rows.started.min(),
        last_started=rows.started.max(),
        last_success=rows.last_success.min(),
        first_packet=rows.first_packet.min(),
    )
    return found.order_by(found.errors.desc(), *by)


def rebalances(rows: "ir.Table") -> "ir.Table":
    """Rebalances of a group by cause and culprit, those with the longest stop first."""
    by = ("group_id", "kind", "cause", "client_id", "client_ip", "outcome")
    stopped = rows.stopped_ns.fill_null(-1)
    found = rows.group_by(*by).aggregate(
        rebalances=rows.count(),
        stopped_ns=rows.stopped_ns.max(),
        all_stopped_ns=rows.stopped_ns.sum(),
        duration_ns=rows.duration_ns.max(),
        members=rows.members.argmax(stopped),
        members_before=rows.members_before.argmax(stopped),
        lost=(rows.lost > 0).fill_null(False).cast("int64").sum(),
        reason=rows.reason.argmax(stopped),
        group_instance_id=rows.group_instance_id.max(),
        start=rows.start.min(),
        last_start=rows.start.max(),
        request_packet=rows.request_packet.min(),
    )
    return found.order_by(found.stopped_ns.fill_null(-1).desc(), *by)


def transactions(rows: "ir.Table") -> "ir.Table":
    """Transactions other than those that ended normally, in the order of `transactions`."""
    return rows.filter(~rows.outcome.isin(("committed", "ended"))).select(
        "transactional_id", "client_id", "client_ip", "outcome", "started", "duration_ns",
        "idle_ns", "timeout_ns", "ended_by", "partitions", "records", "errors", "last_error",
        "first_packet", "last_packet",
    )  # fmt: skip


def acks(rows: "ir.Table") -> "ir.Table":
    """Last follower of acks=all requests."""
    asked_all = rows.filter(rows.acks == -1)
    chosen = asked_all.select(
        "follower", "exchanges", "slow", "p99_ns", "all_p99_ns", "replication_p50_ns",
        "replication_p99_ns", "replication",
    )  # fmt: skip
    return chosen.order_by(chosen.slow.desc(), "follower")


def work(rows: "ir.Table") -> "ir.Table":
    """Broker time by API, with the latencies beside it."""
    chosen = rows.select(
        "api", "broker", "exchanges", "p50_ns", "p99_ns", "max_ns", "queue_p99_ns", "rtt_p50_ns"
    )
    return chosen.order_by("api", "broker")


def slowest(rows: "ir.Table") -> "ir.Table":
    """The exchanges with the longest broker time."""
    return rows.select(
        "api", "broker", "client_id", "client_ip", "request_start", "work_ns", "latency_ns",
        "queue_ns", "silent_ns", "acks", "retransmits", "request_packet", "response_packet",
    )  # fmt: skip


def delivery(rows: "ir.Table") -> "ir.Table":
    """Producers at risk."""
    risky = rows.filter(rows.risk != "none").select(
        "client_id", "client_ip", "topic", "acks", "risk", "batches", "records", "sent_again",
        "written_twice", "records_twice", "given_up", "unanswered", "last_error", "first_sent",
        "last_sent",
    )  # fmt: skip
    return risky.order_by(
        risky.records_twice.desc(), risky.given_up.desc(), risky.unanswered.desc(),
        risky.batches.desc(), "client_id", "client_ip", "topic",
    )  # fmt: skip


def retries(rows: "ir.Table") -> "ir.Table":
    """Batches that were sent again, by producer and cause."""
    again = rows.filter(rows.tries > 1)
    by = ("client_id", "client_ip", "topic", "cause")
    found = again.group_by(*by).aggregate(
        batches=again.count(),
        tries=again.tries.max(),
        until_success_ns=again.until_success_ns.max(),
        not_written=(again.ended != "ok").cast("int64").sum(),
        broker=again.broker.argmin(again.first_packet),
        first_sent=again.first_sent.min(),
        last_sent=again.first_sent.max(),
        first_packet=again.first_packet.min(),
    )
    return found.order_by(found.batches.desc(), *by)


def commits(rows: "ir.Table") -> "ir.Table":
    """Partitions whose group may have lost or repeated records, by topic."""
    risky = rows.filter(rows.risk.isin((SKIPS, REPEATED)))
    by = ("group_id", "topic", "risk")
    found = risky.group_by(*by).aggregate(
        partitions=risky.count(),
        ahead=risky.ahead_max.max(),
        redelivered=risky.redelivered.sum(),
        rhythm=risky.rhythm.min(),
        uncommitted=risky.uncommitted.sum(),
        failed_commits=risky.failed_commits.sum(),
        last_error=risky.last_error.max(),
        first_commit=risky.first_commit.min(),
        last_commit=risky.last_commit.max(),
    )
    return found.order_by(found.ahead.fill_null(0).desc(), "risk", "group_id", "topic")


def lag(rows: "ir.Table") -> "ir.Table":
    """Lag of groups on topics when first and last observed, and partitions that fall behind: with
    each commit the oldest record that is not committed is older.
    """
    import ibis

    place = ("group_id", "topic", "partition")
    in_order = ibis.window(group_by=place, order_by="window")
    rows = rows.mutate(
        older_ns=rows.lag_time_ns - rows.lag_time_ns.lag().over(in_order),
        committed=rows.committed_offset - rows.committed_offset.lag().over(in_order),
    )
    one = rows.group_by(*place).aggregate(
        falls=(rows.older_ns > 0).fill_null(False).cast("int64").sum(),
        catches_up=(rows.older_ns <= 0).fill_null(False).cast("int64").sum(),
        commits=(rows.committed > 0).fill_null(False).cast("int64").sum(),
        largest_lag=rows.lag.max(),
        first_time_ns=rows.lag_time_ns.argmin(rows.window),
        first_window=rows.window.min(),
        last_window=rows.window.max(),
        first_lag=rows.lag.argmin(rows.window),
        last_lag=rows.lag.argmax(rows.window),
        undelivered=rows.undelivered.argmax(rows.window),
        lag_time_ns=rows.lag_time_ns.argmax(rows.window),
        client_id=rows.client_id.argmax(rows.window),
    )
    is_falling = (one.falls >= FALLS) & (one.commits >= FALLS) & (one.catches_up == 0)
    is_falling &= one.largest_lag >= SOME_BEHIND
    fallen_ns = one.lag_time_ns - one.first_time_ns
    by = ("group_id", "topic")
    found = one.group_by(*by).aggregate(
        partitions=one.count(),
        fallen_ns=is_falling.fill_null(False).ifelse(fallen_ns, None).max(),
        first_window=one.first_window.min(),
        last_window=one.last_window.max(),
        first_lag=one.first_lag.sum(),
        last_lag=one.last_lag.sum(),
        undelivered=one.undelivered.sum(),
        lag_time_ns=one.lag_time_ns.max(),
        client_id=one.client_id.max(),
    )
    return found.order_by(found.last_lag.fill_null(0).desc(), *by)


def upgrade(rows: "ir.Table") -> "ir.Table":
    """Clients with versions that a newer release has removed."""
    is_old = rows.api_version < rows.oldest
    worst = rows.filter(is_old & rows.verdict.isin(("breaks", "may break")))
    # A fetch may wait for records when its connection ends.
    worst = worst.mutate(unanswered=(worst.api == "Fetch").ifelse(0, worst.unanswered))
    return worst.select(
        "client", "client_ip", "software", "software_version", "api", "api_version", "verdict",
        "reason", "oldest", "exchanges", "unanswered", "first_time", "last_time",
    ).order_by("verdict", "client", "client_ip", "api", "api_version")  # fmt: skip


def traffic(rows: "ir.Table") -> "ir.Table":
    """Requests and amounts of clients, the busiest first."""
    chosen = rows.select(
        "client", "client_ip", "produces", "batches", "batch_records", "batch_bytes", "single",
        "fetches", "empty", "metadata", "throttled", "throttle_max_ms",
    )  # fmt: skip
    busy = [chosen[name].fill_null(0).desc() for name in ("throttled", "metadata", "batches")]
    return chosen.order_by(*busy, "client", "client_ip")


def skew(rows: "ir.Table") -> "ir.Table":
    """Skew of produced data over the partitions of topics."""
    chosen = rows.select(
        "topic", "partitions", "top_partition", "top_share", "produced_bytes", "produced_codecs",
        "fetched_codecs",
    )  # fmt: skip
    return chosen.order_by(chosen.produced_bytes.fill_null(0).desc(), "topic")


def health(rows: "ir.Table") -> "ir.Table":
    """Clients at brokers, those with most trouble first."""
    return rows.select(
        "client", "client_ip", "broker", "connections", "refused", "no_answer",
        "unacknowledged_ns", "reset_by_broker", "closed_by_broker", "idle_min_ns", "idle_max_ns",
        "reset_by_client", "reconnects", "life_p50_ns", "retransmitted_segments", "lost_bytes",
        "zero_windows", "zero_windows_by_broker", "zero_window_ns", "zero_window_by_broker_ns",
        "exchanges", "troubled", "time_p99_ns", "untroubled_p99_ns", "network",
        "rtt_p50_ns", "rtt_broker_p50_ns",
    )  # fmt: skip


def logins(rows: "ir.Table") -> "ir.Table":
    """Clients whose logins failed."""
    failed = rows.filter(rows.failed_logins > 0).select(
        "client", "client_ip", "users", "mechanisms", "failed_logins", "connections", "first_time",
        "last_time",
    )  # fmt: skip
    return failed.order_by(failed.failed_logins.desc(), "client", "client_ip")


CLIENT: Final = ("client", "client_ip")
EVIDENCE: Final = {
    "errors": Evidence("errors", {"by": ("error", "api", *CLIENT)}, errors),
    "failovers": Evidence("failovers", {}, failovers),
    "rebalances": Evidence("rebalances", {}, rebalances),
    "transactions": Evidence("transactions", {}, transactions),
    "acks": Evidence("acks", {}, acks),
    "work": Evidence("latency", {"by": ("api", "broker"), "of": "work"}, work),
    "slowest": Evidence("slowest", {"number": ROWS, "of": "work"}, slowest),
    "delivery": Evidence("delivery", {}, delivery),
    "retries": Evidence("retries", {}, retries),
    "commits": Evidence("commits", {}, commits),
    "lag": Evidence("lag", {"window": LAG_WINDOW_NS}, lag),
    "upgrade": Evidence("upgrade", {"by": CLIENT}, upgrade),
    "traffic": Evidence("traffic", {"by": CLIENT}, traffic),
    "skew": Evidence("traffic", {"by": ("topic",)}, skew),
    "health": Evidence("health", {"by": (*CLIENT, "broker")}, health),
    "logins": Evidence("clients", {"by": CLIENT}, logins),
}
