"""Tables of cells that fit the page: columns are dropped and texts shortened as needed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from kdissect.text.escape import escaped
from kdissect.text.human import TEXT_LENGTH, cut

BETWEEN: Final = "  "
SHORTEST_TEXT: Final = 14
CELL_LENGTH: Final = TEXT_LENGTH  # wider than terminals
HEADER_LINES: Final = 2


Paint = Callable[[str, str], str]


def _plain(text: str, _: str) -> str:
    return text


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
        self.styles: list[Sequence[str]] = []

    def add(self, *cells: object, styles: Sequence[str] = ()) -> None:
        """Add a row, a cell for each column; `styles` are theirs, for `paint`."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for {len(self.columns)} columns")
        self.rows.append([escaped(cut(str(cell), CELL_LENGTH)) for cell in cells])
        self.styles.append(styles or [""] * len(cells))

    def lines(self, page_width: int, paint: Paint = _plain) -> Iterator[str]:
        """Header, rule and rows, not wider than `page_width` if possible.

        `paint` gives a text in a style; the header's is dim.
        """
        widths = self.fitted_widths(page_width)
        shown = [index for index, width in enumerate(widths) if width]
        yield paint(self._line([column.header for column in self.columns], widths, shown), "dim")
        yield paint(BETWEEN.join("─" * widths[index] for index in shown), "dim")
        for cells, styles in zip(self.rows, self.styles, strict=True):
            yield self._line(cells, widths, shown, paint, styles)

    def _line(
        self,
        cells: Sequence[str],
        widths: Sequence[int],
        shown: Sequence[int],
        paint: Paint = _plain,
        styles: Sequence[str] = (),
    ) -> str:
        parts = [
            aligned(cells[index], widths[index], self.columns[index].is_text) for index in shown
        ]
        parts[-1] = parts[-1].rstrip()
        painted = [
            paint(part, styles[index]) if styles else part
            for part, index in zip(parts, shown, strict=True)
        ]
        return BETWEEN.join(painted).rstrip()

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
