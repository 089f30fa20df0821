"""Produced data, and what consumers fetched of it: offsets and times by topic and partition.

A Fetch does not name its group. The group is taken from exchanges that do, on the same connection,
else from the same address and client id; null when those name none, or more than one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.brokers import is_follower
from kdissect.analysis.question import Tables

if TYPE_CHECKING:
    import ibis.expr.types as ir

# APIs in which only members of a group, and clients that commit for it, name it.
OF_MEMBERS: Final = (
    "JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "TxnOffsetCommit",
    "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat", "ShareGroupHeartbeat", "ShareFetch",
)  # fmt: skip
FETCHES: Final = ("Fetch", "ShareFetch")
PARTITION: Final = ("topic", "partition")
PRODUCE: Final = "produce"
BATCH_TIME: Final = "batch time"


def with_group(tables: Tables, exchanges: "ir.Table") -> "ir.Table":
    """Exchanges with `client_ip` and `group`."""
    ends = tables["connections"].select("connection_id", "client_ip")
    placed = exchanges.left_join(ends, "connection_id").drop("connection_id_right")
    known = tables["all_exchanges"].left_join(ends, "connection_id").drop("connection_id_right")
    known = known.filter(known.api.isin(OF_MEMBERS), known.group_id.notnull())
    found = placed
    for name, keys in (("own", ["connection_id"]), ("near", ["client_ip", "client_id"])):
        groups = known.group_by(keys).aggregate(
            count=known.group_id.nunique(), only=known.group_id.min()
        )
        one = groups.filter(groups["count"] == 1).select(*keys, **{name: groups.only})
        found = found.left_join(one, keys).drop(*[f"{key}_right" for key in keys])
    return found.mutate(group=found.group_id.coalesce(found.own, found.near)).drop("own", "near")


def consumer_fetches(tables: Tables) -> "ir.Table":
    """The answered fetches of clients other than brokers, with their group."""
    exchanges = tables["exchanges"]
    of_client = ~is_follower(exchanges)
    fetches = exchanges.filter(exchanges.api.isin(FETCHES), of_client)
    return with_group(tables, fetches)


def named(rows: "ir.Table") -> "ir.Table":
    """Rows with the topic's id where its name is unknown."""
    return rows.mutate(topic=rows.topic.coalesce(rows.topic_id))


def produced(tables: Tables) -> "ir.Table":
    """Runs of offsets from a broker: first_offset to last_offset, request and response time."""
    parts, exchanges = named(tables["partitions"]), tables["exchanges"]
    sent = exchanges.filter(exchanges.api == "Produce").select(
        "exchange_id",
        sent_ns="request_start_ns",
        answered_ns="response_end_ns",
        producer="client_id",
    )
    given = parts.filter(parts.base_offset >= 0, parts.error.isnull()).inner_join(
        sent, "exchange_id"
    )
    # The number of messages in a wrapper is unknown until they are unpacked.
    count = given.record_count.coalesce(1)
    return given.select(
        "topic", "partition", "sent_ns", "answered_ns", "producer",
        first_offset=given.base_offset,
        last_offset=given.base_offset + (count > 0).ifelse(count, 1) - 1,
    )  # fmt: skip


def fetched(tables: Tables) -> "ir.Table":
    """Batches in responses to fetches of any client, with offsets and first timestamp."""
    batches, exchanges = named(tables["batches"]), tables["exchanges"]
    fetches = exchanges.filter(exchanges.api.isin(FETCHES)).select("exchange_id")
    rows = batches.filter(~batches.is_control.fill_null(False)).inner_join(fetches, "exchange_id")
    # A record batch with unset timestamps has times before 1970.
    time_ns = rows.base_time_ns.coalesce(rows.max_time_ns)
    return rows.select(
        "exchange_id", "topic", "partition", "record_count",
        first_offset="base_offset",
        last_offset="last_offset",
        base_ns=(time_ns > 0).ifelse(time_ns, None),
        is_aborted=rows.is_aborted.fill_null(False),
    )  # fmt: skip


def with_run(rows: "ir.Table", offset: str, runs: "ir.Table", columns: Sequence[str]) -> "ir.Table":
    """Rows with the columns of the run that contains their offset; null without a run.

    Sorted and carried forward rather than joined by range, which compares each row with each run.
    """
    import ibis

    place = [*PARTITION, "at_offset"]
    runs = runs.group_by([*PARTITION, "first_offset"]).aggregate(
        **{name: runs[name].max() for name in ("last_offset", *columns)}
    )
    starts = runs.select(
        *PARTITION, "last_offset", *columns, at_offset="first_offset", is_asked=ibis.literal(0)
    )
    asked = rows.filter(rows[offset].notnull()).select(*PARTITION, at_offset=offset).distinct()
    types = starts.schema()
    asked = asked.mutate(
        is_asked=ibis.literal(1),
        **{name: ibis.null(types[name]) for name in ("last_offset", *columns)},
    )
    both = starts.union(asked.select(starts.columns))
    on: dict[str, Any] = {"group_by": PARTITION, "order_by": ["at_offset", "is_asked"]}
    both = both.mutate(run=(1 - both.is_asked).sum().over(**on, rows=(None, 0)))
    of_run = [*PARTITION, "run"]
    both = both.mutate(
        **{name: both[name].max().over(group_by=of_run) for name in ("last_offset", *columns)}
    )
    found = both.filter(both.is_asked == 1, both.at_offset <= both.last_offset)
    found = found.select(*place, *columns)
    keys = [*[(name, name) for name in PARTITION], (offset, "at_offset")]
    same = [rows[own] == found[other] for own, other in keys]
    joined = rows.left_join(found, same)
    return joined.drop("at_offset", *[f"{name}_right" for name in PARTITION])


def with_made(rows: "ir.Table", offset: str, tables: Tables) -> "ir.Table":
    """Rows with the produce time of the record at their offset, `made_ns`, and `made_by`."""
    import ibis

    rows = with_run(rows, offset, produced(tables), ["sent_ns"])
    rows = with_run(rows, offset, fetched(tables), ["base_ns"])
    # A captured Produce is more reliable than a producer's clock.
    made_by = ibis.cases((rows.sent_ns.notnull(), PRODUCE), (rows.base_ns.notnull(), BATCH_TIME))
    return rows.mutate(made_ns=rows.sent_ns.coalesce(rows.base_ns), made_by=made_by).drop(
        "sent_ns", "base_ns"
    )
