"""Lag: distance of consumer groups from the end of their partitions, over time."""

from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.consumption import (
    PARTITION,
    consumer_fetches,
    named,
    produced,
    with_group,
    with_made,
)
from kdissect.analysis.dimensions import DEFAULT_WINDOW_NS, WINDOW, window_of
from kdissect.analysis.question import FLAG, Option, Question, Tables
from kdissect.analysis.shared_columns import GROUP_ID
from kdissect.tables.schemas import INT32, INT64, TEXT, TIME, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

COLUMNS: Final = (
    GROUP_ID,
    Column("topic", TEXT, "", "topic"),
    Column("partition", INT32, "", "partition"),
    Column("window", TIME, "", "start of the time window; the other columns are as of its end"),
    Column("lag", INT64, "", "uncommitted records: end_offset - committed_offset"),
    Column("lag_time_ns", INT64, "ns", "age of the oldest of them; null: not known"),
    Column("undelivered", INT64, "",
        "records not delivered to a member: end_offset - delivered_offset"),
    Column("undelivered_time_ns", INT64, "ns", "age of the oldest of them"),
    Column("uncommitted", INT64, "",
        "delivered, not committed: delivered_offset - committed_offset"),
    Column("end_offset", INT64, "", "end of the partition, the highest seen so far"),
    Column("end_by", TEXT, "", "its source: fetch (high watermark), produce (assigned offset)"),
    Column("committed_offset", INT64, "", "last committed offset"),
    Column(
        "committed_by", TEXT, "",
        "OffsetCommit, OffsetFetch (read by a client), TxnOffsetCommit (its transaction committed)",
    ),
    Column(
        "delivered_offset", INT64, "",
        "offset after the last fetch response, or the fetch offset of a member since then",
    ),
    Column(
        "held_back", INT64, "",
        "records that open transactions keep from read_committed members: high watermark - last "
        "stable offset, in the last fetch response",
    ),
    Column("client_id", TEXT, "", "client id of the last commit or fetch"),
    Column("since", TEXT, "",
        "source of lag_time: produce (captured), batch time (producer's clock)"),
)  # fmt: skip
ROW: Final = ("group_id", *PARTITION)
BY_FETCH: Final = "fetch"
BY_PRODUCE: Final = "produce"
COMMITS: Final = ("OffsetCommit", "TxnOffsetCommit", "OffsetFetch")
LATEST: Final = Option("latest", FLAG, False, "Only the last window, the largest lag first.")


def lag(tables: Tables, window: int = DEFAULT_WINDOW_NS, latest: bool = False) -> "ir.Table":
    """A row for each partition of a group and each time window in which it was observed."""
    import ibis

    rows = carried(observed(tables, window))
    # Before the group's first observation, the ends of its partitions do not concern it.
    rows = rows.filter(rows.committed_offset.notnull() | rows.delivered_offset.notnull())
    if latest:
        last = ibis.row_number().over(group_by=ROW, order_by=ibis.desc("window"))
        rows = rows.mutate(from_last=last).filter(lambda t: t.from_last == 0)
    rows = with_ages(rows, tables)
    order = [ibis.desc("lag"), *ROW] if latest else [*ROW, "window"]
    return rows.select(*[column.name for column in COLUMNS]).order_by(order)


def observed(tables: Tables, window: int) -> "ir.Table":
    """Last observation in each window of groups' offsets, and of the ends of partitions.

    Groups and ends are aggregated apart, so that a partition's ends are not aggregated anew for
    each of its groups.
    """
    import ibis

    of_groups = last_offsets(commits(tables).union(positions(tables)), window)
    ends = last_ends(partition_ends(tables), window)
    of_ends = of_groups.select(*ROW).distinct().inner_join(ends, PARTITION)
    of_ends = of_ends.select(*ROW, *[name for name in ends.columns if name not in PARTITION])
    rows = of_groups.outer_join(of_ends, [*ROW, "window"], rname="{name}_of_end")
    keys = {name: rows[name].coalesce(rows[f"{name}_of_end"]) for name in (*ROW, "window")}
    last = ibis.greatest(rows.group_ns, rows.end_ns)
    values = ("fetched_end", "produced_end", *OF_GROUPS)
    return rows.select(**keys, last_ns=last, **{name: rows[name] for name in values})


