"""Tables of cells that fit the page: columns are dropped and texts shortened as needed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from kdissect.text.escape import escaped
from kdissect.text.human import TEXT_LENGTH, cut

BETWEEN: Final = "  "
SHORTEST_TEXT: Final = 14
CELL_LENGTH: Final = TEXT_LENGTH  # wider than terminals
PAGE_WIDTH: Final = 110  # of pages where stdout is no terminal
HEADER_LINES: Final = 2


class Column(NamedTuple):
    """A column. Text is left-aligned and may be shortened; numbers are not. `drop` 1 goes first.

    Text is not shortened below `least` columns: other columns are dropped first.
    """

    header: str
    is_text: bool = False
    drop: int = 0
    least: int = SHORTEST_TEXT


class Grid:
    """Cells of one table; text from the wire is escaped on input."""

    def __init__(self, *columns: Column) -> None:
        self.columns = columns
        self.rows: list[list[str]] = []

    def add(self, *cells: object) -> None:
        """Add a row, a cell for each column."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns")
        self.rows.append([escaped(cut(str(cell), CELL_LENGTH)) for cell in cells])

    def lines(self, page_width: int) -> Iterator[str]:
        """Header, rule and rows, not wider than `page_width` if possible."""
        widths = self.fitted_widths(page_width)
        shown = [index for index, width in enumerate(widths) if width]
        for cells in ([column.header for column in self.columns], None, *self.rows):
            if cells is None:
                yield BETWEEN.join("─" * widths[index] for index in shown)
            else:
                parts = (
                    aligned(cells[index], widths[index], self.columns[index].is_text)
                    for index in shown
                )
                yield BETWEEN.join(parts).rstrip()

    def fitted_widths(self, page_width: int) -> list[int]:
        """Width of each column, 0 for dropped ones."""
        natural = [
            max(cell_len(text) for text in (column.header, *(row[index] for row in self.rows)))
            for index, column in enumerate(self.columns)
        ]
        return fitted_widths(self.columns, natural, page_width)


def fitted_widths(columns: Sequence[Column], natural: Sequence[int], page_width: int) -> list[int]:
    """Widths that fit the page, for columns with `natural` widths; 0 for dropped ones.

    If that is impossible, they exceed it.
    """
    for is_left_out in _choices(columns):
        widths = [0 if out else width for out, width in zip(is_left_out, natural, strict=True)]
        if _shorten(columns, widths, total(widths) - page_width):
            break
    return widths


def _choices(columns: Sequence[Column]) -> Iterator[list[bool]]:
    """Sets of dropped columns: none, then more and more in the order of `drop`."""
    for level in range(max(column.drop for column in columns) + 1):
        yield [0 < column.drop <= level for column in columns]


def _shorten(columns: Sequence[Column], widths: list[int], excess: int) -> bool:
    """Remove `excess` from the widest text columns; False if that is not enough."""
    texts = [index for index, column in enumerate(columns) if column.is_text]
    for _ in range(excess):
        longer = [index for index in texts if widths[index] > columns[index].least]
        if not longer:
            return False
        widths[max(longer, key=lambda index: widths[index])] -= 1
    return True


def aligned(cell: str, width: int, is_text: bool) -> str:
    """The cell padded to exactly `width` columns; longer text is cut and ends in …"""
    if cell_len(cell) > width:
        return set_cell_size(cell, width - 1) + "…"
    return cell + " " * (width - cell_len(cell)) if is_text else cell.rjust(width)


def folded(line: str, width: int) -> list[str]:
    """Wrap a line to the width; break between words, except in words that are too wide.

    >>> folded("a page of seven columns", 7)
    ['a page', 'of', 'seven', 'columns']
    """
    pieces = [""]
    for word in line.split(" "):
        longer = f"{pieces[-1]} {word}" if pieces[-1] else word
        if cell_len(longer) <= width:
            pieces[-1] = longer
            continue
        if pieces[-1]:
            pieces.append("")
        for character in word:
            if cell_len(pieces[-1] + character) > width and pieces[-1]:
                pieces.append("")
            pieces[-1] += character
    return pieces


def total(widths: Iterable[int]) -> int:
    """Width of a line of columns; those of width 0 are absent."""
    shown: Sequence[int] = [width for width in widths if width]
    return sum(shown) + len(BETWEEN) * (len(shown) - 1)
