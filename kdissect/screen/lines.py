"""Lines of styled pieces; painted by `widgets` and compared by tests."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from kdissect.text.grid import BETWEEN

BARS: Final = "▁▂▃▄▅▆▇█"


class Piece(NamedTuple):
    """Text of one style, see `widgets.STYLES`, without control characters."""

    text: str
    style: str = ""


Line = list[Piece]
CUT: Final = Piece("…")


class Group(NamedTuple):
    """Pieces that are shown together or not at all; `drop` 1 is dropped first, 0 never."""

    pieces: Sequence[Piece]
    drop: int = 0


def plain(line: Line) -> str:
    """The text of a line."""
    return "".join(piece.text for piece in line)


def width_of(pieces: Sequence[Piece]) -> int:
    """Number of columns of the pieces."""
    return sum(cell_len(piece.text) for piece in pieces)


def cut(line: Line, width: int) -> Line:
    """Cut a line to at most `width` columns, with a … at the end if it is cut."""
    if width_of(line) <= width:
        return line
    room = max(0, width - 1)
    kept: Line = []
    for piece in line:
        taken = min(cell_len(piece.text), room)
        kept.append(Piece(set_cell_size(piece.text, taken), piece.style))
        room -= taken
    return [*kept, CUT] if width else []


def side_by_side(groups: Sequence[Group], width: int) -> Line:
    """The groups side by side, without those that do not fit."""
    for level in range(max((group.drop for group in groups), default=0) + 1):
        line: Line = []
        for group in groups:
            if not 0 < group.drop <= level:
                line += [Piece(BETWEEN), *group.pieces] if line else group.pieces
        if width_of(line) <= width:
            break
    return cut(line, width)


def apart(left: Line, right: Line, width: int) -> Line:
    """Align two lines left and right in `width` columns; the left one is cut if needed."""
    right = cut(right, width)
    left = cut(left, max(0, width - width_of(right) - 1))
    return [*left, Piece(" " * (width - width_of(left) - width_of(right))), *right]


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as bars, scaled to the maximum; blank for negative values.

    >>> sparkline([0, 1, 2, -1, 8], 4)
    '▁▂ █'
    """
    shown = values[-width:] if width > 0 else []
    top = max(shown, default=0) or 1
    last = len(BARS) - 1
    return "".join(" " if value < 0 else BARS[int(value / top * last + 0.5)] for value in shown)
