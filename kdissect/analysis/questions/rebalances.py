"""Rebalances: time, cause and cost of each new generation of a group.

One row per generation of a classic group or member epoch of a group of KIP-848, 932 and 1071; also
one for a static member that returns into a generation, and for a group that becomes empty.
"""

from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.dimensions import with_ends
from kdissect.analysis.group_assignments import holdings
from kdissect.analysis.group_causes import BLAME, blamed, cause_of, with_late
from kdissect.analysis.group_events import GROUP, PLACES, REBALANCE, group_events
from kdissect.analysis.group_members import TURN, WHO, joined_back, participations
from kdissect.analysis.question import BY_GROUP, Question, Tables
from kdissect.tables.schemas import INT32, INT64, TEXT, TIME, Column

if TYPE_CHECKING:
    import ibis.expr.types as ir

COLUMNS: Final = (
    Column("group_id", TEXT, "", "group"),
    Column("start", TIME, "", "first request that is part of it: a leave, a join, ..."),
    Column(
        "cause", TEXT, "",
        "join, leave, removed (by an administrator), max poll exceeded, session timeout, static "
        "restart, metadata change, subscription change, cooperative step, rejoin, unknown",
    ),
    Column("client_id", TEXT, "", "client id of the client that caused it"),
    Column("stopped_ns", INT64, "ns", "longest time of a partition without an owner"),
    Column("duration_ns", INT64, "ns", "end - start"),
    Column("members", INT64, "", "members after"),
    Column("moved", INT64, "", "partitions that changed hands"),
    Column(
        "outcome", TEXT, "",
        "complete; emptied: no members left; interrupted: by the next; open: no end captured",
    ),
    Column("reason", TEXT, "", "reason that the member gave"),
    Column("generation_before", INT32, "", "generation or epoch before; null: not captured"),
    Column("generation", INT32, "", "generation or epoch after; null: not captured"),
    Column("end", TIME, "", "response with the last assignment; null: none was captured"),
    Column("kind", TEXT, "", "classic, consumer (KIP-848), share or streams (KIP-1071)"),
    Column("protocol", TEXT, "", "assignor of a classic group"),
    Column("client_ip", TEXT, "", "address of the client that caused it"),
    Column("member_id", TEXT, "", "its member id"),
    Column("group_instance_id", TEXT, "", "group.instance.id of a static member"),
    Column("members_before", INT64, "", "members before"),
    Column("joined", INT64, "", "new members"),
    Column("gone", INT64, "", "members that left or were removed"),
    Column(
        "lost", INT64, "",
        "members that vanished (new protocols: whose partitions others were assigned)",
    ),
    Column("partitions", INT64, "", "partitions with an owner afterwards"),
    Column("moved_partitions", TEXT, "", "partitions that moved, like orders:3; Streams: 0:3"),
    Column("exchange_id", INT64, "", "exchange that caused it, else the first"),
    Column("request_packet", INT64, "", "frame number of its request"),
)  # fmt: skip


def rebalances(tables: Tables) -> "ir.Table":
    """The rebalances of all groups, by group in order of time."""
    import ibis

    events = group_events(tables)
    members = participations(events)
    turns = with_moves(with_lost(turns_of(members), members), moves(events, tables))
    # Refused requests without effect.
    is_something = turns.generation.notnull() | turns.trigger.notnull() | turns.is_told
    turns = with_history(with_late(turns.filter(is_something)))
    rows = with_ends(tables, blamed(turns.mutate(cause=cause_of(turns))))
    return rows.order_by(["group_id", "start_ns", ibis.asc("turn")]).select(
        *[column.name for column in COLUMNS]
    )


