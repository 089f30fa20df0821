"""Output of a rule: one sentence, the numbers that it rests on, and the next step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kdissect.rules.catalogue import ERROR, KINDS, ORDER, Kind

PROBLEM: Final = "problem"  # a client or user waits, fails or loses records
WARNING: Final = "warning"  # it will cause trouble, or has a cost
NOTICE: Final = "notice"  # worth knowing
SEVERITIES: Final = (PROBLEM, WARNING, NOTICE)


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

    @property
    def kind(self) -> Kind:
        """The documented kind of its id."""
        return KINDS[ERROR + "CODE" if self.id.startswith(ERROR) else self.id]

    @property
    def command(self) -> str:
        """The command that shows more, without the files."""
        return f"kdissect {self.kind.command}" if self.kind.command else ""


def weight(finding: Finding) -> tuple[int, int]:
    """Sort key: the worst first."""
    id_ = ERROR + "CODE" if finding.id.startswith(ERROR) else finding.id
    return SEVERITIES.index(finding.severity), ORDER[id_]
