"""The pane beside the table of a wide terminal: all of the selected row, its history, and more.

For an API, a client or a topic also what is behind it: the clients of an API, the APIs of a client.
"""

from collections.abc import Sequence
from typing import Any, Final

from kdissect.live.counting.snapshot import Snapshot, Timed
from kdissect.screen.details import detail_lines
from kdissect.screen.lines import BARS, Line, Piece, cut
from kdissect.screen.row_histories import RowHistories
from kdissect.screen.views import NUMBERS, VIEWS, View, known_duration
from kdissect.text.escape import escaped
from kdissect.text.grid import aligned
from kdissect.text.human import rate

# A terminal of so many columns has two panes.
WIDE: Final = 140
PANE_WIDTH: Final = 54
GRAPH_HEIGHT: Final = 3
# Of the rows behind the selected one.
FIRST: Final = 12
NUMBER_WIDTH: Final = 8


def pane_width(width: int) -> int:
    """Columns of the pane, 0 on a terminal that is not wide."""
    return max(PANE_WIDTH, width * 3 // 8) if width >= WIDE else 0


def pane_lines(
    view: View, row: Any, now_ns: int, histories: RowHistories, inside: Snapshot | None, width: int
) -> list[Line]:
    """Lines of the pane; `inside` is a snapshot of the selected row's exchanges alone."""
    if row is None:
        return []
    lines: list[Line] = [[Piece(view.name, "head")], []]
    lines += detail_lines(view, row, now_ns, width)
    if view.history is not None:
        lines += [[], *history_lines(view, histories.of(view, row), width)]
    if inside is not None and view.into is not None:
        lines += [[], *inside_lines(VIEWS[NUMBERS[view.into[1]]], inside, width)]
    return [cut(line, width) for line in lines]


def history_lines(view: View, values: Sequence[float], width: int) -> list[Line]:
    """A graph of the values, with its maximum."""
    assert view.history is not None  # noqa: S101  # as the caller has checked
    _, name, say = view.history
    top = max(values, default=0.0)
    title = f"{name}, at most {say(top)}" if top > 0 else name
    return [[Piece(title, "dim")], *graph(values[-width:], GRAPH_HEIGHT)]


def graph(values: Sequence[float], height: int) -> list[Line]:
    """The values as bars of `height` lines.

    >>> [piece.text for line in graph([0, 4, 8], 2) for piece in line]
    ['  █', '▁██']
    """
    top = max(values, default=0.0) or 1.0
    eighths = [round(max(value, 0.0) / top * height * len(BARS)) for value in values]
    lines: list[Line] = []
    for level in range(height - 1, -1, -1):
        text = ""
        for value, whole in zip(values, eighths, strict=True):
            part = min(whole - level * len(BARS), len(BARS))
            # Where there is a value, the lowest line shows at least a trace of it.
            least = 1 if level == 0 and value >= 0 else 0
            text += f" {BARS}"[max(part, least)]
        lines.append([Piece(text, "spark")])
    return lines


def inside_lines(view: View, inside: Snapshot, width: int) -> list[Line]:
    """The first rows behind the selected one."""
    rows: list[Timed] = sorted(view.rows(inside), key=lambda one: -one.rate)
    name_width = width - 3 * (NUMBER_WIDTH + 2)
    head = aligned(f"its {view.name}", name_width, True)
    for title in ("ex/s", "err/s", "p99"):
        head += "  " + title.rjust(NUMBER_WIDTH)
    lines: list[Line] = [[Piece(head, "dim")]]
    for one in rows[:FIRST]:
        line = [Piece(aligned(escaped(one.name) or "-", name_width, True), "name")]
        for text in (rate(one.rate), rate(one.errors), known_duration(one.p99_ns)):
            line.append(Piece("  " + aligned(text, NUMBER_WIDTH, False)))
        lines.append(line)
    if len(rows) > FIRST:
        lines.append([Piece(f"and {len(rows) - FIRST} more: Enter", "dim")])
    return lines if rows else []
