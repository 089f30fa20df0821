"""Failovers: partitions unavailable for writes or reads for a while, by the errors of leadership.

A blackout begins with the first such error for a partition and ends with the first success on it by
any client, separately for producers, consumers, followers and metadata. Later errors while others
succeed (clients with old metadata) belong to it until none occurs for some time (`quiet`).
"""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.brokers import is_follower
from kdissect.analysis.dimensions import SECOND_NS, with_ends
from kdissect.analysis.grouping import is_unanswered
from kdissect.analysis.produce_attempts import UNANSWERED
from kdissect.analysis.question import DURATION, Option, Question, Tables
from kdissect.analysis.shared_columns import TOPIC_OR_ID
from kdissect.tables.schemas import INT32, INT64, TEXT, TIME, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

NOT_LEADER: Final = "NOT_LEADER_OR_FOLLOWER"
LEADERLESS: Final = "LEADER_NOT_AVAILABLE"
# By name: Kafka 0.7 uses the same numbers for other errors.
OF_LEADERSHIP: Final = (
    NOT_LEADER,
    "UNKNOWN_TOPIC_OR_PARTITION",  # of a broker that is not a replica any more, or not yet
    LEADERLESS,
    "BROKER_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "KAFKA_STORAGE_ERROR",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
)
# Client ids of brokers and controllers when they fetch from each other.
PLACE: Final = ("topic", "partition", "access")
CLIENT: Final = ("client_id", "client_ip")
INT32_VALUES: Final = 1 << 32

QUIET: Final = Option(
    "quiet", DURATION, 5 * SECOND_NS,
    "Errors of a partition this far apart, with successes between, are different failovers.",
)  # fmt: skip
COLUMNS: Final = (
    Column("started", TIME, "", "first error, or first request that was left unanswered"),
    TOPIC_OR_ID,
    Column("partition", INT32, "", "partition"),
    Column("access", TEXT, "", "produce, fetch (consumers), replicate (followers) or metadata"),
    Column("cause", TEXT, "", "first error, or unanswered"),
    Column("blackout_ns", INT64, "ns",
        "time until the first success of any client; null: none captured"),
    Column("failing_ns", INT64, "ns", "time from the first error to the last"),
    Column(
        "slowest_client_ns", INT64, "ns",
        "longest time of a client from its first error to its next success",
    ),
    Column("old_broker", TEXT, "",
        "broker of the last success before; of metadata without a leader, that of the last write "
        "or read"),
    Column("new_broker", TEXT, "", "broker of the first success after; the same"),
    Column("errors", INT64, "", "errors, and requests left unanswered"),
    Column("clients", INT64, "", "clients that received them"),
    Column("unrecovered", INT64, "", "those clients that had no success afterwards"),
    Column("refused_by", TEXT, "", "broker of the first error"),
    Column("last_success", TIME, "", "last success before the first error"),
    Column("first_packet", INT64, "", "frame number of the first error or unanswered request"),
    Column("success_packet", INT64, "", "frame number of the first successful response"),
)  # fmt: skip


