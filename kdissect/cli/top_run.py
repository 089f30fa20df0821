"""One run of ``kdissect top``: a screen, lines, or one page, with a capture in a thread."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import NamedTuple

import click

from kdissect.cli.empty_result import explain_empty
from kdissect.cli.live_lines import Deadline, tell_begin
from kdissect.cli.live_signals import signals
from kdissect.cli.live_start import Opened
from kdissect.cli.program import FAILED, FOUND, NOTHING_FOUND, leave
from kdissect.cli.top_capture import Capturing, capturing
from kdissect.cli.top_terminal import has_screen, terminal
from kdissect.dissection.options import Options
from kdissect.live.counting.lines import line_of
from kdissect.live.counting.meters import Meters
from kdissect.live.listener import Listener
from kdissect.live.privileges import ThreadCheck
from kdissect.live.source_choice import Asked, filter_text
from kdissect.live.watcher import Watcher


class Plan(NamedTuple):
    """The requested run."""

    asked: Asked
    options: Options
    interval_s: float
    window_s: float
    once: bool

    @property
    def title(self) -> str:
        """Description of the packet source."""
        if self.asked.interfaces:
            filter_ = filter_text(self.asked, self.options)
            return f"{', '.join(self.asked.interfaces)}: {filter_}"
        return ", ".join("stdin" if name == "-" else name for name in self.asked.sources)


def run(plan: Plan, opened: Opened) -> int:
    """Show the output until the user ends it; return the exit code."""
    shown = once if plan.once else screen if has_screen() else lines
    meters = Meters(plan.window_s)
    listeners: list[Listener] = [meters]
    if plan.once and plan.asked.is_live:
        listeners.append(Deadline(plan.window_s))
    if opened.dropped is not None:
        listeners.append(ThreadCheck(opened.dropped))
    watcher = Watcher(opened.packet_source, listeners, plan.options, keylogs=opened.keylogs)
    return shown(plan, watcher, meters)


def screen(plan: Plan, watcher: Watcher, meters: Meters) -> int:
    """Show the screen, until the user ends it."""
    from kdissect.screen.app import Top
    from kdissect.screen.view_state import Capture

    with capturing(watcher) as made:
        capture = Capture(meters.snapshot, plan.title, made.state, meters.set_window)
        app = Top(capture, interval_s=plan.interval_s, window_s=plan.window_s)
        with terminal():
            app.run()
    if app.return_code:
        # Textual has printed the error.
        leave(FAILED)
    return FOUND


def lines(plan: Plan, watcher: Watcher, meters: Meters) -> int:
    """Print a line per interval, until the capture ends."""

    def show(made: Capturing) -> None:
        while not made.wait(plan.interval_s):
            if meters.snapshot().status.now_ns:
                print_line(meters)
        print_line(meters)

    return watched(plan, watcher, show)


def once(plan: Plan, watcher: Watcher, meters: Meters) -> int:
    """Print one page, of the last window."""
    from kdissect.cli.top_page import print_page

    def show(made: Capturing) -> None:
        made.wait()
        made.check()
        print_page(meters.snapshot(), plan.title, plan.window_s)

    return watched(plan, watcher, show)


def print_line(meters: Meters) -> None:
    """Print the status line."""
    click.echo(line_of(meters.snapshot()))
    sys.stdout.flush()


def watched(plan: Plan, watcher: Watcher, show: Callable[[Capturing], None]) -> int:
    """Run the capture beside `show`; signals end it. Explains an empty result."""
    with signals(watcher) as signalled:
        tell_begin(plan.asked, plan.options)
        with capturing(watcher) as made:
            show(made)
    balance = watcher.status().balance
    if balance.exchanges:
        return FOUND
    explain_empty("no Kafka exchanges", asdict(balance))
    return FOUND if signalled.to_stop or plan.asked.interfaces else NOTHING_FOUND
