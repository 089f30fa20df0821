"""The app: keys and widgets around a `ViewState`."""

import asyncio
import select
import signal
import sys
from contextlib import suppress
from typing import ClassVar, Final, TextIO

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.timer import Timer

from kdissect.screen.beside import pane_lines, pane_width
from kdissect.screen.details import detail_lines
from kdissect.screen.footer import footer_line
from kdissect.screen.gc_control import sweep
from kdissect.screen.heading import crumbs, heading_lines, tab_line
from kdissect.screen.keys import help_lines
from kdissect.screen.lines import Line
from kdissect.screen.table import Table
from kdissect.screen.view_state import FAILED, Capture, ViewState
from kdissect.screen.views import VIEWS
from kdissect.screen.widgets import Lines, Page

HEADING_HEIGHT: Final = 3
ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_S: Final = 1.0


class Tabs(Lines):
    """Tab bar with the names of the views; a click selects one."""

    def on_click(self, event: events.Click) -> None:
        app = self.app
        if isinstance(app, Top):
            _, places = tab_line(app.view_state.number, app.view_state.snapshot, self.size.width)
            for number, place in enumerate(places):
                if event.x in place:
                    app.action_choose(number)


class Top(App[None]):
    """Shows snapshots of the capture every `interval_s`, until the user quits or it fails."""

    ENABLE_COMMAND_PALETTE = False
    CSS = f"""
    Screen {{ background: ansi_default; color: ansi_default; }}
    #heading {{ height: {HEADING_HEIGHT}; }}
    #tabs, #crumbs, #footer {{ height: 1; }}
    #middle {{ height: 1fr; }}
    Table {{ height: 1fr; width: 1fr; }}
    #pane {{ height: 1fr; padding: 0 0 0 2; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(f"{(n + 1) % 10}", f"choose({n})", show=False) for n in range(len(VIEWS))),
        Binding("tab", "beside(1)", priority=True),
        Binding("shift+tab", "beside(-1)", priority=True),
        Binding("up,k", "move(-1)"),
        Binding("down,j", "move(1)"),
        Binding("pageup", "page(-1)"),
        Binding("pagedown", "page(1)"),
        Binding("home,g", "move(-1000000)"),
        Binding("end,G", "move(1000000)"),
        Binding("right,s", "sort(1)"),
        Binding("left,S", "sort(-1)"),
        Binding("r", "turn"),
        Binding("enter", "look"),
        Binding("c", "look_at('client')"),
        Binding("t", "look_at('topic')"),
        Binding("a", "look_at('api')"),
        Binding("d", "detail"),
        Binding("o", "show_all"),
        Binding("left_square_bracket", "seek(-1)"),
        Binding("right_square_bracket", "seek(1)"),
        Binding("left_curly_bracket", "seek(-60)"),
        Binding("right_curly_bracket", "seek(60)"),
        Binding("escape", "undo"),
        Binding("space,p", "pause"),
        Binding("plus,equals_sign", "hurry(-1)"),
        Binding("minus", "hurry(1)"),
        Binding("w", "window"),
        Binding("question_mark,h,f1", "help"),
        Binding("q", "quit"),
        Binding("ctrl+c", "quit", priority=True),
    ]

    def __init__(
        self, capture: Capture, *, interval_s: float = 1.0, window_s: float = 60.0
    ) -> None:
        super().__init__(ansi_color=True)
        self.view_state = ViewState(capture, interval_s, window_s)
        self._timer: Timer | None = None
        self._turn = 0

    def compose(self) -> ComposeResult:
        yield Lines(self._heading, "heading")
        yield Tabs(self._tabs, "tabs")
        yield Lines(lambda _: [crumbs(self.view_state.focus)], "crumbs")
        with Horizontal(id="middle"):
            yield Table(self.view_state.listing, self.typed)
            yield Lines(self._pane, "pane")
        yield Lines(self._footer, "footer")

    def on_mount(self) -> None:
        self.query_one(Table).focus()
        self._start_timer()
        if not self.is_headless:
            self.set_interval(LOOK_S, self._look_for_terminal)
        # Restores the terminal, as if the user had quit.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for number in ENDINGS:
                asyncio.get_running_loop().add_signal_handler(number, self.exit)
        self.renew()

    def on_resize(self, event: events.Resize) -> None:
        """Two panes where there is room for them."""
        columns = pane_width(event.size.width)
        pane = self.screen_stack[0].query_one("#pane")
        pane.display = columns > 0
        pane.styles.width = columns
        self.view_state.prefer_history(columns > 0)
        self.renew()

    def on_unmount(self) -> None:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for number in ENDINGS:
                asyncio.get_running_loop().remove_signal_handler(number)

    def refresh_snapshot(self) -> None:
        """Show the next snapshot."""
        self.view_state.refresh()
        if self.view_state.state == FAILED:
            self.exit()
        self.renew()
        self._turn += 1
        sweep(self._turn)

    def renew(self) -> None:
        """Redraw with the current state."""
        screen = self.screen_stack[0]
        table = screen.query_one(Table)
        table.listing = self.view_state.listing
        table.nothing = self.view_state.nothing()
        table.renew()
        screen.query_one("#crumbs").display = bool(crumbs(self.view_state.focus))
        for lines in screen.query(Lines):
            lines.renew()

    def on_table_moved(self) -> None:
        self.renew()

    def on_table_chosen(self) -> None:
        self.action_look()

    def typed(self, event: events.Key) -> bool:
        """Handle a key for the filter; other keys keep their bindings."""
        is_taken = self.view_state.type(event.key, event.character if event.is_printable else None)
        if is_taken:
            self.renew()
        return is_taken

    def action_choose(self, number: int) -> None:
        self.view_state.choose(number)
        self.renew()

    def action_beside(self, by: int) -> None:
        if len(self.screen_stack) == 1:
            self.action_choose(self.view_state.number + by)

    def action_move(self, by: int) -> None:
        self.view_state.listing.move(by)
        self.renew()

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.query_one(Table).size.height - 2))

    def action_sort(self, by: int) -> None:
        self.view_state.listing.sort_beside(by)
        self.renew()

    def action_turn(self) -> None:
        self.view_state.listing.sort_by(self.view_state.listing.sort)
        self.renew()

    def action_look(self) -> None:
        if not self.view_state.look_into():
            self.action_detail()
        self.renew()

    def action_look_at(self, what: str) -> None:
        self.view_state.look_at(what)
        self.renew()

    def action_detail(self) -> None:
        view_state = self.view_state
        view, row, now_ns = view_state.view, view_state.selected, view_state.snapshot.status.now_ns
        if row is not None:
            title = f"{view.name}, as of the moment it was opened"
            self.push_screen(Page(title, lambda width: detail_lines(view, row, now_ns, width)))

    def action_show_all(self) -> None:
        self.view_state.show_all()
        self.renew()

    def action_seek(self, by: int) -> None:
        self.view_state.seek(by)
        self.renew()

    def action_undo(self) -> None:
        self.view_state.back()
        self.renew()

    def action_pause(self) -> None:
        self.view_state.pause()
        self.renew()

    def action_hurry(self, by: int) -> None:
        self.view_state.hurry(by)
        self._start_timer()
        self.renew()

    def action_window(self) -> None:
        self.view_state.change_window()
        self.renew()

    def action_help(self) -> None:
        self.push_screen(Page("kdissect top: keys", help_lines))

    def _look_for_terminal(self) -> None:
        """Quit when the terminal is gone, also if SIGHUP is blocked: it would read keys forever."""
        if is_hung_up(sys.__stdin__):
            self.exit()

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_interval(self.view_state.interval_s, self.refresh_snapshot)

    def _heading(self, width: int) -> list[Line]:
        view_state = self.view_state
        return heading_lines(view_state.snapshot, view_state.history, view_state.marks(), width)

    def _tabs(self, width: int) -> list[Line]:
        return [tab_line(self.view_state.number, self.view_state.snapshot, width)[0]]

    def _pane(self, width: int) -> list[Line]:
        """The selected row, and what is behind it; drawn only where it is shown."""
        view_state = self.view_state
        now_ns = view_state.snapshot.status.now_ns
        return pane_lines(
            view_state.view, view_state.selected, now_ns, view_state.row_histories,
            view_state.inside(), width,
        )  # fmt: skip

    def _footer(self, width: int) -> list[Line]:
        return [footer_line(self.view_state, width)]


def is_hung_up(terminal: TextIO | None) -> bool:
    """Return whether the terminal has hung up; True for None."""
    if terminal is None:
        return True
    waiting = select.poll()
    waiting.register(terminal, 0)
    return any(events & select.POLLHUP for _, events in waiting.poll(0))