def last_offsets(of_groups: "ir.Table", window: int) -> "ir.Table":
    """The last offsets of each group in each window."""
    rows = of_groups.filter(of_groups.group_id.notnull(), of_groups.topic.notnull())
    rows = rows.mutate(window=window_of(rows.at_ns, window))
    is_commit, is_fetch = rows.committed_offset.notnull(), rows.delivered_offset.notnull()
    is_client, is_held = rows.client_id.notnull(), rows.held_back.notnull()
    return rows.group_by([*ROW, "window"]).aggregate(
        group_ns=rows.at_ns.max(),
        committed_offset=rows.committed_offset.argmax(rows.at_ns, where=is_commit),
        committed_by=rows.committed_by.argmax(rows.at_ns, where=is_commit),
        delivered_offset=rows.delivered_offset.argmax(rows.at_ns, where=is_fetch),
        held_back=rows.held_back.argmax(rows.at_ns, where=is_held),
        client_id=rows.client_id.argmax(rows.at_ns, where=is_client),
    )


def last_ends(ends: "ir.Table", window: int) -> "ir.Table":
    """The last ends of each partition in each window."""
    rows = ends.mutate(window=window_of(ends.at_ns, window))
    by_fetch, by_produce = rows.end_by == BY_FETCH, rows.end_by == BY_PRODUCE
    return rows.group_by([*PARTITION, "window"]).aggregate(
        end_ns=rows.at_ns.max(),
        fetched_end=by_fetch.ifelse(rows.end_offset, None).max(),
        produced_end=by_produce.ifelse(rows.end_offset, None).max(),
    )


# Columns that are observed together.
OBSERVED: Final = (
    ("committed_offset", "committed_by"), ("delivered_offset",), ("held_back",), ("client_id",),
)  # fmt: skip
OF_GROUPS: Final = tuple(name for names in OBSERVED for name in names)


def commits(tables: Tables) -> "ir.Table":
    """Offsets that a group committed, or received as committed."""
    import ibis

    exchanges = tables["exchanges"]
    asked = with_group(tables, exchanges.filter(exchanges.api.isin(COMMITS)))
    asked = asked.select("exchange_id", "api", "client_id", "response_end_ns", "group")
    parts = named(tables["partitions"])
    parts = parts.filter(parts.committed_offset >= 0, parts.error.isnull())
    rows = parts.inner_join(asked, "exchange_id")
    return rows.filter(rows.response_end_ns.notnull()).select(
        "topic", "partition", "committed_offset", "client_id",
        group_id="group",
        at_ns="response_end_ns",
        committed_by="api",
        delivered_offset=ibis.null("int64"),
        held_back=ibis.null("int64"),
    ).select(*COMMON)  # fmt: skip


def positions(tables: Tables) -> "ir.Table":
    """Positions up to which members of groups had everything: their fetch offset, then the data
    received; and the data held back from them.
    """
    import ibis

    fetches = consumer_fetches(tables).select(
        "exchange_id", "client_id", "request_start_ns", "response_end_ns", "group"
    )
    parts, batches = named(tables["partitions"]), named(tables["batches"])
    asked = parts.filter(parts.fetch_offset >= 0).inner_join(fetches, "exchange_id")
    brought = batches.group_by(["exchange_id", *PARTITION]).aggregate(
        last_offset=batches.last_offset.max()
    )
    got = brought.inner_join(fetches, "exchange_id")
    asked = asked.mutate(at_ns=asked.request_start_ns, delivered_offset=asked.fetch_offset)
    got = got.mutate(at_ns=got.response_end_ns, delivered_offset=got.last_offset + 1)
    marked = asked.filter(asked.last_stable_offset >= 0, asked.high_watermark >= 0)
    marked = marked.mutate(
        at_ns=marked.response_end_ns,
        held_back=marked.high_watermark - marked.last_stable_offset,
        delivered_offset=ibis.null("int64"),
    )
    asked, got = (rows.mutate(held_back=ibis.null("int64")) for rows in (asked, got))
    columns = [*PARTITION, "delivered_offset", "held_back", "client_id", "at_ns"]
    each = [rows.select(*columns, group_id="group") for rows in (asked, got, marked)]
    rows = ibis.union(*each)
    return rows.mutate(
        committed_by=ibis.null("string"), committed_offset=ibis.null("int64")
    ).select(*COMMON)


