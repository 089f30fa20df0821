"""Rows of all tables until they are taken, and the problems among them."""

from collections.abc import Callable
from typing import Final, cast

from mypy_extensions import i64

from kdissect.errors import Problem
from kdissect.exchanges.exchange import Exchange
from kdissect.protocol.readers import NULL
from kdissect.tables.body_rows import BodyRows, MemberRows
from kdissect.tables.rows import (
    BatchRows,
    ConnectionRows,
    ErrorRows,
    ExchangeRows,
    PartitionRows,
    ProblemRows,
    RecordRows,
    Rows,
)

# Characters of long texts in the rows of a table at which they become a batch.
TEXT_LIMIT: Final = 16 << 20
# Approximate bytes of rows of all tables at which the stages pause. Converting them to columns
# takes four copies.
ROWS_LIMIT: Final = 16 << 20
PROBLEM_BYTES: Final = 500  # a problem with its text, and its row

# In the order in which full tables are named.
MAKERS: Final[dict[str, Callable[[], Rows]]] = {
    "connections": ConnectionRows,
    "exchanges": ExchangeRows,
    "partitions": PartitionRows,
    "batches": BatchRows,
    "records": RecordRows,
    "errors": ErrorRows,
    "members": MemberRows,
    "bodies": BodyRows,
    "problems": ProblemRows,
}


class RowSink:
    """Rows made and not taken yet, in `tables` by name, and the problems reported so far.

    `requested` are the names of the tables whose rows are made. Where `pauses` is set, rows are to
    be taken before more are made once it `is_full`; from then on it `holds_back`, until what waited
    is written, see `dissector`.
    """

    def __init__(self, requested: frozenset[str]) -> None:
        self.tables: dict[str, Rows] = {table: make() for table, make in MAKERS.items()}
        self._find_large()
        self.makes_problems: bool = "problems" in requested
        self.is_full: bool = False
        self.pauses: bool = False
        self.holds_back: bool = False
        # Bytes of rows made since rows were taken last.
        self._made: i64 = 0
        # Kind → count; and the first one, for strict callers.
        self.problem_counts: dict[str, int] = {}
        self.first_problem: Problem | None = None

    def note_made(self, size: i64) -> None:
        """Count bytes of rows, and pause when there are many."""
        self._made += size
        if self._made > ROWS_LIMIT and self.pauses:
            self.is_full = True
            self.holds_back = True

    def note_taken(self) -> None:
        """Continue after all rows, or the exchanges themselves, were taken or are about to be."""
        self._made = 0
        self.is_full = False

    def full_tables(self, row_limit: i64) -> list[str]:
        """See `Dissector.full_tables`."""
        if row_limit <= 1:
            self.note_taken()
        full: list[str] = []
        for table, rows in self.tables.items():
            is_full = rows.count >= row_limit or rows.all_text_size() >= TEXT_LIMIT
            if is_full and rows.count > 0:
                full.append(table)
        return full

    def take(self, table: str) -> Rows:
        """Return the waiting rows of a table; later rows go to new ones."""
        self._made = 0
        rows = self.tables[table]
        self.tables[table] = MAKERS[table]()
        self._find_large()
        return rows

    def _find_large(self) -> None:
        """Have the tables with the most rows at hand: a look-up for each exchange costs 1 %."""
        self.exchange_rows = cast(ExchangeRows, self.tables["exchanges"])
        self.partition_rows = cast(PartitionRows, self.tables["partitions"])
        self.batch_rows = cast(BatchRows, self.tables["batches"])
        self.record_rows = cast(RecordRows, self.tables["records"])

    def add_problems(self, problems: list[Problem]) -> None:
        """Count problems, and add their rows."""
        for problem in problems:
            if not self.is_reported(problem):
                continue
            if self.first_problem is None:
                self.first_problem = problem
            self.problem_counts[problem.kind] = self.problem_counts.get(problem.kind, 0) + 1
            if self.makes_problems:
                cast(ProblemRows, self.tables["problems"]).add(problem)
                self.note_made(PROBLEM_BYTES)

    def is_reported(self, problem: Problem) -> bool:
        """Return whether a problem counts."""
        return True

    def report(
        self, exchange: Exchange, kind: str, text: str, time: i64, packet: i64, size: i64
    ) -> None:
        """Report a problem with the messages of one exchange; NULL is no time and no packet."""
        problem = Problem(
            "messages",
            kind,
            text,
            time if time != NULL else -1,
            packet if packet != NULL else -1,
            size,
            exchange.connection_id,
            exchange.exchange_id,
            exchange.capture,
        )
        self.add_problems([problem])
