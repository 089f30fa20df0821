"""Commits: committed offsets of groups compared with the records delivered to them.

Deliveries are fetches of clients that belong to one group only; commits are those of the group,
from any client (transactions commit for it, too). Both are merged in order of time, so for every
commit the group's delivered position and previous commit are known.

Members of share groups acknowledge records instead. Of their partitions only what was delivered
again is known, as brokers count it.
"""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.dimensions import MS, with_ends
from kdissect.analysis.question import Question, Tables
from kdissect.analysis.shared_columns import GROUP_ID, TOPIC_OR_ID
from kdissect.tables.schemas import INT32, INT64, TEXT, TIME, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

SHARED: Final = "share group"  # rhythm
PLACE: Final = ("group_id", "topic", "partition")
COMMITTING: Final = ("OffsetCommit", "TxnOffsetCommit")
SPEAKING: Final = (
    "JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch", "ConsumerGroupHeartbeat",
)  # fmt: skip
# Intervals between commits are those of a timer when nine in ten of them are within a fourth of
# the median, the number of intervals is sufficient, and the median is no burst.
TIMER_COMMITS: Final = 5
TIMER_NS: Final = 200 * MS
TIMER_SPREAD: Final = 0.25
# Commits are per delivery when there are at least 0.9 per delivery, and each soon after it.
EACH_SHARE: Final = 0.9
RISKS: Final = (
    "skips: committed beyond what was delivered", "repeated: delivered again",
    "never commits", "would repeat: not committed", "unknown: deliveries not seen", "none",
)  # fmt: skip
COLUMNS: Final = (
    GROUP_ID,
    TOPIC_OR_ID,
    Column("partition", INT32, "", "partition"),
    Column("risk", TEXT, "", f"the worst that applies: {'; '.join(RISKS)}"),
    Column(
        "rhythm", TEXT, "",
        "timing of commits: each delivery (soon after it), timer (as auto-commit does), irregular, "
        f"few or never; {SHARED}: no commits",
    ),
    Column("commits", INT64, "", "commits that succeeded"),
    Column("interval_p50_ns", INT64, "ns", "median time between two commits"),
    Column("committed", INT64, "", "offset of the last commit"),
    Column("delivered_to", INT64, "", "offset after the last record fetched or skipped"),
    Column("uncommitted", INT64, "", "offsets between these two, which the next owner reads again"),
    Column(
        "exposed_max", INT64, "",
        "largest number of delivered, uncommitted offsets before a commit: repeated after a crash",
    ),
    Column(
        "ahead_max", INT64, "",
        "largest distance of a commit beyond the delivered offset, of clients that fetched",
    ),
    Column(
        "redelivered", INT64, "",
        "offsets delivered again to any member of the group; of a share group, by the delivery "
        "counts of brokers",
    ),
    Column("failed_commits", INT64, "", "commits that failed or were unanswered"),
    Column("last_error", TEXT, "", "last error of a commit"),
    Column("clients", INT64, "", "client ids that fetched or committed"),
    Column("first_commit", TIME, "", "first commit; of a share group, fetch with records"),
    Column("last_commit", TIME, "", "last commit; of a share group, fetch with records"),
)  # fmt: skip


def commits(tables: Tables) -> "ir.Table":
    """Partitions of groups, worst risk first."""
    rows = in_order(tables)
    good = rows.is_commit & rows.is_ok
    at = rows.exchange_id
    found = rows.group_by(*PLACE).aggregate(
        commits=good.cast("int64").sum(),
        interval_p10_ns=rows.interval_ns.quantile(0.1),
        interval_p50_ns=rows.interval_ns.quantile(0.5),
        interval_p90_ns=rows.interval_ns.quantile(0.9),
        deliveries=rows.start.count(),
        after_p90_ns=rows.after_ns.quantile(0.9),
        committed=rows["to"].argmax(at, where=good),
        delivered_to=rows["to"].max(where=~rows.is_commit),
        exposed_max=(rows.delivered_before - rows.known_before).max(where=good),
        ahead_max=(rows["to"] - rows.delivered_before).max(where=good & rows.is_reader),
        redelivered=rows.again.sum().coalesce(0),
        failed_commits=(rows.is_commit & ~rows.is_ok).cast("int64").sum(),
        last_error=rows.error.argmax(at, where=rows.is_commit & rows.error.notnull()),
        clients=rows.client_id.nunique(),
        first_commit=rows["at"].min(where=good),
        last_commit=rows["at"].max(where=good),
    )
    found = found.mutate(
        uncommitted=or_nothing(found.delivered_to - found.committed),
        exposed_max=or_nothing(found.exposed_max),
        ahead_max=or_nothing(found.ahead_max),
        rhythm=rhythm_of(found),
    )
    found = found.mutate(
        risk_number=risk_of(found), interval_p50_ns=found.interval_p50_ns.round().cast("int64")
    )
    names = [*(column.name for column in COLUMNS if column.name != "risk"), "risk_number"]
    found = found.select(*names).union(shared(tables).cast(found.select(*names).schema()))
    answer = found.mutate(risk=found.risk_number.cases(*enumerate(RISKS)))
    return answer.order_by(["risk_number", *PLACE]).select(*[column.name for column in COLUMNS])