COMMON: Final = (
    "group_id", "topic", "partition", "at_ns", "committed_offset", "committed_by",
    "delivered_offset", "held_back", "client_id",
)  # fmt: skip


def partition_ends(tables: Tables) -> "ir.Table":
    """Ends of partitions: high watermarks in any fetch response, and assigned offsets."""
    import ibis

    parts, exchanges = named(tables["partitions"]), tables["exchanges"]
    answered = exchanges.select("exchange_id", at_ns="response_end_ns")
    marked = parts.filter(parts.high_watermark >= 0).inner_join(answered, "exchange_id")
    marks = marked.select(
        *PARTITION, "at_ns", end_offset=marked.high_watermark, end_by=ibis.literal(BY_FETCH)
    )
    given = produced(tables)
    ends = given.select(
        *PARTITION,
        at_ns=given.answered_ns,
        end_offset=given.last_offset + 1,
        end_by=ibis.literal(BY_PRODUCE),
    )
    return marks.union(ends)


def carried(rows: "ir.Table") -> "ir.Table":
    """Windows with earlier values carried forward where none was observed, and the differences."""
    own: dict[str, Any] = {"group_by": ROW, "order_by": "window", "rows": (None, 0)}
    rows = rows.mutate(
        fetched_end=rows.fetched_end.max().over(**own),
        produced_end=rows.produced_end.max().over(**own),
        **{f"{names[0]}_heard": rows[names[0]].count().over(**own) for names in OBSERVED},
    )
    for names in OBSERVED:
        since = {"group_by": [*ROW, f"{names[0]}_heard"]}
        rows = rows.mutate({name: rows[name].max().over(**since) for name in names})
    return with_differences(rows)


def with_differences(rows: "ir.Table") -> "ir.Table":
    """Windows with lags; an offset committed or fetched exists, so the end is at least that."""
    import ibis

    ends = [rows.fetched_end, rows.produced_end]
    end, is_fetched = ibis.greatest(*ends), rows.fetched_end >= rows.produced_end.coalesce(0)
    reached = ibis.greatest(*ends, rows.committed_offset, rows.delivered_offset)
    rows = rows.mutate(
        end_offset=end.notnull().ifelse(reached, None),
        end_by=ibis.cases(
            (is_fetched.fill_null(False), BY_FETCH), (rows.produced_end.notnull(), BY_PRODUCE)
        ),
    )
    return rows.mutate(
        lag=rows.end_offset - rows.committed_offset,
        undelivered=rows.end_offset - rows.delivered_offset,
        uncommitted=rows.delivered_offset - rows.committed_offset,
    )


def with_ages(rows: "ir.Table", tables: Tables) -> "ir.Table":
    """Windows with the age of the first uncommitted and of the first undelivered record."""
    for count, offset in (("undelivered", "delivered_offset"), ("lag", "committed_offset")):
        is_behind = rows[count] > 0
        rows = with_made(
            rows.mutate(first_waiting=is_behind.ifelse(rows[offset], None)), "first_waiting", tables
        )
        age = (rows.last_ns > rows.made_ns).ifelse(rows.last_ns - rows.made_ns, 0)
        waited = rows.made_ns.notnull().ifelse(age, (rows[count] == 0).ifelse(0, None))
        rows = rows.mutate(**{f"{count}_time_ns": waited, "since": rows.made_by})
        rows = rows.drop("made_ns", "made_by", "first_waiting")
    return rows


QUESTION: Final = Question(
    "lag",
    "How far are consumer groups behind, in records and in time?",
    ("connections", "exchanges", "partitions", "batches", "all_exchanges"),
    COLUMNS,
    lag,
    (WINDOW, LATEST),
    (
        "kdissect lag broker.pcap --latest",
        "kdissect lag broker.pcap --window 1s",
        "kdissect lag broker.pcap --columns group_id,topic,partition,window,lag,lag_time_ns",
    ),
    derived=("group_id",),
)
