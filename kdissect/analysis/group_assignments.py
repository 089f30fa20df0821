"""Partition assignments of group members, with start and end times.

A member holds its assignment until it is assigned otherwise or leaves; with an eager assignor
until it rejoins, for which it revokes everything. Partitions of a member that falls silent
end with its connection to the coordinator.
"""

from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.group_events import GROUP, REBALANCE, STATIC_LEAVE
from kdissect.analysis.group_members import WHO
from kdissect.analysis.question import Tables

if TYPE_CHECKING:
    import ibis.expr.types as ir

# Classic protocols whose members keep partitions across rebalances, beside cooperative-...
COOPERATIVE: Final = ("stream", "sessioned", "compatible")
# Standby and warmup tasks of Streams are copies; partitions that Connect revokes are given up.
NOT_HELD: Final = r" ?\b(standby|warmup|revoked) .*$"
PARTITIONS: Final = r"^.+:[0-9,]+$"


def holdings(events: "ir.Table", tables: Tables) -> "ir.Table":
    """A row for each assignment of a partition, with the columns of REBALANCE.

    `held_by` had it before, until `free_ns`: both null when unknown; `is_silent`: the previous
    owner did not revoke it, and had been silent when the new owner was answered, at `got_ns`;
    `held_client_id` and the like describe it. Share groups have none: members share partitions.
    """
    held = partitions_of(states(events, tables))
    own: dict[str, Any] = {"group_by": [*GROUP, "topic_partition"], "order_by": "got_ns"}
    held_next_ns = held.next_ns.lag().over(**own)
    is_unheard = held_next_ns.isnull() | (held_next_ns > held.got_ns)
    return held.mutate(
        held_by=held.owner.lag().over(**own),
        free_ns=held.until_ns.lag().over(**own),
        is_silent=is_unheard | held.is_away.lag().over(**own).fill_null(False),
        **{f"held_{name}": held[name].lag().over(**own) for name in WHO},
    )


def states(events: "ir.Table", tables: Tables) -> "ir.Table":
    """Assignments of members with start and end times."""
    import ibis

    is_classic = events.kind == "classic"
    assigned = events.is_ok & ibis.ifelse(
        is_classic, events.event == "sync", events.event.isin(["join", "assign"])
    )
    is_cooperative = events.protocol.isin(COOPERATIVE) | events.protocol.startswith("cooperative")
    given_up = is_classic & (events.event == "join") & ~is_cooperative
    # A join rejected for lack of a member id: it was in no group yet.
    given_up &= events.error.isnull()
    rows = events.filter(events.kind != "share", assigned | given_up | events.is_left)
    rows = rows.mutate(
        assigned=assigned.ifelse(events.assignment, None),
        got_ns=assigned.ifelse(events.answered_ns, events.sent_ns),
    )
    ends = tables["connections"].select("connection_id", silent_ns="last_time_ns")
    rows = rows.left_join(ends, "connection_id").drop("connection_id_right")
    own: dict[str, Any] = {"group_by": [*GROUP, "owner"], "order_by": ["got_ns", "place"]}
    next_ns, next_member = rows.got_ns.lead().over(**own), rows.member_id.lead().over(**own)
    is_gone = next_ns.isnull() | (next_member != rows.member_id).fill_null(False)
    return rows.mutate(
        until_ns=is_gone.ifelse(ibis.least(next_ns, rows.silent_ns), next_ns),
        next_ns=next_ns,
        is_away=(rows.said.lead().over(**own) == STATIC_LEAVE).fill_null(False),
    )


def partitions_of(rows: "ir.Table") -> "ir.Table":
    """A row for each partition of an assignment, `topic_partition` like ``orders:3``."""
    rows = rows.filter(rows.assigned.notnull())
    words = rows.select(
        *REBALANCE, *WHO, "owner", "got_ns", "until_ns", "next_ns", "is_away",
        word=rows.assigned.re_replace(NOT_HELD, "").split(" ").unnest(),
    )  # fmt: skip
    words = words.filter(words.word.re_search(PARTITIONS))
    topic = words.word.re_replace(r":[0-9,]+$", "")
    numbers = words.mutate(topic=topic, number=words.word.re_replace(r"^.+:", "").split(","))
    parts = numbers.mutate(number=numbers.number.unnest())
    return parts.mutate(topic_partition=parts.topic + ":" + parts.number).drop(
        "word", "topic", "number"
    )
