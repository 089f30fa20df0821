"""The displayed rows of one view: sorted, filtered, with a cursor."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from rich.cells import cell_len

from kdissect.screen.lines import Line, Piece, cut, sparkline, width_of
from kdissect.screen.views import HISTORY_WIDTH, Field, View
from kdissect.text.grid import BETWEEN, Column, aligned, fitted_widths, total

# Maximum width of a name: longer ones would only push out other columns.
WIDEST: Final = 64
# Minimum width of numbers: columns would jump when they get wider.
NUMBER_WIDTH: Final = 7
LEAST_HISTORY: Final = 10


class Listing:
    """Rows of `view`; the cursor follows its row when that moves.

    A cursor at the top that was not moved stays at the top. Only visible rows are formatted, so
    large numbers of rows cost little.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.sort = view.sort
        self.is_descending = True
        self.rows: list[Any] = []
        self.total = 0
        self.cursor = 0
        self.top = 0
        self.pinned: Hashable = None
        self.now_ns = 0
        self.widths: list[int] = []
        # Values of a row over the last snapshots; the history column shows them.
        self.history_of: Callable[[View, Any], Sequence[float]] = lambda _view, _row: ()
        # Beside a pane with all values, other columns make room for the history.
        self.prefers_history = False
        self._natural: list[int] = []
        self._given: Sequence[Any] = ()
        self._filter = ""

    def show(self, rows: Sequence[Any], now_ns: int, filter_: str = "") -> None:
        """Replace the rows; those that do not contain the words of `filter_` are left out."""
        self._given, self.now_ns, self._filter = rows, now_ns, filter_
        self._arrange()

    def sort_by(self, number: int | None) -> None:
        """Sort by this field, None for the order of the snapshot; a second call reverses it."""
        if number == self.sort:
            self.is_descending = not self.is_descending
        else:
            self.sort = number
            # Numbers descending first, but names ascending.
            self.is_descending = number is None or not self.view.fields[number].column.is_text
        self._arrange()

    def sort_beside(self, by: int) -> None:
        """Sort by the field shown `by` columns to the right of the current sort field."""
        shown = [
            number
            for number, (field, width) in enumerate(zip(self.view.fields, self.widths, strict=True))
            if width and not field.is_history
        ]
        places: list[int | None] = [None, *shown] if self.view.sort is None else [*shown]
        here = places.index(self.sort) if self.sort in places else 0
        self.sort_by(places[(here + by) % len(places)])

    def move(self, by: int) -> None:
        """Move the cursor down; it then follows the new row."""
        self.place(self.cursor + by)

    def place(self, number: int) -> None:
        """Put the cursor on a row; on the first one it stays at the top, and does not follow."""
        self.cursor = max(0, min(number, len(self.rows) - 1))
        self.pinned = self.view.key(self.rows[self.cursor]) if self.cursor else None

    def pin(self, key: Hashable) -> None:
        """Put the cursor on the row with this key, if it exists."""
        self.pinned = key
        self._follow()

    @property
    def selected(self) -> Any:
        """The row under the cursor, or None."""
        return self.rows[self.cursor] if self.rows else None

    def lines(self, width: int, height: int) -> list[Line]:
        """The header, and the rows around the cursor."""
        room = max(1, height - 1)
        self.top = max(0, min(self.top, self.cursor, len(self.rows) - room))
        self.top = max(self.top, self.cursor - room + 1)
        shown = self.rows[self.top : self.top + room]
        cells = [[self._text(field, row) for field in self.view.fields] for row in shown]
        self._measure(cells, width)
        lines = [self._header(width)]
        for number, (row, texts) in enumerate(zip(shown, cells, strict=True), self.top):
            line = self._line(row, texts, width)
            lines.append(marked(line, width) if number == self.cursor else line)
        return lines

    def widen(self) -> None:
        """Reset column widths: after a change of the view or the size."""
        self._natural = []

    def _text(self, field: Field, row: Any) -> str:
        if field.is_history:
            return sparkline(list(self.history_of(self.view, row)), HISTORY_WIDTH)
        return field.text(row, self.now_ns)

    def column_at(self, x: int) -> int | None:
        """Number of the field whose column is at `x`."""
        start = 0
        for number, width in enumerate(self.widths):
            if width and start <= x < start + width + len(BETWEEN):
                return None if self.view.fields[number].is_history else number
            start += width + len(BETWEEN) if width else 0
        return None

    def _arrange(self) -> None:
        rows = list(self._given)
        self.total = len(rows)
        words = self._filter.casefold().split()
        if words:
            rows = [row for row in rows if self._has(row, words)]
        if self.sort is not None:
            # Rows with equal values keep the order of the snapshot in both directions.
            value = self.view.fields[self.sort].value
            rows.sort(key=value, reverse=self.is_descending)
        elif not self.is_descending:
            rows.reverse()
        self.rows = rows
        self._follow()

    def _has(self, row: Any, words: list[str]) -> bool:
        fields = (one for one in self.view.fields if is_text(one) and not one.is_history)
        texts = (field.text(row, self.now_ns) for field in fields)
        text = " ".join(texts).casefold()
        return all(word in text for word in words)

    def _follow(self) -> None:
        """Move the cursor with its row; if the row is gone, it keeps its position."""
        self.cursor = max(0, min(self.cursor, len(self.rows) - 1))
        if self.pinned is None:
            self.cursor = 0
            return
        keys = map(self.view.key, self.rows)
        self.cursor = next((i for i, key in enumerate(keys) if key == self.pinned), self.cursor)

    def _measure(self, cells: list[list[str]], width: int) -> None:
        """Set column widths to the maximum so far, so that they do not jump."""
        least = [
            max(cell_len(self._title(number)), 0 if is_text(field) else NUMBER_WIDTH)
            for number, field in enumerate(self.view.fields)
        ]
        natural = self._natural or least
        self._natural = [
            min(WIDEST, max(before, start, *(cell_len(row[number]) for row in cells), 0))
            for number, (before, start) in enumerate(zip(natural, least, strict=True))
        ]
        self.widths = self._fitted(width)

    def _fitted(self, width: int) -> list[int]:
        """Widths of all columns; the history has what the others leave, if that is enough."""
        fields = self.view.fields
        numbers = [number for number, field in enumerate(fields) if not field.is_history]
        columns = [fields[number].column for number in numbers]
        natural = [self._natural[number] for number in numbers]
        has_history = len(numbers) < len(fields)
        room = width - (LEAST_HISTORY + len(BETWEEN)) if has_history else width
        fitted = fitted_widths(columns, natural, room)
        if has_history and total(fitted) > room:
            has_history = False
        elif has_history and not self.prefers_history:
            has_history = total(natural) <= room
        if not has_history:
            fitted = fitted_widths(columns, natural, width)
        widths = dict(zip(numbers, fitted, strict=True))
        left = min(HISTORY_WIDTH, width - total(fitted) - len(BETWEEN)) if has_history else 0
        return [widths.get(number, left) for number in range(len(fields))]

    def _title(self, number: int) -> str:
        # Room for the arrow, so that sorting does not change widths.
        return self.view.fields[number].column.header + " "

    def _header(self, width: int) -> Line:
        line: Line = []
        arrow = "↓" if self.is_descending else "↑"
        for number, column_width in enumerate(self.widths):
            if not column_width:
                continue
            is_sorted = number == self.sort
            column: Column = self.view.fields[number].column
            text = column.header + (arrow if is_sorted else "")
            cell = aligned(text, column_width, column.is_text)
            line.append(Piece(cell, "sorted" if is_sorted else "head"))
            line.append(Piece(BETWEEN, "head"))
        line = cut(line[:-1], width)
        return [*line, Piece(" " * (width - width_of(line)), "head")]

    def _line(self, row: Any, texts: list[str], width: int) -> Line:
        line: Line = []
        for field, text, column_width in zip(self.view.fields, texts, self.widths, strict=True):
            if column_width:
                if field.is_history:
                    text = text[-column_width:].rjust(column_width)
                cell = aligned(text, column_width, is_text(field))
                line += [Piece(cell, field.style(row)), Piece(BETWEEN)]
        return cut(line[:-1], width)


def is_text(field: Field) -> bool:
    return field.column.is_text


def marked(line: Line, width: int) -> Line:
    """The line highlighted as the cursor, over the whole width."""
    fill = Piece(" " * (width - width_of(line)))
    return [Piece(piece.text, "cursor") for piece in [*line, fill]]
