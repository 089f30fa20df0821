"""All details of one row, on a separate page, without abbreviations."""

from collections.abc import Iterator
from typing import Any, Final

from kdissect.live.counting.snapshot import Slow
from kdissect.screen.lines import Line, Piece
from kdissect.screen.views import View, work_ns
from kdissect.text.escape import escaped
from kdissect.text.grid import folded
from kdissect.text.human import duration, share, size, time

LABEL_WIDTH: Final = 12
PART_WIDTH: Final = 11
# Part of a latency → its character in the bar, its style, and its description.
PARTS: Final = {
    "queue": ("░", "warm", "behind earlier requests of its connection"),
    "wait": ("▒", "dim", "as the request asked it to (long poll)"),
    "broker time": ("█", "good", "the rest, with the network to the tap"),
}


def detail_lines(view: View, row: Any, now_ns: int, width: int) -> list[Line]:
    """Details of a row of this view."""
    if isinstance(row, Slow):
        return slow_lines(row, now_ns, width)
    lines: list[Line] = []
    for field in [one for one in view.fields if not one.is_history]:
        lines += labelled(field.column.header, field.text(row, now_ns), width, field.style(row))
    return lines


def slow_lines(row: Slow, now_ns: int, width: int) -> list[Line]:
    """Details of an exchange, with its latency as a bar."""
    when = f"{time(row.time_ns)}, {duration(max(0, now_ns - row.time_ns))} ago"
    lines: list[Line] = []
    for label, text, style in (
        ("exchange", str(row.exchange_id), ""),
        ("time", when, ""),
        ("API", escaped(row.api), "bold"),
        ("client", escaped(row.client) or "-", "name"),
        ("from", escaped(row.client_address) or "-", ""),
        ("topic", escaped(row.topic) or "-", ""),
        ("request", size(row.request_size), ""),
        ("response", size(row.response_size), ""),
        ("error", escaped(row.error) or "none", "hot" if row.error else ""),
        ("latency", duration(row.latency_ns), "bold"),
    ):
        lines += labelled(label, text, width, style)
    return [*lines, [], bar(row, width), [], *part_lines(row)]


def parts_of(row: Slow) -> dict[str, int]:
    """Parts of the latency, in ns."""
    return {"queue": max(0, row.queue_ns), "wait": max(0, row.wait_ns), "broker time": work_ns(row)}


def bar(row: Slow, width: int) -> Line:
    """The parts side by side; each existing one has at least one column."""
    parts = {name: ns for name, ns in parts_of(row).items() if ns}
    room = max(len(parts), width)
    line: Line = []
    left, rest = room, sum(parts.values())
    for place, (name, ns) in enumerate(parts.items(), 1):
        most = left - (len(parts) - place)
        columns = max(1, min(most, round(left * ns / rest)))
        sign, style, _ = PARTS[name]
        line.append(Piece(sign * columns, style))
        left, rest = left - columns, rest - ns
    return line


def part_lines(row: Slow) -> Iterator[Line]:
    """Legend of the bar."""
    parts = parts_of(row)
    whole = sum(parts.values())
    for name, ns in parts.items():
        sign, style, meaning = PARTS[name]
        numbers = f"{duration(ns):>9} {share(ns, whole):>7}"
        yield [Piece(sign, style), Piece(f" {name:{PART_WIDTH}}{numbers}  "), Piece(meaning, "dim")]


def labelled(label: str, text: str, width: int, style: str = "") -> list[Line]:
    """A text with a label, wrapped to as many lines as it needs."""
    pieces = folded(text, max(1, width - LABEL_WIDTH))
    labels = [label, *[""] * (len(pieces) - 1)]
    return [
        [Piece(f"{label:{LABEL_WIDTH}}", "dim"), Piece(piece, style)]
        for label, piece in zip(labels, pieces, strict=True)
    ]