def failovers(tables: Tables, quiet: int = QUIET.default) -> "ir.Table":
    """Blackouts of partitions in order of time."""
    import ibis

    every = reached(tables)
    named = where_something_fails(every)
    places, brokers = numbered_places(named), numbered(named, ("broker",), "at_broker")
    rows = in_episodes(with_long_polls(tried(with_numbers(named, places, brokers))), quiet)
    at_ns, fails, goes = rows.at_ns, rows.is_failure, rows.is_ok
    found = rows.group_by("place", "episode").aggregate(
        started=rows["at"].min(where=fails),
        started_ns=at_ns.min(where=fails),
        failing_ns=at_ns.max(where=fails) - at_ns.min(where=fails),
        cause=rows.cause.argmin(at_ns, where=fails),
        errors=fails.cast("int64").sum(),
        refused_by_number=rows.at_broker.argmin(at_ns, where=fails),
        new_broker_number=rows.at_broker.argmin(at_ns, where=goes),
        success_ns=rows.accepted_ns.argmin(at_ns, where=goes),
        last_ok=rows["at"].max(where=goes),
        last_ok_number=rows.at_broker.argmax(at_ns, where=goes),
        first_packet=rows.packet.argmin(at_ns, where=fails),
        success_packet=rows.packet.argmin(at_ns, where=goes),
    )
    before = ibis.window(group_by="place", order_by="episode")
    found = found.mutate(
        old_broker_number=found.last_ok_number.lag().over(before),
        last_success=found.last_ok.lag().over(before),
        blackout_ns=(found.success_ns - found.started_ns).clip(lower=0),
    )
    # Episode 0 is the successes before the first error.
    found = found.filter(found.episode > 0).join(of_clients(rows), ["place", "episode"])
    found = found.join(places, "place")
    for title in ("old_broker", "refused_by", "new_broker"):
        names = brokers.select(ibis._.at_broker.name(f"{title}_number"), ibis._.broker.name(title))
        found = found.left_join(names, f"{title}_number").drop(f"{title}_number_right")
        has_leader = found.access != "metadata"  # any broker answers metadata
        found = found.mutate(has_leader.ifelse(found[title], None).name(title))
    found = with_leaders(found, every)
    answer = found.select(*[column.name for column in COLUMNS])
    return answer.order_by([ibis.asc(name) for name in ("started", *PLACE)])


def with_leaders(found: "ir.Table", every: "ir.Table") -> "ir.Table":
    """Blackouts of metadata with the brokers that wrote or read the partition before and after."""
    told = found.filter(found.access == "metadata", found.cause == LEADERLESS).select(
        "place", "episode", "topic", "partition", "started_ns"
    )
    is_served = (every.outcome == "answered") & (every.error_code == 0)
    is_served &= every.access.isin(["produce", "fetch"])
    served = every.filter(is_served.fill_null(False)).select(
        "topic", "partition", "broker", served_ns=every.response_start_ns
    )
    rows = told.inner_join(served, ["topic", "partition"])
    is_before = rows.served_ns < rows.started_ns
    leaders = rows.group_by("place", "episode").aggregate(
        before=rows.broker.argmax(rows.served_ns, where=is_before),
        after=rows.broker.argmin(rows.served_ns, where=~is_before),
    )
    joined = found.left_join(leaders, ["place", "episode"])
    return joined.mutate(
        old_broker=joined.old_broker.coalesce(joined.before),
        new_broker=joined.new_broker.coalesce(joined.after),
    )


def numbered(rows: "ir.Table", names: tuple[str, ...], number: str) -> "ir.Table":
    """The distinct values of columns, each with a number: windows over names cost much more.

    An exchange has one of them, so its first one is a number of its own.
    """
    return rows.group_by(names).aggregate(rows.exchange_id.min().name(number))


def numbered_places(rows: "ir.Table") -> "ir.Table":
    """The same for partitions, of which an exchange has many.

    They are numbered within those of the same index: a window over all is one task of Spark.
    """
    import ibis

    places = rows.select(*PLACE).distinct()
    within = ibis.row_number().over(group_by="partition", order_by=["topic", "access"])
    return places.mutate(place=within * INT32_VALUES + places.partition)


def with_numbers(rows: "ir.Table", places: "ir.Table", brokers: "ir.Table") -> "ir.Table":
    """The rows with numbers in place of the names that only the answer needs."""
    clients = numbered(rows, CLIENT, "client")
    rows = rows.inner_join(places, PLACE)
    for table, names in ((brokers, ("broker",)), (clients, CLIENT)):
        # Clients without a name are one each address.
        same = [rows[name].identical_to(table[name]) for name in names]
        rows = rows.inner_join(table, same)
    return rows