def shared(tables: Tables) -> "ir.Table":
    """Partitions of share groups: what their members acquired."""
    import ibis

    rows = asked(tables).filter(lambda t: (t.api == "ShareFetch") & t.group_id.notnull())
    rows = (
        placed(tables)
        .filter(lambda t: t.redelivered_count.notnull())
        .inner_join(rows, "exchange_id")
    )
    found = rows.group_by(*PLACE).aggregate(
        redelivered=rows.redelivered_count.sum(),
        clients=rows.client_id.nunique(),
        first_commit=rows.request_start.min(),
        last_commit=rows.request_start.max(),
    )
    nothing = ibis.null("int64")
    return found.select(
        *PLACE, rhythm=ibis.literal(SHARED), commits=ibis.literal(0, "int64"),
        interval_p50_ns=nothing, committed=nothing, delivered_to=nothing, uncommitted=nothing,
        exposed_max=nothing, ahead_max=nothing, redelivered=found.redelivered,
        failed_commits=ibis.literal(0, "int64"), last_error=ibis.null("string"),
        clients=found.clients, first_commit=found.first_commit, last_commit=found.last_commit,
        risk_number=(found.redelivered > 0).ifelse(1, 5),
    )  # fmt: skip


def or_nothing(number: "ir.IntegerColumn") -> "ir.IntegerValue":
    """A difference, at least 0; null stays null."""
    return (number < 0).ifelse(0, number)


def risk_of(rows: "ir.Table") -> "ir.IntegerValue":
    """The first of `RISKS` that applies."""
    import ibis

    return ibis.cases(
        (rows.ahead_max.coalesce(0) > 0, 0),
        (rows.redelivered > 0, 1),
        (rows.commits == 0, 2),
        (rows.uncommitted.coalesce(0) > 0, 3),
        (rows.delivered_to.isnull(), 4),
        else_=5,
    )


def rhythm_of(rows: "ir.Table") -> "ir.StringValue":
    """Return whether commits look like those of a timer."""
    import ibis

    spread = (rows.interval_p90_ns - rows.interval_p10_ns) / 2
    is_even = (spread <= rows.interval_p50_ns * TIMER_SPREAD) & (rows.interval_p50_ns >= TIMER_NS)
    is_soon = rows.after_p90_ns <= rows.interval_p50_ns * TIMER_SPREAD
    is_each = is_soon & (rows.commits >= rows.deliveries * EACH_SHARE)
    return ibis.cases(
        (rows.commits == 0, "never"),
        (rows.commits < TIMER_COMMITS, "few"),
        (is_each, "each delivery"),
        (is_even, "timer"),
        else_="irregular",
    )


def in_order(tables: Tables) -> "ir.Table":
    """Deliveries and commits in one order, each with the previous delivery and commit."""
    import ibis

    rows = delivered(tables).union(committed(tables))
    order = ("at_ns", "exchange_id", "to")
    before = ibis.window(group_by=PLACE, order_by=order, preceding=(None, 1))
    own = (*PLACE, "speaker")
    own_before = ibis.window(group_by=own, order_by=order, preceding=(None, 1))
    good = rows.is_commit & rows.is_ok
    rows = rows.mutate(
        delivered_before=rows["to"].max(where=~rows.is_commit).over(before),
        committed_before=rows["to"].max(where=good).over(before),
        committed_ns=rows.at_ns.max(where=good).over(before),
        # Who commits what another was given may have been given more by a broker that was not
        # captured.
        is_reader=(~rows.is_commit).cast("int8").max().over(own_before) == 1,
        got_ns=rows.at_ns.max(where=rows.start.notnull()).over(before),
    )
    # A client without a commit yet started at the committed offset, or without one.
    began = rows.start.min().over(before)
    # Part of a delivery may have been delivered before.
    is_old = rows["to"] <= rows.delivered_before
    known_to = is_old.ifelse(rows["to"], rows.delivered_before)
    return rows.mutate(
        known_before=rows.committed_before.coalesce(began),
        again=or_nothing(known_to - rows.start),
        interval_ns=good.ifelse(rows.at_ns - rows.committed_ns, None),
        after_ns=good.ifelse(rows.at_ns - rows.got_ns, None),
    )


