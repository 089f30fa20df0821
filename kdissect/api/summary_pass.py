"""The summary: one pass over captures counts, and keeps the tables for the rules.

No engine is queried when the counters show that no rule would find anything.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, TypeVar

import pyarrow as pa

from kdissect.analysis.summary.summary import TABLES, Summariser, Summary
from kdissect.api.reading import run_over
from kdissect.capture.files import Source
from kdissect.checkpoint.worker_pool import WorkerPool
from kdissect.errors import OutputError
from kdissect.pipeline import Options
from kdissect.rules.compiled_sql import columns_needed
from kdissect.rules.context import Context
from kdissect.rules.engine import judge
from kdissect.rules.finding import Finding
from kdissect.rules.indicators import Indicators
from kdissect.rules.preconditions import drawn, wanted
from kdissect.sql.failures import engine_failures, reason_of
from kdissect.tables.spilled_tables import KeptTables

# Tables that the rules need beside those counted.
TABLES_OF_RULES: Final = (*TABLES, "batches", "members")
NO_COLUMNS: Final[Mapping[str, Sequence[str]]] = {}
T = TypeVar("T")


def tables_of(has_findings: bool) -> tuple[str, ...]:
    """The tables of a pass for a page with or without findings."""
    return TABLES_OF_RULES if has_findings else TABLES


class SummaryPage:
    """Collects the batches of a pass; a context manager. `has_findings` False only counts.

    `more` are columns to keep beside those that findings need.
    """

    def __init__(
        self, has_findings: bool = True, more: Mapping[str, Sequence[str]] = NO_COLUMNS
    ) -> None:
        self.summariser = Summariser()
        self.signs = Indicators()
        needed = columns_needed() if has_findings else {}
        self.kept = KeptTables({
            table: [*dict.fromkeys((*needed.get(table, ()), *more.get(table, ())))]
            for table in {**needed, **more}
        })  # fmt: skip
        self.trouble = ""

    def __enter__(self) -> "SummaryPage":
        return self

    def __exit__(self, *_: object) -> None:
        self.kept.__exit__()

    def add_all(self, batches: Iterable[tuple[str, pa.RecordBatch]]) -> None:
        """Count and keep all batches; none of them is referenced afterwards."""
        for table, batch in batches:
            self.add(table, batch)

    def add(self, table: str, batch: pa.RecordBatch) -> None:
        """Count and keep a batch."""
        self.summariser.add(table, batch)
        if not self.kept.columns:
            return
        self.signs.add(table, batch)
        if not self.trouble:
            try:
                self.kept.add(table, batch)
            except OutputError as error:  # a full disk costs the findings, not the summary
                self.trouble = str(error)

    def summary(self, balance: dict[str, Any]) -> Summary:
        """The counts so far; `balance` is the run's."""
        return self.summariser.finish(balance)

    def findings(self, summary: Summary, is_all: bool = False) -> list[Finding]:
        """Output of the rules, the worst first; `is_all` runs all queries."""
        seen = Context(summary, self.signs)
        names = wanted(seen, is_all)
        return self._used(seen, names, judge) if names else judge(seen)

    def for_pages(
        self, summary: Summary, use: Callable[[Context], T], is_all: bool = False
    ) -> tuple[list[Finding], T]:
        """Findings, and the result of `use` on what pages draw beside them.

        One set of queries answers both.
        """
        seen = Context(summary, self.signs)
        asked = wanted(seen, is_all)
        beside = drawn(seen, is_all) if summary.totals.exchanges else []

        def both(found: Context) -> tuple[list[Finding], T]:
            return judge(found.of(asked)), use(found.of(beside))

        names = [*asked, *beside]
        return self._used(seen, names, both) if names else both(seen)

    def _used(self, seen: Context, names: list[str], use: Callable[[Context], T]) -> T:
        from kdissect.rules.planned import evidence

        if self.trouble:
            return use(replace(seen, failures=dict.fromkeys(names, self.trouble)))
        try:
            with evidence(self.kept, names) as found:
                return use(
                    replace(
                        seen, evidence=found.rows, failures=found.failures,
                        more=found.more, unread=found.unread,
                    )
                )  # fmt: skip
        except OutputError as error:
            return use(replace(seen, failures=dict.fromkeys(names, str(error))))
        except engine_failures() as error:  # of rows that the rules read
            return use(replace(seen, failures=dict.fromkeys(names, reason_of(error))))


def findings(
    source: Source | Sequence[Source],
    *,
    asks_all: bool = False,
    jobs: int = 0,
    pool: WorkerPool | None = None,
    reading: dict[str, Any] | None = None,
) -> list[Finding]:
    """All findings about captures, the worst first.

    `source` is one or several captures (a path, a glob, "-" or an open file), or datasets. A query
    is run when counters show that it is useful, or with `asks_all`; `reading` are keywords of
    `Options`. Damaged captures yield findings about the readable part; raises CaptureError for
    input that is not a capture at all.
    """
    options = Options(**(reading or {}), tables=TABLES_OF_RULES, jobs=jobs)
    with SummaryPage() as page:
        with run_over(source, options, pool) as run:
            page.add_all(run)
            summary = page.summary(asdict(run.balance))
        del run  # the engine needs the room
        return page.findings(summary, asks_all)