def turns_of(members: "ir.Table") -> "ir.Table":
    """One row per rebalance, from its members' events."""
    is_trigger = members.trigger.notnull()
    by_trigger = {
        name: members[name].argmin(members.trigger_place, where=is_trigger) for name in BLAME
    }
    late = {
        f"late_{name}": members[name].argmax(members.trigger_place, where=is_trigger)
        for name in BLAME
    }
    first = {
        f"first_{name}": members[name].argmin(members.place)
        for name in ("exchange_id", "request_packet")
    }
    unasked = {
        f"first_{name}": members.is_unasked.ifelse(members[name], None).argmin(members.place)
        for name in WHO
    }
    found = members.group_by(list(TURN)).aggregate(
        kind=members.kind.max(),
        protocol=members.protocol.max(),
        turn=members.place.min(),
        start_ns=members.start_ns.min(),
        end_ns=members.end_ns.max(),
        start=members.start.min(),
        end=members.end.max(),
        settled=members.is_member.sum().coalesce(0),
        triggers=is_trigger.cast("int64").sum(),
        joined=(members.is_member & members.is_new).sum().coalesce(0),
        gone=members.is_gone.sum().coalesce(0),
        is_told=members.is_told.max(),
        **by_trigger,
        **late,
        **first,
        **unasked,
    )
    return found.mutate(
        exchange_id=found.exchange_id.coalesce(found.first_exchange_id),
        request_packet=found.request_packet.coalesce(found.first_request_packet),
    )


def with_lost(turns: "ir.Table", members: "ir.Table") -> "ir.Table":
    """Rebalances with the earlier members that do not take part in them."""
    import ibis

    in_group: dict[str, Any] = {"group_by": GROUP, "order_by": "turn"}
    is_whole = (turns.again == 0) & ~turns.is_emptied & (turns.kind == "classic")
    numbered = turns.filter(is_whole).mutate(number=ibis.row_number().over(**in_group))
    numbers = numbered.select(*TURN, "number", count=numbered.turn.count().over(group_by=GROUP))
    # For a static member: its most recent process.
    process: dict[str, Any] = {"group_by": [*GROUP, "generation", "owner"]}
    last = {name: members[name].argmax(members.place).over(**process) for name in WHO}
    took_part = joined_back(members.mutate(**last), numbers, TURN)
    took_part = took_part.filter(took_part.number.notnull())
    own: dict[str, Any] = {"group_by": [*GROUP, "owner"], "order_by": "number"}
    took_part = took_part.mutate(next_number=took_part.number.lead().over(**own))
    expected = took_part.number + 1
    # Of a member without a captured connection neither heartbeats nor a leave would be seen.
    is_known = took_part.is_member & took_part.connection_id.notnull()
    is_lost = is_known & (expected < took_part["count"])
    is_lost &= took_part.next_number.isnull() | (took_part.next_number > expected)
    gone = took_part.filter(is_lost, ~took_part.left_after).mutate(number=expected)
    lost = gone.group_by([*GROUP, "number"]).aggregate(
        lost=gone.count(),
        **{f"lost_{name}": gone[name].argmin(gone.place) for name in WHO},
    )
    found = joined_back(numbers, lost, (*GROUP, "number"))
    return joined_back(turns, found.drop("number", "count"), TURN)


def with_moves(turns: "ir.Table", moved: "ir.Table") -> "ir.Table":
    """Rebalances with the partitions moved; members of new protocols are lost with partitions."""
    turns = joined_back(turns, moved, REBALANCE)
    # Members that join after the group was empty get them.
    nulled = [name for name in moved.columns if name not in (*REBALANCE, "stopped_ns")]
    turns = turns.mutate(**{name: turns.is_emptied.ifelse(None, turns[name]) for name in nulled})
    is_silent = (turns.kind != "classic") & (turns.silent > 0)
    return turns.mutate(lost=is_silent.fill_null(False).ifelse(turns.silent, turns.lost))


