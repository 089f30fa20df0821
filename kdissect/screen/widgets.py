"""Lines on Textual's canvas: the base of every widget and page of the screen."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget

from kdissect.screen.lines import Line, Piece, cut, width_of

# Only colours and attributes that every terminal has, to match its theme. What is good, worth a
# look and bad differs by attributes, too: red and green are one colour to some, and NO_COLOR has
# neither.
STYLES: Final = {
    "bold": Style(bold=True),
    "dim": Style(dim=True),
    "name": Style(color="cyan"),
    "good": Style(color="green"),
    "warm": Style(color="yellow", underline=True),
    "hot": Style(color="red", bold=True),
    "spark": Style(color="green"),
    "title": Style(bold=True),
    "marked": Style(reverse=True, bold=True),
    "tab": Style(reverse=True),
    "head": Style(bold=True, underline=True),
    "sorted": Style(bold=True, underline=True, color="cyan"),
    "cursor": Style(reverse=True),
}


@cache
def painted(style: str) -> Style:
    """Combined style of all the words."""
    return Style.combine([Style.null(), *(STYLES[word] for word in style.split())])


def strip_of(line: Line, width: int) -> Strip:
    """The line in exactly `width` columns; markup is not interpreted."""
    shown = cut(line, width)
    segments = [Segment(piece.text, painted(piece.style)) for piece in shown if piece.text]
    return Strip(segments, width_of(shown)).adjust_cell_length(width)


class Lines(Widget):
    """Shows the lines that `make` returns for a width."""

    def __init__(self, make: Callable[[int], Sequence[Line]], name: str | None = None) -> None:
        super().__init__(id=name)
        self.make = make
        self._made: tuple[int, Sequence[Line]] | None = None

    def renew(self) -> None:
        """Rebuild the lines and redraw them."""
        self._made = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self._made is None or self._made[0] != width:
            self._made = (width, self.make(width))
        lines = self._made[1]
        return strip_of(lines[y] if y < len(lines) else [], width)


class Page(ModalScreen[None]):
    """A full-screen page of lines, which can be scrolled and closed."""

    CSS = """
    Page { background: ansi_default; }
    Page > Reading { width: 1fr; height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark,d,space", "dismiss", "back"),
        Binding("up,k", "scroll(-1)"),
        Binding("down,j", "scroll(1)"),
        Binding("pageup,home", "scroll(-10)"),
        Binding("pagedown,end", "scroll(10)"),
    ]

    def __init__(self, title: str, make: Callable[[int], Sequence[Line]]) -> None:
        super().__init__()
        self.heading = title
        self.make = make
        self.top = 0

    def compose(self) -> ComposeResult:
        yield Reading(self.shown)

    def shown(self, width: int) -> list[Line]:
        """The title, the lines from `top` on, and how to close the page."""
        height = max(1, self.size.height - 3)
        lines = self.make(max(1, width - 2))
        self.top = max(0, min(self.top, len(lines) - height))
        shown = [[Piece(" "), *line] for line in lines[self.top : self.top + height]]
        shown += [[]] * (height - len(shown))
        more = len(lines) - self.top - height
        below = f"  ↓ {more} more lines" if more > 0 else ""
        return [
            [Piece(" " + self.heading, "title")],
            [],
            *shown,
            [Piece(" Esc", "bold"), Piece(f" back{below}")],
        ]

    def action_scroll(self, by: int) -> None:
        """Scroll the page."""
        self.top += by
        self.query_one(Reading).renew()

    def on_mouse_scroll_down(self, _: events.MouseScrollDown) -> None:
        self.action_scroll(1)

    def on_mouse_scroll_up(self, _: events.MouseScrollUp) -> None:
        self.action_scroll(-1)


class Reading(Lines):
    """Lines of a page; they also depend on its height."""

    def on_resize(self) -> None:
        self.renew()
