"""Causes of rebalances and the members responsible: observed events, else inference."""

from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.group_members import TRIGGER, WHO

if TYPE_CHECKING:
    import ibis.expr.types as ir

# Columns of the cause of a rebalance, and of the member that caused it.
BLAME: Final = (*TRIGGER, *[f"by_{name}" for name in WHO])


def with_late(turns: "ir.Table") -> "ir.Table":
    """Rebalances of the new protocols, caused by a member's event during the previous one.

    Coordinators batch concurrent events and start another epoch for them.
    """
    own: dict[str, Any] = {"group_by": "group_id", "order_by": ["start_ns", "turn"]}
    was_busy = (turns.triggers.lag().over(**own) > 1).fill_null(False)
    is_unexplained = turns.trigger.isnull() & (turns.silent.fill_null(0) == 0)
    is_late = (turns.kind != "classic") & was_busy & is_unexplained
    late = {name: turns[f"late_{name}"].lag().over(**own) for name in BLAME}
    return turns.mutate(**{name: is_late.ifelse(late[name], turns[name]) for name in BLAME})


def blamed(rows: "ir.Table") -> "ir.Table":
    """Rebalances with the member that caused them: by an event, silence or an unrequested join."""
    is_silence = rows.cause == "session timeout"
    who = {
        name: rows[f"by_{name}"].coalesce(
            rows[f"lost_{name}"],
            is_silence.ifelse(rows[f"silent_{name}"], None),
            (is_silence | is_first(rows)).ifelse(None, rows[f"first_{name}"]),
        )
        for name in WHO
    }
    return rows.mutate(**who)


def is_first(rows: "ir.Table") -> "ir.BooleanValue":
    """Return whether it is the group's first in the capture; earlier members are unknown."""
    return rows.generation_before.isnull()


def cause_of(rows: "ir.Table") -> "ir.StringValue":
    """The cause: an observed event, else an inference."""
    import ibis

    is_cooperative = rows.protocol.startswith("cooperative") | (rows.protocol == "stream")
    is_step = rows.partitions_before < rows.partitions_earlier
    is_changed = (rows.partitions != rows.partitions_before) & (rows.moved == 0)
    return ibis.cases(
        (rows.trigger.notnull(), rows.trigger),
        (rows.lost > 0, "session timeout"),
        (rows.silent > 0, "session timeout"),
        (is_cooperative & is_step, "cooperative step"),
        (is_changed, "metadata change"),
        (rows.first_client_id.notnull() & ~is_first(rows), "rejoin"),
        else_="unknown",
    )