def with_long_polls(rows: "ir.Table") -> "ir.Table":
    """Fetches that another broker had accepted when one failed are successes after that, too.

    Without new records the new leader may show no other sign for long: later fetches
    of a session do not name the partition.
    """
    import ibis

    rows = rows.mutate(accepted_ns=rows.at_ns)
    is_long = rows.is_ok & ~rows.is_failure & (rows.answered_ns > rows.at_ns)
    answers = rows.filter(is_long).mutate(at_ns=ibis._.answered_ns, is_late=True)
    events = rows.mutate(is_late=False).union(answers)
    order = ("at_ns", "exchange_id")
    before = ibis.window(group_by="place", order_by=order, preceding=(None, 1))
    here = ibis.window(group_by=("place", "at_broker"), order_by=order, preceding=(None, 1))
    failed_ns = events.at_ns.max(where=events.is_failure)
    events = events.mutate(failed_ns=failed_ns.over(before), failed_here_ns=failed_ns.over(here))
    is_elsewhere = events.failed_here_ns.coalesce(0) < events.failed_ns
    was_waiting = is_elsewhere & (events.accepted_ns < events.failed_ns)
    return events.filter(~events.is_late | was_waiting.coalesce(False))


def of_clients(rows: "ir.Table") -> "ir.Table":
    """For each episode: clients that received errors, and the time until they succeeded again."""
    import ibis

    of_client = ibis.window(group_by=("place", "episode", "client"))
    rows = rows.mutate(since_ns=rows.at_ns.min(where=rows.is_failure).over(of_client))
    failed = rows.filter(rows.since_ns.notnull())
    goes_again = failed.is_ok & (failed.at_ns > failed.since_ns)
    clients = failed.group_by("place", "episode", "client").aggregate(
        took_ns=failed.at_ns.min(where=goes_again) - failed.since_ns.min()
    )
    return clients.group_by("place", "episode").aggregate(
        clients=clients.count(),
        unrecovered=clients.took_ns.isnull().cast("int64").sum(),
        slowest_client_ns=clients.took_ns.max(),
    )


def in_episodes(rows: "ir.Table", quiet_ns: int) -> "ir.Table":
    """Successes and failures with the number of the failover that they precede or belong to."""
    import ibis

    rows = rows.filter(rows.is_failure | rows.is_ok)
    order = ("at_ns", "exchange_id")
    before = ibis.window(group_by="place", order_by=order, preceding=(None, 1))
    to_here = ibis.window(group_by="place", order_by=order, preceding=None, following=0)
    here = ibis.window(group_by=("place", "at_broker"), order_by=order, preceding=(None, 1))
    went_ns = rows.at_ns.max(where=rows.is_ok)
    rows = rows.mutate(
        failed_ns=rows.at_ns.max(where=rows.is_failure).over(before),
        went_ns=went_ns.over(before),
        went_here_ns=went_ns.over(here),
    )
    is_late = (rows.went_ns >= rows.failed_ns) & (rows.at_ns - rows.failed_ns > quiet_ns)
    # A broker that led since the last error and does not lead now: another change, however soon.
    is_deposed = (rows.went_here_ns >= rows.failed_ns) & (rows.cause == NOT_LEADER)
    is_over = is_late.coalesce(False) | is_deposed.coalesce(False)
    is_new = rows.is_failure & (rows.failed_ns.isnull() | is_over)
    return rows.mutate(episode=is_new.cast("int64").sum().over(to_here))


