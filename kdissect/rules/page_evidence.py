"""Rows that pages draw beside findings: when groups rebalanced, and partitions failed over.

Printed and evaluated as the evidence of findings is.
"""

from typing import TYPE_CHECKING, Final

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


PAGE_EVIDENCE: Final = {
    "rebalance_times": Evidence("rebalances", {}, rebalance_times),
    "failover_times": Evidence("failovers", {}, failover_times),
}
