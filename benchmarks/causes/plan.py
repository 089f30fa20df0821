"""Table of all staged recordings."""

from benchmarks.causes.incidents import (
    brokers,
    clients,
    committed,
    groups,
    networks,
    refusals,
    security,
    sharing,
    transactions,
)
from benchmarks.causes.quiet import QUIETS
from benchmarks.causes.table import Incident, Quiet

MODULES = (clients, groups, brokers, transactions, security, sharing, networks, refusals, committed)
INCIDENTS: tuple[Incident, ...] = tuple(one for module in MODULES for one in module.INCIDENTS)
ALL: tuple[Incident | Quiet, ...] = (*INCIDENTS, *QUIETS, *committed.QUIETS)
