"""The table in the middle of the screen."""

from collections.abc import Callable

from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kdissect.screen.lines import Line, Piece
from kdissect.screen.listing import Listing
from kdissect.screen.widgets import strip_of


class Table(Widget, can_focus=True):
    """Shows a `Listing`: only visible lines are rendered, again for each snapshot.

    `typed` is called for each key, and returns whether it handled it; otherwise bindings apply.
    """

    class Chosen(Message):
        """Posted when the selected row is clicked again."""

    class Moved(Message):
        """Posted when the mouse has moved the cursor, or sorted the rows."""

    def __init__(self, listing: Listing, typed: Callable[[events.Key], bool]) -> None:
        super().__init__()
        self.listing = listing
        self.typed = typed
        self.nothing: list[str] = []
        self._lines: list[Line] | None = None

    def renew(self) -> None:
        """Redraw with the current state."""
        self._lines = None
        self.refresh()

    def on_resize(self) -> None:
        self.listing.widen()
        self.renew()

    def render_line(self, y: int) -> Strip:
        if self._lines is None:
            self._lines = self.listing.lines(self.size.width, self.size.height)
            if not self.listing.rows:
                self._lines += [[], *([Piece(text, "dim")] for text in self.nothing)]
        lines = self._lines
        return strip_of(lines[y] if y < len(lines) else [], self.size.width)

    def on_key(self, event: events.Key) -> None:
        # Keys arrive here in order; an input that gets the focus meanwhile would miss some.
        if self.typed(event):
            event.stop()
            event.prevent_default()

    def on_click(self, event: events.Click) -> None:
        """A click on a header sorts, on a row selects it; a second click opens it."""
        listing = self.listing
        if event.y == 0:
            number = listing.column_at(event.x)
            if number is not None:
                listing.sort_by(number)
        else:
            number = listing.top + event.y - 1
            if number == listing.cursor and listing.rows:
                self.post_message(self.Chosen())
            elif number < len(listing.rows):
                listing.place(number)
        self.post_message(self.Moved())
        self.renew()

    def on_mouse_scroll_down(self, _: events.MouseScrollDown) -> None:
        self.listing.move(1)
        self.post_message(self.Moved())
        self.renew()

    def on_mouse_scroll_up(self, _: events.MouseScrollUp) -> None:
        self.listing.move(-1)
        self.post_message(self.Moved())
        self.renew()
