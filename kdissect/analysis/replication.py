"""Follower whose fetch was the last to pass the batches of a produce request.

A follower that requests an offset has everything before it, so with acks=all the leader responds
when every in-sync follower has requested an offset above the last record's. The producer waited
for the last such fetch. When the response comes although an in-sync follower has not fetched, the
leader has given it up: until then the producer waited for that follower.
"""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.consumption import named
from kdissect.analysis.question import Tables

if TYPE_CHECKING:
    import ibis.expr.types as ir

ALL: Final = -1  # acks
PLACE: Final = ("topic", "partition", "follower")


def last_followers(tables: Tables) -> "ir.Table":
    """Produce exchanges with acks=all: `follower` (broker id) that was waited for last, of equals
    the lowest id, and `passed_ns`: when it passed, or when it was given up (`is_given_up`).

    Exchanges without a captured follower have no row.
    """
    replicas = follower_fetches(tables)
    batches = produced_batches(tables)
    followers = replicas.select(*PLACE).distinct()
    wanted = batches.inner_join(followers, ["topic", "partition"])
    passed = first_passes(wanted, replicas)
    is_in_time = passed.passed_ns.between(passed.request_start_ns, passed.response_start_ns)
    rows = with_given_up(passed.mutate(is_in_time=is_in_time.coalesce(False)))
    waited = rows.filter(rows.is_in_time | rows.is_given_up).mutate(
        passed_ns=rows.is_in_time.ifelse(rows.passed_ns, rows.response_start_ns)
    )
    last_ns = waited.passed_ns.max().over(group_by="exchange_id")
    waited = waited.mutate(is_last=waited.passed_ns == last_ns)
    return waited.group_by("exchange_id").aggregate(
        follower=waited.follower.min(where=waited.is_last),  # several can be given up at once
        passed_ns=waited.passed_ns.max(),
        is_given_up=waited.is_given_up.any(),
    )


def with_given_up(rows: "ir.Table") -> "ir.Table":
    """Batches and followers with `is_given_up`: sent while it was in sync, answered without it.

    A follower is in sync when it was in time for the previous batch. The first response without it
    shows that it no longer is; earlier batches waited for it, too. Fetches may be missing in the
    capture: the other followers must leave the greater part of the wait unexplained.
    """
    import ibis

    to_here = ibis.window(
        group_by=PLACE, order_by=["request_start_ns", "exchange_id"], preceding=None, following=0
    )
    rows = rows.mutate(times=rows.is_in_time.cast("int64").sum().over(to_here))
    same = ibis.window(group_by=(*PLACE, "times"))
    answered_ns = rows.is_in_time.ifelse(None, rows.response_start_ns)
    rows = rows.mutate(given_up_ns=answered_ns.min().over(same))
    in_time_ns = rows.is_in_time.ifelse(rows.passed_ns, None).max().over(group_by="exchange_id")
    explained_ns = in_time_ns.coalesce(rows.request_start_ns) - rows.request_start_ns
    wait_ns = rows.response_start_ns - rows.request_start_ns
    is_late = (rows.times > 0) & ~rows.is_in_time & (rows.request_start_ns < rows.given_up_ns)
    return rows.mutate(is_given_up=is_late & (wait_ns > 2 * explained_ns))


def follower_fetches(tables: Tables) -> "ir.Table":
    """Topic, partition and offset of each fetch of a broker, and its request time."""
    exchanges, partitions = tables["all_exchanges"], named(tables["all_partitions"])
    fetches = exchanges.filter(exchanges.api == "Fetch", exchanges.replica_id.notnull())
    sent = fetches.select(
        "exchange_id", follower=fetches.replica_id, time_ns=fetches.request_end_ns
    )
    asked = partitions.filter(partitions.fetch_offset.notnull(), partitions.topic.notnull())
    offsets = asked.select("exchange_id", "topic", "partition", offset=asked.fetch_offset)
    return offsets.inner_join(sent, "exchange_id").drop("exchange_id")


def produced_batches(tables: Tables) -> "ir.Table":
    """Topic, partition and next offset of batches produced with acks=all without an error."""
    exchanges, partitions = tables["exchanges"], named(tables["partitions"])
    produces = exchanges.filter(exchanges.api == "Produce", exchanges.acks == ALL)
    times = produces.select("exchange_id", "request_start_ns", "response_start_ns")
    kept = partitions.filter(
        partitions.error_code == 0, partitions.base_offset >= 0, partitions.record_count > 0
    )
    offsets = kept.select(
        "exchange_id", "topic", "partition", offset=kept.base_offset + kept.record_count
    )
    return offsets.inner_join(times, "exchange_id")


def first_passes(wanted: "ir.Table", replicas: "ir.Table") -> "ir.Table":
    """`wanted` with the time of the first fetch of its follower with the same or a higher offset.

    One sort instead of comparing all pairs: from the highest offset down, the running minimum of
    the time is that of the first fetch at this offset or above.
    """
    import ibis

    columns = ["exchange_id", "request_start_ns", "response_start_ns"]
    marks = wanted.select(
        *PLACE, *columns, "offset", time_ns=ibis.null("int64"), is_wanted=ibis.literal(1)
    )
    passes = replicas.select(
        *PLACE,
        **{name: ibis.null("int64") for name in columns},
        offset=replicas.offset,
        time_ns=replicas.time_ns,
        is_wanted=ibis.literal(0),
    )
    both = passes.union(marks)
    down = ibis.cumulative_window(
        group_by=list(PLACE), order_by=[ibis.desc(both.offset), both.is_wanted]
    )
    placed = both.mutate(passed_ns=both.time_ns.min().over(down))
    return placed.filter(placed.is_wanted == 1)
