"""State of the display: a view, with or without a focus, updated or frozen."""

from bisect import bisect_left
from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple

from kdissect.live.counting.snapshot import Focus, Snapshot
from kdissect.screen.heading import History, Marks
from kdissect.screen.listing import Listing
from kdissect.screen.row_histories import RowHistories
from kdissect.screen.views import ALL_CONNECTIONS, NUMBERS, VIEWS, View
from kdissect.text.human import count, counted

RUNNING: Final = ""
ENDED: Final = "capture ended"
FAILED: Final = "capture failed"
PAUSED: Final = "PAUSED"
INTERVALS_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
WINDOWS_S: Final = (10.0, 30.0, 60.0, 300.0)
FILTER_KEY: Final = "/"
Source = Callable[[Focus], Snapshot]


class Capture(NamedTuple):
    """The capture shown: `source` returns snapshots, `title` describes it, unescaped.

    `state` returns RUNNING, ENDED or FAILED; `set_window` sets the window of later snapshots in
    seconds. A recorded session moves on by `advance`, and to any other place by `seek`, so many
    snapshots on or back; `place` says where it is.
    """

    source: Source
    title: str
    state: Callable[[], str] = lambda: RUNNING
    set_window: Callable[[float], None] = lambda _: None
    advance: Callable[[], None] = lambda: None
    seek: Callable[[int], None] | None = None
    place: Callable[[], str] = lambda: ""


class Step(NamedTuple):
    """State before a focus was set, to return to."""

    focus: Focus
    number: int
    pinned: Hashable


