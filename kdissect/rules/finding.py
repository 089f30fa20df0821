"""Output of a rule: one sentence, the numbers that it rests on, and the next step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kdissect.rules.catalogue import ERROR, KINDS, ORDER, Kind
from kdissect.text.html import html_table

PROBLEM: Final = "problem"  # a client or user waits, fails or loses records
WARNING: Final = "warning"  # it will cause trouble, or has a cost
NOTICE: Final = "notice"  # worth knowing
SEVERITIES: Final = (PROBLEM, WARNING, NOTICE)
# Permanent refusals are worse than slowness. These codes alone may be consequences of a stall,
# or consumers continue after them.
BEFORE: Final = "produce-latency-slow-follower"
OF_STALLS: Final = frozenset((
    "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "FENCED_MEMBER_EPOCH",
    "STALE_MEMBER_EPOCH", "FENCED_INSTANCE_ID", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH",
    "INVALID_TXN_STATE", "UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "INVALID_RECORD_STATE", "KAFKA_STORAGE_ERROR", "OFFSET_OUT_OF_RANGE",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    `numbers` have their unit at the end of the name (_ns, _ms, _bytes; shares are 0 to 1),
    `concerns` names the objects: client, client_ip, broker, topic, partition, group, transaction,
    api, error. Times are ns since 1970, packets Wireshark's frame numbers.
    """

    id: str
    severity: str
    text: str
    numbers: Mapping[str, int | float | None] = field(default_factory=dict)
    concerns: Mapping[str, Any] = field(default_factory=dict)
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    packet: int | None = None
    shown_by: str = ""  # the command, where it is not that of its kind

    def _repr_html_(self) -> str:
        """The finding as a row of a notebook; names from the wire are escaped."""
        return html_table(
            ("severity", "finding", "more"), [(self.severity, self.text, self.command)]
        )

    @property
    def kind(self) -> Kind:
        """The documented kind of its id."""
        return KINDS[ERROR + "CODE" if self.id.startswith(ERROR) else self.id]

    @property
    def command(self) -> str:
        """The command that shows more, without the files."""
        command = self.shown_by or self.kind.command
        return f"kdissect {command}" if command else ""


def weight(finding: Finding) -> tuple[int, float]:
    """Sort key: the worst first."""
    severity = SEVERITIES.index(finding.severity)
    if not finding.id.startswith(ERROR):
        return severity, ORDER[finding.id]
    is_refusal = finding.severity == PROBLEM and finding.id.removeprefix(ERROR) not in OF_STALLS
    return severity, ORDER[BEFORE] - 0.5 if is_refusal else ORDER[ERROR + "CODE"]
