"""Partition assignments of group members, with start and end times.

A member holds its assignment until it is assigned otherwise or leaves; with an eager assignor
until it rejoins, for which it revokes everything. Partitions of a member that falls silent
end with its connection to the coordinator. What members have whose connections were not captured is
known of those generations of a classic group whose leader, which assigns, was.
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

    `held_by` had it before, until `free_ns`: both null when unknown, and `free_ns` where members
    that were not captured may have had it meanwhile. `is_silent`: the previous owner did not revoke
    it, and had been silent when the new owner was answered, at `got_ns`;
    `held_client_id` and the like describe it. Share groups have none: members share partitions.
    """
    held = partitions_of(states(events, tables))
    own: dict[str, Any] = {"group_by": [*GROUP, "topic_partition"], "order_by": "got_ns"}
    held_next_ns = held.next_ns.lag().over(**own)
    is_unheard = held_next_ns.isnull() | (held_next_ns > held.got_ns)
    # Generations without it, and those of them with all assignments known.
    without = held.generation - held.given_up_in.lag().over(**own)
    known = held.led - held.given_up_led.lag().over(**own)
    # The group of a last member that is gone is empty for a generation.
    allowed = (held.is_gradual | held.is_last.lag().over(**own)).cast("int64")
    is_known = (without <= known + allowed).fill_null(False)
    return held.mutate(
        held_by=held.owner.lag().over(**own),
        free_ns=is_known.ifelse(held.until_ns.lag().over(**own), None),
        is_silent=is_unheard | held.is_away.lag().over(**own).fill_null(False),
        **{f"held_{name}": held[name].lag().over(**own) for name in WHO},
    )


def states(events: "ir.Table", tables: Tables) -> "ir.Table":
    """Assignments of members with start and end times.

    A partition is `given_up_in` a generation; `led` of those before its own have a known leader,
    `given_up_led` of those before the other. `is_gradual`: one generation may be without it.
    `is_last`: the member's last assignment.
    """
    import ibis

    events = with_led(events)
    is_classic = events.kind == "classic"
    assigned = events.is_ok & ibis.ifelse(
        is_classic, events.event == "sync", events.event.isin(["join", "assign"])
    )
    given_up = is_classic & (events.event == "join") & ~is_cooperative_protocol(events)
    # A join rejected for lack of a member id: it was in no group yet.
    given_up &= events.error.isnull()
    # Assignments by the leader to a member whose own request was not captured.
    of_member: dict[str, Any] = {"group_by": [*REBALANCE, "owner"]}
    has_own = (is_classic & (events.event == "sync")).any().over(**of_member)
    is_told = is_classic & (events.event == "assign") & events.is_ok & ~has_own
    events = events.mutate(assigned=(assigned | is_told), is_told=is_told, given_up=given_up)
    is_change = events.assigned | events.given_up | events.is_left
    rows = events.filter(events.kind != "share", is_change)
    rows = rows.mutate(
        assigned=rows.assigned.ifelse(rows.assignment, None),
        got_ns=rows.assigned.ifelse(rows.answered_ns, rows.sent_ns),
        is_gradual=(rows.kind == "classic")
        & is_cooperative_protocol(rows).any().over(group_by=GROUP).fill_null(False),
        **{name: rows.is_told.ifelse(None, rows[name]) for name in ("client_id", "connection_id")},
    )
    ends = tables["connections"].select("connection_id", silent_ns="last_time_ns")
    rows = rows.left_join(ends, "connection_id").drop("connection_id_right")
    own: dict[str, Any] = {"group_by": [*GROUP, "owner"], "order_by": ["got_ns", "place"]}
    next_ns, next_member = rows.got_ns.lead().over(**own), rows.member_id.lead().over(**own)
    is_gone = next_ns.isnull() | (next_member != rows.member_id).fill_null(False)
    next_generation = rows.generation.lead().over(**own)
    return rows.mutate(
        is_last=next_generation.isnull(),
        given_up_in=next_generation.coalesce(rows.generation + 1),
        given_up_led=next_generation.isnull().ifelse(
            rows.led + rows.is_led.cast("int64"), rows.led.lead().over(**own)
        ),
        until_ns=is_gone.ifelse(ibis.least(next_ns, rows.silent_ns), next_ns),
        next_ns=next_ns,
        is_away=(rows.said.lead().over(**own) == STATIC_LEAVE).fill_null(False),
    )


def is_cooperative_protocol(events: "ir.Table") -> "ir.BooleanValue":
    """Return whether classic members keep partitions across rebalances; null if not known."""
    return events.protocol.isin(COOPERATIVE) | events.protocol.startswith("cooperative")


def with_led(events: "ir.Table") -> "ir.Table":
    """Events with `led`, the generations before theirs whose leader's assignment is known."""
    keys = (*GROUP, "generation")
    is_classic = events.kind == "classic"
    # A member whose assignment is refused shows that the next rebalance began before any was made.
    is_refused = is_classic & (events.event == "sync") & ~events.is_ok
    is_assigned = is_classic & (events.event == "assign") & events.is_ok
    found = events.mutate(
        is_led=is_assigned | is_refused,
        generation=is_refused.ifelse(events.said, events.generation),
    )
    found = found.filter(found.generation.notnull())
    found = found.group_by(keys).aggregate(is_led=found.is_led.any())
    before: dict[str, Any] = {"group_by": GROUP, "order_by": "generation", "rows": (None, -1)}
    found = found.mutate(led=found.is_led.cast("int64").sum().over(**before).coalesce(0))
    return events.left_join(found, keys).drop(*[f"{key}_right" for key in keys])


def partitions_of(rows: "ir.Table") -> "ir.Table":
    """A row for each partition of an assignment, `topic_partition` like ``orders:3``."""
    rows = rows.filter(rows.assigned.notnull())
    words = rows.select(
        *REBALANCE, *WHO, "owner", "got_ns", "until_ns", "next_ns", "is_away", "given_up_in",
        "given_up_led", "led", "is_gradual", "is_last",
        word=rows.assigned.re_replace(NOT_HELD, "").split(" ").unnest(),
    )  # fmt: skip
    words = words.filter(words.word.re_search(PARTITIONS))
    topic = words.word.re_replace(r":[0-9,]+$", "")
    numbers = words.mutate(topic=topic, number=words.word.re_replace(r"^.+:", "").split(","))
    parts = numbers.mutate(number=numbers.number.unnest())
    return parts.mutate(topic_partition=parts.topic + ":" + parts.number).drop(
        "word", "topic", "number"
    )
