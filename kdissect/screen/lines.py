"""Lines of pieces, each with the name of its style; what `widgets` paints and tests compare."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size

BARS: Final = "▁▂▃▄▅▆▇█"
BETWEEN: Final = "  "


class Piece(NamedTuple):
    """Text of one style, see `widgets.STYLES`; it has no control characters."""

    text: str
    style: str = ""


Line = list[Piece]
CUT: Final = Piece("…")


class Group(NamedTuple):
    """Pieces that are shown together or not at all; `drop` 1 is left out first, 0 never."""

    pieces: Sequence[Piece]
    drop: int = 0


def plain(line: Line) -> str:
    """The text of a line."""
    return "".join(piece.text for piece in line)


def width_of(pieces: Sequence[Piece]) -> int:
    """Columns that the pieces take."""
    return sum(cell_len(piece.text) for piece in pieces)


def cut(line: Line, width: int) -> Line:
    """The line in no more than `width` columns; what is cut off leaves a …"""
    if width_of(line) <= width:
        return line
    room = max(0, width - 1)
    kept: Line = []
    for piece in line:
        taken = min(cell_len(piece.text), room)
        kept.append(Piece(set_cell_size(piece.text, taken), piece.style))
        room -= taken
    return [*kept, CUT] if width else []


def joined(groups: Sequence[Group], width: int) -> Line:
    """The groups beside each other, without those that there is no room for."""
    for level in range(max((group.drop for group in groups), default=0) + 1):
        line: Line = []
        for group in groups:
            if not 0 < group.drop <= level:
                line += [Piece(BETWEEN), *group.pieces] if line else group.pieces
        if width_of(line) <= width:
            break
    return cut(line, width)


def apart(left: Line, right: Line, width: int) -> Line:
    """One at each end of a line of `width`; the left one is cut where they do not fit."""
    right = cut(right, width)
    left = cut(left, max(0, width - width_of(right) - 1))
    return [*left, Piece(" " * (width - width_of(left) - width_of(right))), *right]


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values as bars, up to the largest of them; a blank where it is below 0.

    >>> sparkline([0, 1, 2, -1, 8], 4)
    '▁▂ █'
    """
    shown = values[-width:] if width > 0 else []
    top = max(shown, default=0) or 1
    last = len(BARS) - 1
    return "".join(" " if value < 0 else BARS[int(value / top * last + 0.5)] for value in shown)
