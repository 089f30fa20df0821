"""Rows that pages draw beside findings: when groups rebalanced, partitions failed over, lag grew.

Printed and evaluated as the evidence of findings is.
"""

from typing import TYPE_CHECKING, Final

from kdissect.analysis.dimensions import MS
from kdissect.analysis.questions.lag import ROW
from kdissect.rules.compiled_sql import WINDOW_MS
from kdissect.rules.evidence import Evidence

if TYPE_CHECKING:
    import ibis.expr.types as ir

REBALANCES: Final = (
    "group_id", "cause", "client_id", "stopped_ns", "duration_ns", "members",
    "moved", "outcome", "reason", "request_packet",
)  # fmt: skip
FAILOVERS: Final = (
    "started", "topic", "partition", "access", "cause", "blackout_ns", "failing_ns", "old_broker",
    "new_broker", "errors", "clients", "unrecovered", "first_packet",
)  # fmt: skip


def rebalance_times(rows: "ir.Table") -> "ir.Table":
    """Each rebalance, in order of time."""
    found = rows.select(*REBALANCES, started=rows.start, ended=rows.end)
    return found.order_by("started", "group_id", "request_packet")


def failover_times(rows: "ir.Table") -> "ir.Table":
    """Each blackout of a partition, in order of time."""
    return rows.select(*FAILOVERS).order_by("started", "topic", "partition", "access")


def lag_changes(rows: "ir.Table") -> "ir.Table":
    """Changes of a group's lag by time bin; their running sum is the lag of all its partitions.

    A partition without an observation in a bin keeps its lag: it has no row there. `partitions` are
    those whose lag became known.
    """
    own = {"group_by": ROW, "order_by": "window"}
    now = rows.mutate(known=rows["lag"].coalesce(-1))
    then = now.mutate(before=now.known.lag().over(**own).coalesce(-1))
    changed = then.mutate(
        change=(then.known >= 0).ifelse(then.known, 0) - (then.before >= 0).ifelse(then.before, 0),
        first=((then.known >= 0) & (then.before < 0)).cast("int64"),
    )
    by = ("group_id", "bin")
    found = (
        changed.mutate(bin=changed.window)
        .group_by(*by)
        .aggregate(change=changed.change.sum(), partitions=changed["first"].sum())
    )
    return found.order_by(*by)


PAGE_EVIDENCE: Final = {
    "rebalance_times": Evidence("rebalances", {}, rebalance_times),
    "failover_times": Evidence("failovers", {}, failover_times),
    "lag_changes": Evidence("lag", {"window": WINDOW_MS * MS}, lag_changes),
}