def committed(tables: Tables) -> "ir.Table":
    """Commits of groups."""
    import ibis

    rows = asked(tables).filter(lambda t: t.api.isin(COMMITTING) & t.group_id.notnull())
    rows = placed(tables).inner_join(rows, "exchange_id")
    rows = rows.filter(rows.committed_offset >= 0)
    return rows.select(
        "exchange_id", *PLACE, "client_id", "speaker", "error",
        at=rows.request_start, at_ns=rows.request_start_ns,
        start=ibis.null("int64"), to=rows.committed_offset,
        is_commit=ibis.literal(True),
        is_ok=((rows.outcome == "answered") & (rows.error_code == 0)).coalesce(False),
    )  # fmt: skip


def delivered(tables: Tables) -> "ir.Table":
    """Fetched data of groups: batches, and the positions of the fetch requests."""
    import ibis

    rows = asked(tables).filter(lambda t: t.api == "Fetch").drop("group_id")
    rows = rows.inner_join(spokesmen(tables), "speaker")
    rows = placed(tables).inner_join(rows, "exchange_id").filter(lambda t: t.fetch_offset >= 0)
    ends = ends_of(tables)
    rows = rows.left_join(ends, ["exchange_id", "topic", "partition"])
    got = rows.end_offset.notnull()
    return rows.select(
        "exchange_id", *PLACE, "client_id", "speaker", error=ibis.null("string"),
        at=got.ifelse(rows.response_end, rows.request_start),
        at_ns=got.ifelse(rows.response_end_ns, rows.request_start_ns),
        start=got.ifelse(rows.fetch_offset, None), to=rows.end_offset.coalesce(rows.fetch_offset),
        is_commit=ibis.literal(False), is_ok=ibis.literal(True),
    )  # fmt: skip


def ends_of(tables: Tables) -> "ir.Table":
    """The end offset of a partition's batches in a response."""
    batches = tables["batches"]
    batches = batches.mutate(topic=batches.topic.coalesce(batches.topic_id))
    return batches.group_by("exchange_id", "topic", "partition").aggregate(
        end_offset=batches.last_offset.max() + 1
    )


def asked(tables: Tables) -> "ir.Table":
    """Exchanges with the requesting client."""
    rows = with_ends(tables, tables["exchanges"])
    return rows.select(
        "exchange_id", "api", "client_id", "group_id", "outcome",
        "request_start", "request_start_ns", "response_end", "response_end_ns",
        speaker=rows.client_id.coalesce("") + "@" + rows.client_ip.coalesce(""),
    )  # fmt: skip


def placed(tables: Tables) -> "ir.Table":
    """Partitions of exchanges, by topic, else by topic id."""
    partitions = tables["partitions"]
    return partitions.select(
        "exchange_id", "partition", "error_code", "error", "fetch_offset", "committed_offset",
        "redelivered_count",
        topic=partitions.topic.coalesce(partitions.topic_id),
    )  # fmt: skip


def spokesmen(tables: Tables) -> "ir.Table":
    """Clients that belong to one group only, and so fetch for it."""
    rows = asked(tables).filter(lambda t: t.api.isin(SPEAKING) & t.group_id.notnull())
    clients = rows.group_by("speaker").aggregate(
        group_id=rows.group_id.min(), groups=rows.group_id.nunique()
    )
    return clients.filter(clients.groups == 1).drop("groups")


QUESTION: Final = Question(
    "commits",
    "Do groups commit what they were delivered, or may they lose or repeat records?",
    ("connections", "exchanges", "partitions", "batches"),
    COLUMNS,
    commits,
    (),
    (
        "kdissect commits broker.pcap",
        "kdissect commits broker.pcap --columns group_id,topic,partition,risk,uncommitted",
    ),
    derived=("group_id",),
)
