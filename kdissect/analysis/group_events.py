"""Events of groups, each with the rebalance that it is part of.

A rebalance is identified by the generation it leads to: in a classic group that of the JoinGroup
response, in others the member epoch that its members reach. Events without their own (a leave, a
refused heartbeat, a join sent back for a member id) belong to the next.
"""

from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.question import Tables

if TYPE_CHECKING:
    import ibis.expr.types as ir

# API → the kind of group that uses it.
KINDS: Final = {
    "JoinGroup": "classic",
    "SyncGroup": "classic",
    "Heartbeat": "classic",
    "LeaveGroup": "classic",
    "ConsumerGroupHeartbeat": "consumer",
    "ShareGroupHeartbeat": "share",
    "StreamsGroupHeartbeat": "streams",
}
# API calls that show membership when answered without an error.
SETTLED: Final = ("join", "assign", "sync", "owned", "subscribe", "epoch")
# Static members of KIP-848 groups that stop temporarily: they keep their partitions.
STATIC_LEAVE: Final = -2
GROUP: Final = ("group_id", "life")
REBALANCE: Final = (*GROUP, "generation", "again")
# A place in time and a number combined into one number, so that the first is a minimum.
PLACES: Final = 1 << 31


def group_events(tables: Tables) -> "ir.Table":
    """Events of members, in the order of `place`, with `owner` and the columns REBALANCE.

    `owner` holds partitions: the static member's instance id, else the member. `life` counts
    restarts of a group's generations, `again` the returns of a static member into
    a generation that it was in before. `generation` is null when none follows in the capture.
    """
    events = with_lives(in_order(tables))
    events = events.mutate(own=own_generation(events))
    before: dict[str, Any] = {"group_by": GROUP, "order_by": "place", "rows": (None, -1)}
    on: dict[str, Any] = {"group_by": GROUP, "order_by": "place", "rows": (0, None)}
    events = events.mutate(reached=events.own.max().over(**before))
    is_first = events.own.notnull() & (events.reached.isnull() | (events.own > events.reached))
    packed = is_first.ifelse(events.place * PLACES + events.own, None)
    following = packed.min().over(**on) % PLACES
    events = events.mutate(generation=events.own.coalesce(following.cast("int32")))
    return with_returns(events)


def in_order(tables: Tables) -> "ir.Table":
    """The events of groups in the order in which the broker received or reported them."""
    import ibis

    exchanges = tables["exchanges"].select(
        "exchange_id",
        "api",
        "request_packet",
        answered="response_end",
        answered_ns="response_end_ns",
    )
    events = tables["members"].inner_join(exchanges, "exchange_id")
    events = events.filter(events.api.isin(list(KINDS)), events.group_id.notnull())
    is_ok = events.error_code == 0
    is_answer = (events.api == "JoinGroup") & is_ok
    events = events.select(
        "group_id", "exchange_id", "connection_id", "client_id", "member_id", "event", "reason",
        "protocol", "assignment", "answered_ns", "request_packet", "error", "subscription",
        "group_instance_id", "answered",
        is_ok=is_ok.fill_null(False),
        said=events.generation,
        kind=events.api.cases(*KINDS.items()),
        sent=events.time,
        sent_ns=events.time_ns,
        at_ns=is_answer.ifelse(events.answered_ns, events.time_ns),
    )  # fmt: skip
    named = events.group_instance_id.max().over(group_by=["group_id", "member_id"])
    events = events.mutate(
        # An administrator removes static members only by instance id.
        owner=ibis.coalesce(
            events.group_instance_id,
            events.member_id.notnull().ifelse(named, None),
            events.member_id,
            "",
        ),
        is_left=(events.event == "leave") & events.is_ok,
    )
    order = ["at_ns", "exchange_id", "event", "owner"]
    return events.mutate(place=ibis.row_number().over(group_by="group_id", order_by=order))


def with_lives(events: "ir.Table") -> "ir.Table":
    """Events with `life`: a join answered with a smaller generation starts another."""
    joined = (events.event == "join") & events.is_ok
    packed = joined.ifelse(events.place * PLACES + events.said, None)
    before: dict[str, Any] = {"group_by": "group_id", "order_by": "place", "rows": (None, -1)}
    last = packed.max().over(**before) % PLACES
    events = events.mutate(is_reset=(joined & (events.said < last)).fill_null(False).cast("int32"))
    life = events.is_reset.sum().over(group_by="group_id", order_by="place", rows=(None, 0))
    return events.mutate(life=life.cast("int32")).drop("is_reset")


def own_generation(events: "ir.Table") -> "ir.IntegerValue":
    """The generation that an event itself names; null when it names none."""
    import ibis

    member: dict[str, Any] = {"group_by": [*GROUP, "member_id"], "order_by": "place"}
    next_event, next_said = events.event.lead().over(**member), events.said.lead().over(**member)
    is_settled = events.is_ok & events.event.isin(SETTLED)
    # A member that has to revoke partitions reaches the next epoch once it has; the revocation is
    # in the request of its next event, whose response may carry the next assignment.
    is_behind = (events.said.lag().over(**member) == events.said) & (events.kind != "share")
    is_next = next_event.isin(["owned", "epoch"]) | ((next_event == "assign") & is_behind)
    is_revoked = (events.event == "assign") & is_next
    # Without an assignment it waits for the one that its join leads to.
    is_waiting = events.event.isin(["join", "owned", "subscribe"]) & events.assignment.isnull()
    said = ibis.cases(
        (events.kind == "classic", events.said),
        (is_waiting, None),
        (is_revoked, ibis.greatest(events.said, next_said)),
        else_=events.said,
    )
    return is_settled.ifelse(said, None)


def with_returns(events: "ir.Table") -> "ir.Table":
    """Events with `again`: how many times the static member has returned into the generation."""
    joined = (events.event == "join") & events.is_ok & events.group_instance_id.notnull()
    events = events.mutate(joins=joined.ifelse(1, 0))
    own: dict[str, Any] = {"group_by": [*GROUP, "generation", "owner", "joins"]}
    earlier = events.member_id.lag().over(**own, order_by="place")
    is_return = (joined & (earlier != events.member_id)).fill_null(False)
    events = events.mutate(returns=is_return.cast("int32"))
    of_owner: dict[str, Any] = {"group_by": [*GROUP, "generation", "owner"], "rows": (None, 0)}
    again = events.returns.sum().over(**of_owner, order_by="place")
    return events.mutate(again=again.cast("int32")).drop("joins", "returns")
