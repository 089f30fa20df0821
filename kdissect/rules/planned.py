"""Evidence by plans, in this process; and by DuckDB where the tables are too large for it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Final

from kdissect.rules.compiled_sql import WINDOW_MS, plans, reads
from kdissect.rules.evidence_rows import ROWS, Row
from kdissect.rules.executor import Answers, answers, shortened
from kdissect.rules.plans.evaluator import Plan, rows_of
from kdissect.rules.plans.stored import KeptRelations
from kdissect.rules.plans.values import Reads
from kdissect.tables.spilled_tables import KeptTables
from kdissect.tables.unused_memory import give_back

# Below this number of rows, plans reuse the results of the previous one.
FEW_ROWS: Final = 100_000


@contextmanager
def evidence(
    kept: KeptTables, names: Iterable[str], window_ms: int = WINDOW_MS
) -> Iterator[Answers]:
    """The rows of evidence over the tables of a pass; `window_ms` as in `compiled_sql`."""
    give_back()
    if kept.is_large:  # plans take up to 600 bytes for each row; DuckDB spills
        with answers(kept.files(), kept.columns, names, window_ms) as found:
            yield found
        return
    yield _planned(kept, names, window_ms)


def _planned(kept: KeptTables, names: Iterable[str], window_ms: int) -> Answers:
    rows: dict[str, list[Row]] = {}
    more: dict[str, Callable[[], Iterator[Row]]] = {}
    roots, nodes = plans(window_ms)
    relations = KeptRelations(kept)
    plan = Plan(nodes, relations.relation)
    expected = reads() if kept.rows > FEW_ROWS else {}
    for name in names:
        limited, every = roots[name]
        if expected:
            plan.forget(Reads(expected[name]))
        rows[name] = [shortened(row) for row in islice(plan.rows(limited), ROWS + 1)]
        if len(rows[name]) > ROWS:
            more[name] = partial(rows_of, plan.columns(every))
    return Answers(rows, {}, more, set())
