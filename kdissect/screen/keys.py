"""Keys and their actions, for the help on the screen and the documentation."""

from typing import Final

from kdissect.screen.lines import Line, Piece
from kdissect.text.grid import folded

# Keys and their actions.
KEYS: Final = (
    ("1 … 9, 0", "show a table, numbered as in the line above them"),
    ("Tab, Shift+Tab", "the next table, the one before"),
    ("↑ ↓ PgUp PgDn", "move the cursor, which stays with its row; also Home and End"),
    ("← → or s, S", "sort by the column beside; a click on a header sorts by it"),
    ("r", "turn the order around"),
    ("Enter", "look at this API, client or topic alone, or at all of a row"),
    ("c, t, a", "look at the client, topic or API of an error or exchange alone"),
    ("d", "all there is of the row, nothing shortened"),
    ("Esc", "one step back: the filter goes, then what was looked at alone"),
    ("/", "show only rows with these words in them, as you type"),
    ("Space or p", "freeze what is shown; the capture goes on"),
    ("+ - w", "show more often, less often; numbers of 10, 30, 60 or 300 s"),
    ("o", "all connections, or those in trouble alone"),
    ("[ ] { }", "in a recorded session: back, on; sixty snapshots back, on"),
    ("?", "this page"),
    ("q, Ctrl+C", "end"),
)
NOTES: Final = (
    "ex/s: exchanges a second. in: bytes of requests, out: of responses.",
    "Latencies from 100 ms are yellow, from 1 s red; not of APIs that wait by design.",
    "wait: time that a request let the broker wait, as Fetch does for records.",
)
KEY_WIDTH: Final = 16


def help_lines(width: int) -> list[Line]:
    """Lines of the help."""
    lines: list[Line] = []
    for key, meaning in KEYS:
        pieces = folded(meaning, max(1, width - KEY_WIDTH))
        for number, piece in enumerate(pieces):
            lines.append([Piece(f"{'' if number else key:{KEY_WIDTH}}", "bold"), Piece(piece)])
    lines.append([])
    lines += [[Piece(piece, "dim")] for note in NOTES for piece in folded(note, width)]
    return lines
