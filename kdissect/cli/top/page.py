"""A snapshot as a page of plain tables: ``kdissect top --once``."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kdissect.cli.terminal import echo, styled, width
from kdissect.live.counting.snapshot import Snapshot
from kdissect.screen.heading import History, Marks, heading_lines
from kdissect.screen.lines import plain
from kdissect.screen.views import VIEWS, View
from kdissect.text.grid import Grid

# Rows of a table: longer ones are for browsing, which the screen is for.
ROWS: Final = 20
HEADING_WIDTH: Final = 110  # in a pipe; the heading fills its width


def print_page(snapshot: Snapshot, title: str, window_s: float) -> None:
    """Print the page on stdout, as wide as the terminal."""
    page_width = width()
    history = History()
    marks = Marks(title, 0.0, window_s)
    for line in heading_lines(snapshot, history, marks, min(page_width, HEADING_WIDTH)):
        echo(plain(line).rstrip())
    for view in VIEWS:
        rows = sorted_rows(view, snapshot)
        if rows:
            echo("")
            more = f", {ROWS} of {len(rows)}" if len(rows) > ROWS else ""
            echo(styled(f"{view.name}{more}", "bold"))
            for text in grid_lines(view, rows[:ROWS], snapshot, page_width):
                echo(text)


def sorted_rows(view: View, snapshot: Snapshot) -> Sequence[Any]:
    """The rows in the screen's initial order."""
    rows = view.rows(snapshot)
    if view.sort is None:
        return rows
    return sorted(rows, key=view.fields[view.sort].value, reverse=True)


def grid_lines(
    view: View, rows: Sequence[Any], snapshot: Snapshot, page_width: int
) -> Iterator[str]:
    """The lines of a table."""
    fields = [field for field in view.fields if not field.is_history]
    grid = Grid(*(field.column for field in fields))
    for row in rows:
        grid.add(
            *(field.text(row, snapshot.status.now_ns) for field in fields),
            styles=[field.style(row) for field in fields],
        )
    yield from grid.lines(page_width, styled)