def moves(events: "ir.Table", tables: Tables) -> "ir.Table":
    """For each rebalance: the partitions that moved, and how long one was unassigned."""
    import ibis

    held = holdings(events, tables)
    is_moved = (held.held_by != held.owner).fill_null(False)
    is_silent = is_moved & held.is_silent & held.held_connection_id.notnull()
    return held.group_by(list(REBALANCE)).aggregate(
        partitions=held.topic_partition.nunique(),
        moved=is_moved.sum(),
        moved_partitions=is_moved.ifelse(held.topic_partition, None)
        .collect(distinct=True)
        .sort()
        .join(" "),
        stopped_ns=held.free_ns.notnull()
        .ifelse(ibis.greatest(held.got_ns - held.free_ns, 0), None)
        .max(),
        silent=held.held_by.nunique(where=is_silent),
        **{
            f"silent_{name}": held[f"held_{name}"].argmin(held.got_ns, where=is_silent)
            for name in WHO
        },
    )


def with_history(turns: "ir.Table") -> "ir.Table":
    """Rebalances with the previous state, and their end."""
    import ibis

    own: dict[str, Any] = {"group_by": "group_id", "order_by": ["start_ns", "turn"]}
    upto: dict[str, Any] = own | {"rows": (None, 0)}
    is_classic = turns.kind == "classic"
    is_return = turns.again > 0
    more = turns.joined - turns.gone - is_classic.ifelse(0, turns.lost.coalesce(0))
    known = turns.mutate(
        seen=ibis.ifelse(is_return, 0, more).sum().over(**upto),
        is_nobody=turns.is_emptied | turns.generation.isnull(),
        is_followed=turns.turn.lead().over(**own).notnull(),
    )
    counted = known.mutate(
        counted=ibis.cases(
            (known.is_emptied, 0),
            (is_classic & ~known.is_nobody & ~is_return, known.settled),
            (~is_classic, ibis.greatest(known.seen, 0)),
        )
    )
    counted = counted.mutate(
        generation=counted.is_emptied.ifelse(None, counted.generation),
        place=ibis.row_number().over(**own),
    )
    rows = counted.mutate(
        generation_before=last_known(counted, "generation").cast("int32"),
        partitions_before=counted.partitions.lag().over(**own),
        partitions_earlier=counted.partitions.lag(2).over(**own),
        members_before=last_known(counted, "counted").coalesce(
            (is_classic & (counted.generation == 1) & ~is_return).ifelse(0, None)
        ),
    )
    return ended(rows)


def last_known(rows: "ir.Table", name: str) -> "ir.IntegerValue":
    """The last known value from an earlier rebalance of the group."""
    packed = (rows.place * PLACES + rows[name]).max()
    return packed.over(group_by="group_id", order_by="place", rows=(None, -1)) % PLACES


def ended(rows: "ir.Table") -> "ir.Table":
    """Rebalances with their outcome and its effect on other columns."""
    import ibis

    left = ibis.greatest(rows.members_before - rows.gone, 0)
    members = ibis.ifelse(rows.again > 0, rows.members_before, left)
    rows = rows.mutate(members=rows.counted.coalesce(members))
    is_emptied = rows.is_emptied | (rows.generation.isnull() & (rows.members == 0))
    end_ns = rows.is_nobody.ifelse(None, rows.end_ns)
    return rows.mutate(
        outcome=ibis.cases(
            (is_emptied, "emptied"),
            (end_ns.notnull(), "complete"),
            (rows.is_followed, "interrupted"),
            else_="open",
        ),
        generation=is_emptied.ifelse(None, rows.generation),
        end_ns=end_ns,
        duration_ns=end_ns - rows.start_ns,
        stopped_ns=rows.is_nobody.ifelse(None, rows.stopped_ns),
        end=rows.is_nobody.ifelse(None, rows.end),
    )


QUESTION: Final = Question(
    "rebalances",
    "When did groups rebalance, why, and for how long was nothing read?",
    ("connections", "exchanges", "members"),
    COLUMNS,
    rebalances,
    (),
    (
        "kdissect rebalances broker.pcap",
        "kdissect rebalances broker.pcap --where \"group_id = 'orders'\"",
        "kdissect rebalances broker.pcap --columns group_id,start,cause,client_id,stopped_ns",
    ),
    bucketed_by=BY_GROUP,
)