def tried(rows: "ir.Table") -> "ir.Table":
    """Attempts on partitions, their success, and their time (`at_ns`)."""
    import ibis

    client = ibis.window(group_by=("place", "client"), order_by="exchange_id")
    at = rows.at_broker
    rows = rows.mutate(next_broker=at.lead().over(client), broker_before=at.lag().over(client))
    # A missing response alone proves nothing; a client that then moves shows the broker left.
    is_left = is_unanswered(rows) & (rows.next_broker != rows.at_broker).coalesce(False)
    # A session may have been told to forget the partition: then the client has moved elsewhere.
    is_left &= rows.is_named | (rows.broker_before == rows.at_broker).coalesce(False)
    is_left &= rows.access != "metadata"
    is_refused = rows.error.isin(OF_LEADERSHIP).coalesce(False)
    # A partition left out of an incremental fetch response has no error and no new data.
    is_unmentioned = rows.error_code.isnull() & (rows.exchange_code.coalesce(0) == 0)
    is_ok = (rows.outcome == "answered") & ((rows.error_code == 0) | is_unmentioned)
    is_failure = is_refused | is_left
    return rows.select(
        "exchange_id", "place", "client", "at_broker",
        is_failure=is_failure,
        is_ok=is_ok.coalesce(False),
        cause=ibis.cases((is_left, UNANSWERED), (is_refused, rows.error), else_=None),
        at=is_left.ifelse(rows.request_start, rows.response_start),
        # A fetch was accepted when it began to wait.
        at_ns=ibis.cases(
            (is_left, rows.request_start_ns),
            (is_failure, rows.response_start_ns),
            else_=rows.response_start_ns - rows.wait_ns.coalesce(0),
        ),
        answered_ns=rows.response_start_ns,
        packet=is_left.ifelse(rows.request_packet, rows.response_packet),
    )  # fmt: skip


def where_something_fails(rows: "ir.Table") -> "ir.Table":
    """The rows of partitions that have an attempt which may be a failure; most have none.

    Topics without a name on the wire are excluded.
    """
    may_fail = rows.error.isin(OF_LEADERSHIP) | (is_unanswered(rows) & (rows.access != "metadata"))
    failing = rows.filter(may_fail.fill_null(False)).select(*PLACE)
    return rows.semi_join(failing.distinct(), PLACE)


def reached(tables: Tables) -> "ir.Table":
    """Partitions of the exchanges that need the leader, or name it."""
    exchanges, partitions = tables["exchanges"], tables["partitions"]
    asked = exchanges.filter(exchanges.api.isin(["Produce", "Fetch", "Metadata"]))
    partitions = partitions.select(
        "exchange_id", "partition", "error_code", "error",
        topic=partitions.topic.coalesce(partitions.topic_id),
    )  # fmt: skip
    named = partitions.inner_join(with_access(asked), "exchange_id").mutate(is_named=True)
    left = left_in_sessions(exchanges, named).select(*named.columns)
    # Endpoints are joined last: a table of all exchanges with their names is large.
    return with_ends(tables, named).union(with_ends(tables, left))


def with_access(exchanges: "ir.Table") -> "ir.Table":
    """Exchanges with the kind of access that they are."""
    import ibis

    return exchanges.select(
        "exchange_id", "connection_id", "client_id", "outcome", "decode_status", "wait_ns",
        "request_start", "request_start_ns", "response_start", "response_start_ns",
        "request_packet", "response_packet",
        exchange_code=exchanges.error_code,
        access=ibis.cases(
            (exchanges.api == "Produce", "produce"),
            (exchanges.api == "Metadata", "metadata"),
            (is_follower(exchanges), "replicate"),
            else_="fetch",
        ),
    )  # fmt: skip


def left_in_sessions(exchanges: "ir.Table", named: "ir.Table") -> "ir.Table":
    """Partitions not named by fetches without a response, but by earlier fetches on the connection.

    Requests of a fetch session name only changed partitions.
    """
    import ibis

    left = with_access(exchanges.filter(exchanges.api == "Fetch", is_unanswered(exchanges)))
    places = named.select("connection_id", "topic", "partition").distinct()
    rows = left.inner_join(places, "connection_id")
    unnamed = rows.anti_join(named, ["exchange_id", "topic", "partition"])
    return unnamed.mutate(error_code=ibis.null("int16"), error=ibis.null("string"), is_named=False)


QUESTION: Final = Question(
    "failovers",
    "Which partitions could not be written or read, for how long, and which brokers led?",
    ("connections", "exchanges", "partitions"),
    COLUMNS,
    failovers,
    (QUIET,),
    (
        "kdissect failovers broker.pcap",
        "kdissect failovers broker.pcap --where \"client_id not like 'broker-%'\"",
    ),
)
