"""Which follower's fetch was the last to pass the batches of a produce request.

A follower that asks for an offset has everything before it, so with acks=all the leader answers
when every follower in sync has asked for more than the last record's offset. The fetch that did so
last is the one that the producer waited for. When the answer comes although a follower that was
in sync has not asked, the leader has given it up: until then the producer waited for that one.
"""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.question import Tables

if TYPE_CHECKING:
    import ibis.expr.types as ir

ALL: Final = -1  # acks
PLACE: Final = ("topic", "partition", "follower")


def last_followers(tables: Tables) -> "ir.Table":
    """Produce exchanges with acks=all: `follower` (broker id) that was waited for last, and
    `passed_ns`: when it passed, or when it was given up (`is_given_up`).

    Those of which no follower was seen are no rows.
    """
    copies = follower_fetches(tables)
    batches = produced_batches(tables)
    followers = copies.select(*PLACE).distinct()
    wanted = batches.inner_join(followers, ["topic", "partition"])
    passed = first_passes(wanted, copies)
    is_in_time = passed.passed_ns.between(passed.request_start_ns, passed.response_start_ns)
    rows = with_given_up(passed.mutate(is_in_time=is_in_time.coalesce(False)))
    waited = rows.filter(rows.is_in_time | rows.is_given_up).mutate(
        passed_ns=rows.is_in_time.ifelse(rows.passed_ns, rows.response_start_ns)
    )
    return waited.group_by("exchange_id").aggregate(
        follower=waited.follower.argmax(waited.passed_ns),
        passed_ns=waited.passed_ns.max(),
        is_given_up=waited.is_given_up.any(),
    )


def with_given_up(rows: "ir.Table") -> "ir.Table":
    """Batches and followers with `is_given_up`: sent while it was in sync, answered without it.

    A follower is in sync when it was in time for the batch before. The first answer without it says
    that it is not any more; what was sent before that waited for it, too. Fetches may be missing in
    the capture: the others must leave the greater part of the wait unexplained.
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
    """Topic, partition and offset of each fetch of a broker, and when it was sent."""
    exchanges, partitions = tables["all_exchanges"], tables["all_partitions"]
    fetches = exchanges.filter(exchanges.api == "Fetch", exchanges.replica_id.notnull())
    sent = fetches.select(
        "exchange_id", follower=fetches.replica_id, time_ns=fetches.request_end_ns
    )
    asked = partitions.filter(partitions.fetch_offset.notnull(), partitions.topic.notnull())
    offsets = asked.select("exchange_id", "topic", "partition", offset=asked.fetch_offset)
    return offsets.inner_join(sent, "exchange_id").drop("exchange_id")


def produced_batches(tables: Tables) -> "ir.Table":
    """Topic, partition and next offset of what was produced with acks=all and kept."""
    exchanges, partitions = tables["exchanges"], tables["partitions"]
    produces = exchanges.filter(exchanges.api == "Produce", exchanges.acks == ALL)
    times = produces.select("exchange_id", "request_start_ns", "response_start_ns")
    kept = partitions.filter(
        partitions.error_code == 0, partitions.base_offset >= 0, partitions.record_count > 0
    )
    offsets = kept.select(
        "exchange_id", "topic", "partition", offset=kept.base_offset + kept.record_count
    )
    return offsets.inner_join(times, "exchange_id")


def first_passes(wanted: "ir.Table", copies: "ir.Table") -> "ir.Table":
    """`wanted` with the time of the first fetch of its follower that asked for its offset or more.

    One sort instead of a comparison of all with all: from the highest offset down, the earliest
    time so far is that of the first fetch at this offset or above.
    """
    import ibis

    columns = ["exchange_id", "request_start_ns", "response_start_ns"]
    marks = wanted.select(
        *PLACE, *columns, "offset", time_ns=ibis.null("int64"), is_wanted=ibis.literal(1)
    )
    passes = copies.select(
        *PLACE,
        **{name: ibis.null("int64") for name in columns},
        offset=copies.offset,
        time_ns=copies.time_ns,
        is_wanted=ibis.literal(0),
    )
    both = passes.union(marks)
    down = ibis.cumulative_window(
        group_by=list(PLACE), order_by=[ibis.desc(both.offset), both.is_wanted]
    )
    placed = both.mutate(passed_ns=both.time_ns.min().over(down))
    return placed.filter(placed.is_wanted == 1)
