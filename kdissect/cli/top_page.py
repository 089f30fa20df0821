"""A snapshot as a page of plain tables: ``kdissect top --once``."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from kdissect.live.counting.snapshot import Snapshot
from kdissect.screen.heading import History, Marks, heading_lines
from kdissect.screen.lines import plain
from kdissect.screen.views import VIEWS, View
from kdissect.text.grid import HEADER_LINES, PAGE_WIDTH, Grid

# Rows of a table: longer ones are for browsing, which the screen is for.
ROWS: Final = 20


def print_page(snapshot: Snapshot, title: str, window_s: float) -> None:
    """Print the page on stdout, as wide as the terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PAGE_WIDTH
    history = History()
    marks = Marks(title, 0.0, window_s)
    for line in heading_lines(snapshot, history, marks, width):
        click.echo(plain(line).rstrip())
    for view in VIEWS:
        rows = sorted_rows(view, snapshot)
        if rows:
            click.echo("")
            more = f", {ROWS} of {len(rows)}" if len(rows) > ROWS else ""
            click.secho(f"{view.name}{more}", bold=True)
            for number, text in enumerate(grid_lines(view, rows[:ROWS], snapshot, width)):
                click.secho(text, dim=number < HEADER_LINES)


def sorted_rows(view: View, snapshot: Snapshot) -> Sequence[Any]:
    """The rows in the screen's initial order."""
    rows = view.rows(snapshot)
    if view.sort is None:
        return rows
    return sorted(rows, key=view.fields[view.sort].value, reverse=True)


def grid_lines(view: View, rows: Sequence[Any], snapshot: Snapshot, width: int) -> Iterator[str]:
    """The lines of a table."""
    grid = Grid(*(field.column for field in view.fields))
    for row in rows:
        grid.add(*(field.text(row, snapshot.status.now_ns) for field in view.fields))
    yield from grid.lines(width)
