"""What a rule gives: one sentence, the numbers that it rests on, and where to look next."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kdissect.rules.catalogue import ERROR, KINDS, ORDER, Kind

PROBLEM: Final = "problem"  # somebody waits, fails or loses records
WARNING: Final = "warning"  # it will hurt, or it costs
NOTICE: Final = "notice"  # worth to know
SEVERITIES: Final = (PROBLEM, WARNING, NOTICE)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    `numbers` have their unit at the end of the name (_ns, _ms, _bytes; shares are 0 to 1),
    `concerns` says of whom: client, client_ip, broker, topic, partition, group, transaction, api,
    error. Times are ns since 1970, packets Wireshark's frame numbers.
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
        """What is documented of its id."""
        return KINDS[ERROR + "CODE" if self.id.startswith(ERROR) else self.id]

    @property
    def command(self) -> str:
        """The command that shows more, without the files."""
        return f"kdissect {self.kind.command}" if self.kind.command else ""


def weight(finding: Finding) -> tuple[int, int]:
    """Sorts the worst first."""
    id_ = ERROR + "CODE" if finding.id.startswith(ERROR) else finding.id
    return SEVERITIES.index(finding.severity), ORDER[id_]
