"""What caused rebalances, and who: what members did, else what can only be concluded."""

from typing import TYPE_CHECKING, Any, Final

from kdissect.analysis.group_members import TRIGGER, WHO

if TYPE_CHECKING:
    import ibis.expr.types as ir

# Columns of what causes a rebalance, and of who did it.
BLAME: Final = (*TRIGGER, *[f"by_{name}" for name in WHO])


def with_late(turns: "ir.Table") -> "ir.Table":
    """Rebalances of the new protocols, caused by what a member did while the one before was made.

    Coordinators take what comes meanwhile together, and make another epoch of it.
    """
    own: dict[str, Any] = {"group_by": "group_id", "order_by": ["start_ns", "turn"]}
    was_busy = (turns.triggers.lag().over(**own) > 1).fill_null(False)
    is_unexplained = turns.trigger.isnull() & (turns.silent.fill_null(0) == 0)
    is_late = (turns.kind != "classic") & was_busy & is_unexplained
    late = {name: turns[f"late_{name}"].lag().over(**own) for name in BLAME}
    return turns.mutate(**{name: is_late.ifelse(late[name], turns[name]) for name in BLAME})


def blamed(rows: "ir.Table") -> "ir.Table":
    """Rebalances with who caused them: who did something, who was silent, who joined unasked."""
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
    """Is it the first of its group in the capture? Who was told before, nobody knows."""
    return rows.generation_before.isnull()


def cause_of(rows: "ir.Table") -> "ir.StringValue":
    """What caused it: what somebody did, else what can only be concluded."""
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
