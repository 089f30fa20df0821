"""Rows as a table of text: aligned in a pipe, fitted to the width on a terminal.

In a pipe, cells are as long as they are, and all columns are there; only in lines of more than
`LINE` characters the longest cells are cut. On a terminal, texts longer
than `LONGEST_CELL` (advice, reasons, lists of names) are wrapped below their row, at its full
width; columns of names become narrower as needed, and those that do not fit are left out.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from typing import IO, TYPE_CHECKING, Final

import click
from rich.cells import cell_len

from kdissect.cli.cells import cells_of, is_numeric
from kdissect.cli.long_values import CELL_START
from kdissect.cli.terminal import UNLIMITED, styled, width
from kdissect.text.grid import BETWEEN, Column, fitted_widths, folded
from kdissect.text.grid import aligned as fitted

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_CELL: Final = 48  # of a text beside others on a terminal
LINE: Final = 2_900  # characters of a line in a pipe
LEAST: Final = 32  # of a shorter text nothing is cut; columns are left out first
MEASURED_ROWS: Final = 1000
INDENT: Final = "    "
# Columns whose cells are red unless they are empty or 0.
ERRORS: Final = frozenset({
    "error", "errors", "failed", "unanswered", "last_error", "severity", "given_up", "refused",
    "no_answer", "reset_by_broker", "failed_commits", "unrecovered",
})  # fmt: skip
NO_ERROR: Final = frozenset({"", "0", "none"})
_LENIENT: Final[dict[str, str]] = {"encoding": "utf-8", "errors": "backslashreplace"}


class TableWriter:
    """Columns measured on the first rows. With `columns` all of them are shown, fitting or not."""

    def __init__(self, file: IO[bytes], columns: list[str] | None) -> None:
        self._file = file
        self._columns = columns
        is_stdout = file is getattr(sys.stdout, "buffer", None)
        self._room = width(is_file=not is_stdout)
        self._paints = is_stdout
        self._widths: dict[str, int] = {}
        self._below: list[str] = []
        self._column_count = 0

    def write(self, batch: "pa.RecordBatch") -> None:
        kinds = zip(batch.schema.names, batch.schema.types, strict=True)
        texts = {name: not is_numeric(kind) for name, kind in kinds}
        if not self._column_count:
            self._measure(batch, texts)
        names = [*self._widths, *self._below]
        columns = (_cells(batch.column(name)) for name in names)
        for row in zip(*columns, strict=True):
            cells = dict(zip(names, row, strict=True))
            if self._widths:
                widths = self._widths_of(cells)
                parts = [
                    self._part(name, cells[name], widths[name], texts[name]) for name in widths
                ]
                self._print(BETWEEN.join(parts))
            for name in self._below:
                self._print_below(name, cells[name])

    def close(self) -> None:
        shown = len(self._widths) + len(self._below)
        if shown < self._column_count:
            text = f"{shown} of {self._column_count} columns fit"
            click.echo(f"{text}; --columns chooses, --format jsonl has all", err=True)

    def _measure(self, batch: "pa.RecordBatch", texts: dict[str, bool]) -> None:
        """Choose columns, their widths, and those below."""
        self._column_count = len(batch.schema.names)
        natural = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            lengths = [cell_len(cell) for cell in islice(_cells(column), MEASURED_ROWS)]
            if self._columns is None and not any(lengths) and self._room < UNLIMITED:
                continue
            natural[name] = max([cell_len(name), *lengths])
        if self._room == UNLIMITED:
            most = common_limit(list(natural.values()), LINE)
            self._widths = {name: min(size, most) for name, size in natural.items()}
        else:
            self._fit(natural, texts)
        header = BETWEEN.join(name.ljust(size) for name, size in self._widths.items())
        if self._widths:
            self._print(self._paint(header.rstrip(), "dim"))
            rule = BETWEEN.join("─" * size for size in self._widths.values())
            self._print(self._paint(rule, "dim"))

    def _fit(self, natural: dict[str, int], texts: dict[str, bool]) -> None:
        self._below = [
            name for name, size in natural.items() if texts[name] and size > LONGEST_CELL
        ]
        beside = {name: size for name, size in natural.items() if name not in self._below}
        # The last columns go first: the number of each is the level at which it is left out.
        columns = [
            Column(
                name,
                texts[name],
                0 if self._columns or not at else len(beside) - at,
                min(LEAST, beside[name]),
            )
            for at, name in enumerate(beside)
        ]
        if columns:
            widths = fitted_widths(columns, list(beside.values()), self._room)
            kept = zip(beside, widths, strict=True)
            self._widths = {name: size for name, size in kept if size}

    def _widths_of(self, cells: dict[str, str]) -> dict[str, int]:
        """The widths in one row: in a pipe, rows after those that were measured may be wider."""
        if self._room < UNLIMITED:
            return self._widths
        wider = {name: max(size, cell_len(cells[name])) for name, size in self._widths.items()}
        if wider == self._widths:
            return wider
        most = common_limit(list(wider.values()), LINE)
        return {name: min(size, most) for name, size in wider.items()}

    def _part(self, name: str, cell: str, size: int, is_text: bool) -> str:
        return self._paint(fitted(cell, size, is_text), self._style(name, cell))

    def _style(self, name: str, cell: str) -> str:
        return "hot" if name in ERRORS and cell not in NO_ERROR else ""

    def _print_below(self, name: str, cell: str) -> None:
        if cell:
            room = max(1, self._room - len(INDENT))
            for number, piece in enumerate(folded(f"{name}: {cell}", room)):
                self._print((INDENT if self._widths or number else "") + piece)

    def _paint(self, text: str, style: str) -> str:
        return styled(text, style) if self._paints and style else text

    def _print(self, line: str) -> None:
        self._file.write(line.rstrip().encode(**_LENIENT) + b"\n")


def common_limit(sizes: list[int], line: int) -> int:
    """The largest width of a cell with which a line of columns is no longer than `line`.

    >>> common_limit([10, 500, 400], 904), common_limit([10, 20], 904)
    (490, 20)
    """
    left = line - len(BETWEEN) * (len(sizes) - 1)
    for number, size in enumerate(sorted(sizes)):
        fair = left // (len(sizes) - number)
        if size > fair:
            return fair
        left -= size
    return max(sizes, default=0)


def _cells(column: "pa.Array") -> Iterator[str]:
    """Cells of a table; of very long values the beginning."""
    for cell in cells_of(column):
        yield cell if len(cell) <= CELL_START else cell[: CELL_START - 1] + "…"
