"""The footer of the screen: cursor position, filter, and key hints."""

from typing import Final

from kdissect.screen.lines import Group, Line, Piece, apart, side_by_side, width_of
from kdissect.screen.view_state import ViewState
from kdissect.text.escape import escaped
from kdissect.text.human import count

# Keys, their actions, and the order in which hints are dropped for lack of room.
HINTS: Final = (
    ("?", "help", 0), ("q", "quit", 0), ("/", "filter", 1), ("s", "sort", 2),
    ("space", "pause", 3), ("Enter", "look into", 4),
)  # fmt: skip
TYPING: Final = (("Enter", "keep", 1), ("Esc", "clear", 0))


def footer_line(view_state: ViewState, width: int) -> Line:
    """The footer."""
    listing = view_state.listing
    place = f"{listing.cursor + 1} of {len(listing.rows)}" if listing.rows else "no rows"
    seen = view_state.view.seen(view_state.snapshot)
    more = f" (the first of {count(seen)})" if seen > listing.total else ""
    left = [Piece(place + more, "dim")]
    if view_state.is_typing or view_state.filter:
        left += [Piece(" with ", "dim"), Piece(escaped(view_state.filter), "warm")]
        left += [Piece(" ", "marked")] if view_state.is_typing else []
        left.append(Piece(f" ({listing.total} in all)", "dim"))
    keys = TYPING if view_state.is_typing else HINTS
    hints = [Group([Piece(key, "bold"), Piece(f" {what}")], drop) for key, what, drop in keys]
    return apart(left, side_by_side(hints, max(0, width - width_of(left) - 2)), width)
