"""Actions of each member in each rebalance of its group, and whether they caused it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.group_events import GROUP, REBALANCE, SETTLED, STATIC_LEAVE

if TYPE_CHECKING:
    import ibis.expr.types as ir

TURN: Final = (*REBALANCE, "is_emptied")
# Columns of the event that causes a rebalance.
TRIGGER: Final = ("trigger", "reason", "exchange_id", "request_packet")
# Columns of the acting member.
WHO: Final = ("client_id", "member_id", "group_instance_id", "connection_id")
# Reasons sent by Java clients (KIP-800), part of the reason → the cause.
REASONS: Final = {
    "%poll timeout has expired%": "max poll exceeded",
    "%removed by an admin%": "removed",
    "%metadata has changed%": "metadata change",
    "%subscription has changed%": "subscription change",
    "%need to revoke partitions%": "cooperative step",
    "%followup rebalance%": "cooperative step",
}


def participations(events: "ir.Table") -> "ir.Table":
    """A row for each member in each rebalance; `is_emptied`: the group is empty afterwards.

    `is_new`: was not in the group before. `is_unasked`: joined without being told to rebalance.
    `left_after`: it leaves before it takes part in another one. `trigger` is the cause if it is the
    member's, `trigger_place` its place in time.
    """
    events = with_triggers(events)
    # A static member's leave causes no new assignment.
    events = events.filter((events.event != "leave") | (events.said.fill_null(0) != STATIC_LEAVE))
    is_settled = events.is_ok & events.event.isin(SETTLED)
    is_end = is_settled & events.event.isin(["sync", "assign", "join", "owned", "epoch"])
    is_end &= (events.kind != "classic") | (events.event == "sync")
    is_join = (events.kind == "classic") & (events.event == "join")
    # In a classic group the leader assigns.
    is_own = (events.kind != "classic") | (events.event != "assign")
    # A member that leaves and returns with the same id does both, in that order.
    before: dict[str, Any] = {"group_by": [*REBALANCE, "owner"], "order_by": "place"}
    left = events.is_left.cast("int32").sum().over(**before, rows=(None, -1))
    events = events.mutate(left=left.coalesce(0))
    members = events.group_by([*REBALANCE, "owner", "left"]).aggregate(
        kind=events.kind.max(),
        protocol=(events.kind == "classic").ifelse(events.protocol, None).max(),
        place=events.place.min(),
        start_ns=events.sent_ns.min(),
        end_ns=is_end.ifelse(events.answered_ns, None).max(),
        start=events.sent.min(),
        end=is_end.ifelse(events.answered, None).max(),
        is_new=events.is_new.argmin(events.place),
        is_member=is_settled.max(),
        is_unasked=(is_join & events.is_ok).argmin(events.place),
        is_told=(events.error == "REBALANCE_IN_PROGRESS").fill_null(False).max(),
        is_gone=events.is_left.max(),
        left_after=events.leaves_next.argmax(events.place),
        trigger_place=events.trigger.notnull().ifelse(events.place, None).min(),
        **{
            name: events[name].argmin(events.place, where=events.trigger.notnull())
            for name in TRIGGER
        },
        **{
            f"by_{name}": events[name].argmin(events.place, where=events.trigger.notnull())
            for name in WHO
        },
        **{name: events[name].argmax(events.place, where=is_own) for name in WHO},
    )
    goes_on = members.is_member & ~members.is_new
    staying = goes_on.cast("int32").sum().over(group_by=REBALANCE)
    is_emptied = members.is_gone & (staying == 0) & members.generation.notnull()
    return members.mutate(is_emptied=is_emptied)


def with_triggers(events: "ir.Table") -> "ir.Table":
    """Events with `trigger`, the cause that each is, else null."""
    import ibis

    own: dict[str, Any] = {"group_by": [*GROUP, "owner"], "order_by": "place"}
    earlier = events.event.lag().over(**own)
    # Members in the group's first captured generation may have joined earlier.
    is_later = events.generation > events.own.min().over(group_by=GROUP)
    is_known = is_later.fill_null(True) | (events.generation == 1) | (events.kind != "classic")
    is_knocking = events.error == "MEMBER_ID_REQUIRED"
    is_fresh = earlier.isnull() | (earlier == "leave")
    is_join = (events.event == "join") & (events.owner != "")
    earlier_member = events.member_id.lag().over(**own)
    is_away = (events.said.lag().over(**own) == STATIC_LEAVE).fill_null(False)
    is_return = is_join & (earlier_member != events.member_id) & ~is_fresh
    is_return = (is_return | (is_join & is_away)) & events.group_instance_id.notnull()
    # The group continued without it: it is no longer a member, and joins like any other.
    is_expelled = (events.own.max().over(**own, rows=(None, -1)) < events.reached).fill_null(False)
    is_new = is_fresh & is_join & (is_known | is_knocking.fill_null(False)) & ~is_away
    events = events.mutate(
        is_new=(is_new | (is_return & is_expelled)).fill_null(False),
        is_return=(is_return & ~is_expelled).fill_null(False),
        is_other=is_other_subscription(events),
        leaves_next=leaves_before_it_settles(events, own),
    )
    said = ibis.cases(*[(events.reason.like(text), cause) for text, cause in REASONS.items()])
    is_leave = events.is_left & (events.said.fill_null(0) != STATIC_LEAVE)
    return events.mutate(
        trigger=ibis.cases(
            (events.is_return, "static restart"),
            (is_leave, said.coalesce("leave")),
            (events.is_new, "join"),
            ((events.event == "subscribe") | events.is_other, "subscription change"),
            (is_join & (events.kind == "classic"), said),
            # When fenced, it rejoins with the same id.
            (is_join & events.is_ok, "join"),
        )
    )


def leaves_before_it_settles(events: "ir.Table", own: dict[str, Any]) -> "ir.BooleanValue":
    """Return whether a member leaves next, even if it hears of a rebalance before."""
    later = {**own, "rows": (1, None)}
    is_settled = events.is_ok & events.event.isin(SETTLED)
    settles = is_settled.ifelse(events.place, None).min().over(**later)
    leaves = (events.event == "leave").ifelse(events.place, None).min().over(**later)
    return (leaves < settles.coalesce(leaves + 1)).fill_null(False)


def is_other_subscription(events: "ir.Table") -> "ir.BooleanValue":
    """Return whether a heartbeat (new protocols) names other topics than the last naming any."""
    is_told = events.subscription.notnull()
    own: dict[str, Any] = {"group_by": [*GROUP, "owner", is_told], "order_by": "place"}
    earlier = events.subscription.lag().over(**own)
    is_other = (
        (events.kind != "classic") & (events.event != "join") & (events.subscription != earlier)
    )
    return is_other.fill_null(False)


def joined_back(rows: "ir.Table", more: "ir.Table", keys: Sequence[str]) -> "ir.Table":
    """Rows joined with another table's columns on the same keys, including null keys."""
    same = [rows[key].identical_to(more[key]) for key in keys]
    joined = rows.left_join(more, same)
    return joined.drop(*[f"{key}_right" for key in keys])
