"""One run of ``kdissect top``: a screen, lines, or one page, with a capture in a thread."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import NamedTuple

import click

from kdissect.cli.documents import head
from kdissect.cli.empty_result import NO_EXCHANGES, explain_empty
from kdissect.cli.live_lines import Deadline, tell_begin
from kdissect.cli.live_signals import signals
from kdissect.cli.live_start import Opened
from kdissect.cli.program import ANSWERED, FAILED, leave
from kdissect.cli.top_capture import Capturing, capturing
from kdissect.cli.top_terminal import has_screen, terminal
from kdissect.dissection.options import Options
from kdissect.live.counting.lines import json_of, line_of
from kdissect.live.counting.meters import Meters
from kdissect.live.listener import Listener
from kdissect.live.privileges import ThreadCheck
from kdissect.live.source_choice import Asked, filter_text
from kdissect.live.watcher import Watcher
from kdissect.text.escape import json_safe


class Plan(NamedTuple):
    """The requested run."""

    asked: Asked
    options: Options
    interval_s: float
    window_s: float
    once: bool
    is_json: bool = False

    @property
    def title(self) -> str:
        """Description of the packet source."""
        if self.asked.interfaces:
            filter_ = filter_text(self.asked, self.options)
            return f"{', '.join(self.asked.interfaces)}: {filter_}"
        return ", ".join("stdin" if name == "-" else name for name in self.asked.sources)


def run(plan: Plan, opened: Opened) -> int:
    """Show the output until the user ends it; return the exit code."""
    shown = once if plan.once else screen if has_screen() and not plan.is_json else lines
    meters = Meters(plan.window_s)
    meters.share = plan.asked.share
    listeners: list[Listener] = [] if opened.topic_names is None else [opened.topic_names]
    listeners.append(meters)
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
    return ANSWERED


def lines(plan: Plan, watcher: Watcher, meters: Meters) -> int:
    """Print a line per interval, until the capture ends."""

    def show(made: Capturing) -> None:
        while not made.wait(plan.interval_s):
            if meters.snapshot().status.now_ns:
                print_line(meters, plan.is_json)
        print_line(meters, plan.is_json)

    return watched(plan, watcher, show)


def once(plan: Plan, watcher: Watcher, meters: Meters) -> int:
    """Print one page, of the last window."""
    from kdissect.cli.top_page import print_page

    def show(made: Capturing) -> None:
        made.wait()
        made.check()
        if plan.is_json:
            print_line(meters, is_json=True)
            return
        print_page(meters.snapshot(), plan.title, plan.window_s)

    return watched(plan, watcher, show)


def print_line(meters: Meters, is_json: bool = False) -> None:
    """Print the status line, or the snapshot as JSON."""
    if is_json:
        text = json.dumps({**head("top"), **json_of(meters.snapshot())})
        click.echo(json_safe(text))
    else:
        click.echo(line_of(meters.snapshot()))
    sys.stdout.flush()


def watched(plan: Plan, watcher: Watcher, show: Callable[[Capturing], None]) -> int:
    """Run the capture beside `show`; signals end it. Explains an empty result."""
    with signals(watcher):
        tell_begin(plan.asked, plan.options)
        with capturing(watcher) as made:
            show(made)
    balance = watcher.status().balance
    if not balance.exchanges:
        explain_empty(NO_EXCHANGES, asdict(balance))
    return ANSWERED
