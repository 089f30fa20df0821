"""Evidence by plans, in this process; and by DuckDB where the tables are too large for it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Final

from kdissect.rules.compiled_sql import SHARING, both, plans, reads
from kdissect.rules.evidence_rows import ROWS, Row, shortened
from kdissect.rules.evidence_sources import EveryRow, PlannedRows
from kdissect.rules.executor import Answers, answers
from kdissect.rules.plans.evaluator import Plan
from kdissect.rules.plans.stored import KeptRelations
from kdissect.rules.plans.values import Reads
from kdissect.tables.spilled_tables import KeptTables
from kdissect.tables.unused_memory import give_back

# Below this number of rows, plans reuse the results of the previous one.
FEW_ROWS: Final = 100_000


@contextmanager
def evidence(kept: KeptTables, names: Iterable[str]) -> Iterator[Answers]:
    """The rows of evidence over the tables of a pass."""
    give_back()
    if kept.is_large:  # plans take up to 600 bytes for each row; DuckDB spills
        with answers(kept.files(), kept.columns, names, kept.rows) as found:
            yield found
        return
    roots, nodes = plans()
    plan = Plan(nodes, KeptRelations(kept).relation)
    try:
        yield _planned(plan, roots, kept.rows, names)
    finally:
        plan.forget()  # its values refer to it, and would stay until cycles are collected


def _planned(
    plan: Plan, roots: Mapping[str, list[int]], count: int, names: Iterable[str]
) -> Answers:
    rows: dict[str, list[Row]] = {}
    more: dict[str, EveryRow] = {}
    expected = reads() if count > FEW_ROWS else {}
    for sharing in shared(names):
        if expected:
            plan.forget(Reads(expected[both(*sharing) if len(sharing) > 1 else sharing[0]]))
        for name in sharing:
            limited, every = roots[name]
            rows[name] = [shortened(row) for row in islice(plan.rows(limited), ROWS + 1)]
            if len(rows[name]) > ROWS:
                more[name] = PlannedRows(plan.columns(every))
    return Answers(rows, {}, more, set())


def shared(names: Iterable[str]) -> Iterator[list[str]]:
    """The names, those that share a plan together.

    >>> list(shared(["failovers", "errors", "failover_times", "rebalance_times"]))
    [['failovers', 'failover_times'], ['errors'], ['rebalance_times']]
    """
    left = list(names)
    while left:
        one = left.pop(0)
        other = SHARING.get(one, "")
        if other in left:
            left.remove(other)
            yield [one, other]
        else:
            yield [one]