class ViewState:
    """All state that keys change; the screen displays it."""

    def __init__(self, capture: Capture, interval_s: float, window_s: float) -> None:
        self.capture = capture
        self.interval_s = interval_s
        self.window_s = window_s
        self.focus = Focus()
        self.trail: list[Step] = []
        self.number = 0
        self.listings = [Listing(view) for view in VIEWS]
        self.all_connections = Listing(ALL_CONNECTIONS)
        self.shows_all = False
        self.row_histories = RowHistories()
        for listing in self._every_listing():
            listing.history_of = self.row_histories.of
        self._inside: tuple[Focus, Snapshot] | None = None
        self.filter = ""
        self.is_typing = False
        self.is_paused = False
        self.state = RUNNING
        self.history = History()
        self._take()

    @property
    def view(self) -> View:
        """The current view."""
        return self.listing.view

    @property
    def listing(self) -> Listing:
        """The rows of the current view."""
        if self.shows_all and self.number == NUMBERS["Connections"]:
            return self.all_connections
        return self.listings[self.number]

    @property
    def selected(self) -> Any:
        """The row under the cursor, or None."""
        return self.listing.selected

    def refresh(self) -> None:
        """Take a new snapshot, unless frozen or the capture has ended."""
        if self.is_paused or self.state != RUNNING:
            return
        self.capture.advance()
        # Read first: a snapshot after the end is the last one needed.
        self.state = self.capture.state()
        self._take()

    def choose(self, number: int) -> None:
        """Show this view; numbers wrap around."""
        self.number = number % len(VIEWS)
        self._arrange()

    def show_all(self) -> None:
        """Show all connections, or those in trouble alone."""
        self.number = NUMBERS["Connections"]
        self.shows_all = not self.shows_all
        self._arrange()

    def seek(self, by: int) -> None:
        """Show a snapshot of a recorded session, so many on or back, and stay there."""
        if self.capture.seek is None:
            return
        self.capture.seek(by)
        self.is_paused, self.state = True, RUNNING
        if by < 0:
            self._forget()
        self._take()

    def prefer_history(self, is_preferred: bool) -> None:
        """Let histories have the room of other columns, or not."""
        for listing in self._every_listing():
            listing.prefers_history = is_preferred

    def inside(self) -> Snapshot | None:
        """Snapshot of what the selected row stands for alone, None where there is no such thing.

        It is taken once for each snapshot and row.
        """
        if self.view.into is None or self.selected is None:
            return None
        focus = self.view.into[0](self.focus, self.selected)
        if self._inside is None or self._inside[0] != focus:
            self._inside = focus, self.capture.source(focus)
        return self._inside[1]

    def narrow(self, filter_: str) -> None:
        """Show only rows that contain these words."""
        self.filter = filter_
        self._arrange()

    def type(self, key: str, character: str | None) -> bool:
        """Handle a key that begins, changes or ends the filter; False if it is another key.

        `character` is the printable character of the key, if any.
        """
        if not self.is_typing:
            self.is_typing = character == FILTER_KEY
            return self.is_typing
        if key in ("enter", "escape"):
            self.is_typing = False
            self.narrow(self.filter if key == "enter" else "")
        elif key in ("backspace", "ctrl+u"):
            self.narrow(self.filter[:-1] if key == "backspace" else "")
        elif character:
            self.narrow(self.filter + character)
        else:
            return False
        return True

    def look_into(self) -> bool:
        """Focus on the row under the cursor; False if that is not possible."""
        if self.view.into is None or self.selected is None:
            return False
        narrowed, name = self.view.into
        self._enter(narrowed(self.focus, self.selected), name)
        return True

    def look_at(self, what: str) -> bool:
        """Focus on the client, topic or api of the row under the cursor, if it has one."""
        name = getattr(self.selected, what, "")
        if name:
            view = "APIs" if what == "client" else "Clients"
            self._enter(self.focus._replace(**{what: name}), view)
        return bool(name)

    def back(self) -> bool:
        """Undo the filter, else the last `look_into`; False if there is neither."""
        if self.filter:
            self.narrow("")
        elif self.trail:
            step = self.trail.pop()
            self._look_at(step.focus, step.number)
            self.listing.pin(step.pinned)
        else:
            return False
        return True

    def pause(self) -> None:
        """Freeze or unfreeze the display."""
        self.is_paused = not self.is_paused
        self.refresh()

    def hurry(self, by: int) -> None:
        """Change the update interval."""
        here = bisect_left(INTERVALS_S, self.interval_s)
        self.interval_s = INTERVALS_S[max(0, min(len(INTERVALS_S) - 1, here + by))]

    def change_window(self) -> None:
        """Select the next longer window; the longest is followed by the shortest."""
        if self.is_paused or self.state != RUNNING:
            return
        longer = [window for window in WINDOWS_S if window > self.window_s]
        self.window_s = (longer or WINDOWS_S)[0]
        self.capture.set_window(self.window_s)
        self._take()

    def marks(self) -> Marks:
        """State shown in the title line."""
        state = PAUSED if self.is_paused else self.state
        if place := self.capture.place():
            state = f"{state} {place}".strip()
        return Marks(self.capture.title, self.interval_s, self.window_s, state)

    def nothing(self) -> list[str]:
        """Reasons for an empty view."""
        if self.listing.total:
            return [f"none of {self.listing.total} rows has all words of the filter; Esc clears it"]
        if self.view.name == "Problems":
            return [self.view.nothing]
        if self.view.name == "Findings" and self.snapshot.current_findings is None:
            return ["findings are not searched for: --findings 5m"]
        lines = [f"{self.view.nothing} in the last {self.snapshot.window_s:.3g} s"]
        balance = self.snapshot.status.balance
        if balance.exchanges and self.snapshot.status.level:
            lines.append(f"some rows are not made: shed level {self.snapshot.status.level}")
        if not balance.exchanges:
            lines.append(f"so far no exchange in {counted(balance.packets, 'packet')}")
            lines.append(f"of {counted(self.snapshot.status.open_connections, 'connection')}")
            undecrypted = self.snapshot.status.undecrypted
            if hidden := balance.encrypted_connections + undecrypted.connections:
                reason = f" ({undecrypted.reason})" if undecrypted.reason else ""
                lines.append(f"{count(hidden)} are encrypted{reason}: --keylog")
            lines.append("other ports of brokers: --port")
        return lines

    def _enter(self, focus: Focus, name: str) -> None:
        """Set a focus, in the view with this name."""
        self.trail.append(Step(self.focus, self.number, self.view.key(self.selected)))
        self.filter = ""
        self._look_at(focus, NUMBERS[name if focus != self.focus else "Slowest"])

    def _look_at(self, focus: Focus, number: int) -> None:
        self.focus = focus
        self.number = number
        self._forget()
        for listing in self._every_listing():
            listing.widen()
            listing.place(0)
        self._take()

    def _every_listing(self) -> list[Listing]:
        return [*self.listings, self.all_connections]

    def _forget(self) -> None:
        """Forget histories: what follows is of something else."""
        self.history.clear()
        self.row_histories.clear()

    def _take(self) -> None:
        self.snapshot = self.capture.source(self.focus)
        self.history.add(self.snapshot)
        self.row_histories.add(self.snapshot)
        self._inside = None
        self._arrange()

    def _arrange(self) -> None:
        rows = self.view.rows(self.snapshot)
        self.listing.show(rows, self.snapshot.status.now_ns, self.filter)
