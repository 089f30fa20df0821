"""All that is staged, in one table."""

from benchmarks.causes.incidents import clients, groups
from benchmarks.causes.table import Incident, Quiet

INCIDENTS: tuple[Incident, ...] = (*clients.INCIDENTS, *groups.INCIDENTS)
QUIETS: tuple[Quiet, ...] = ()
ALL: tuple[Incident | Quiet, ...] = (*INCIDENTS, *QUIETS)
