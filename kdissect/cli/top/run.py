"""One run of ``kdissect top``: a screen, lines, or one page, with a capture in a thread."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kdissect.cli.documents import head
from kdissect.cli.empty_result import NO_EXCHANGES, explain_empty
from kdissect.cli.live.lines import Deadline, tell_begin
from kdissect.cli.live.signals import signals
from kdissect.cli.live.start import Opened
from kdissect.cli.program import ANSWERED, FAILED, leave
from kdissect.cli.top.capture import Capturing, capturing
from kdissect.cli.top.shown import Runs, Shown
from kdissect.cli.top.terminal import has_screen, terminal
from kdissect.dissection.options import Options
from kdissect.live.counting.lines import json_of, line_of
from kdissect.live.counting.meters import Meters
from kdissect.live.listener import Listener
from kdissect.live.open_before import OpenBefore
from kdissect.live.privileges import ThreadCheck
from kdissect.live.source_choice import Asked, filter_text
from kdissect.live.watcher import Watcher
from kdissect.text.escape import json_safe

if TYPE_CHECKING:
    from kdissect.cli.live.plan import Plan as LivePlan


class Plan(NamedTuple):
    """The requested run."""

    asked: Asked
    options: Options
    interval_s: float
    window_s: float
    once: bool
    is_json: bool = False
    record: Path | None = None
    findings_s: float | None = None

    @property
    def title(self) -> str:
        """Description of the packet source."""
        if self.asked.interfaces:
            filter_ = filter_text(self.asked, self.options)
            return f"{', '.join(self.asked.interfaces)}: {filter_}"
        return ", ".join("stdin" if name == "-" else name for name in self.asked.sources)


def run(plan: Plan, opened: Opened) -> int:
    """Show the output until the user ends it; return the exit code."""
    meters = Meters(plan.window_s)
    meters.share = plan.asked.share
    listeners: list[Listener] = [] if opened.topic_names is None else [opened.topic_names]
    listeners.append(meters)
    view = Shown(meters)
    if plan.findings_s is not None:
        view.findings = make_findings(plan, plan.findings_s)
        listeners.append(view.findings)
    if plan.record is not None:
        listeners.append(make_recorder(plan, plan.record, view))
    if plan.asked.earlier:
        listeners.append(OpenBefore())
    if plan.once and plan.asked.is_live:
        listeners.append(Deadline(plan.window_s))
    if opened.dropped is not None:
        listeners.append(ThreadCheck(opened.dropped))
    watcher = Watcher(opened.packet_source, listeners, plan.options, keylogs=opened.keylogs)
    return way_of(plan)(plan, watcher, view)


def lead(plan: Plan, share: "LivePlan", opened: Opened) -> int:
    """The same of several workers; `share` is their plan."""
    from kdissect.cli.top.leader import TopLeader

    leader = TopLeader(share, opened)
    leader.set_window(plan.window_s)
    view = Shown(leader)
    view.findings = leader.findings
    if plan.record is not None:
        leader.add_recorder(plan.record, plan.interval_s, head("top"), view.snapshot)
    code = way_of(plan)(plan, leader, view)
    leader.check()
    return code


def way_of(plan: Plan) -> Callable[[Plan, Runs, Shown], int]:
    """How it is shown."""
    return once if plan.once else screen if has_screen() and not plan.is_json else lines


def make_findings(plan: Plan, window_s: float) -> Any:
    """Findings while packets come."""
    from kdissect.api.live_findings import LiveFindings

    return LiveFindings(window_s, is_waiting=not plan.asked.is_live)


def make_recorder(plan: Plan, path: Path, view: Shown) -> Listener:
    """Writer of a session."""
    from kdissect.live.recorded_sessions import Recorder

    return Recorder(path, plan.interval_s, view.snapshot, head("top"))


def screen(plan: Plan, runs: Runs, view: Shown) -> int:
    """Show the screen, until the user ends it."""
    from kdissect.screen.view_state import Capture

    with capturing(runs) as made:
        capture = Capture(view.snapshot, plan.title, made.state, view.set_window)
        has_worked = show_screen(plan, capture)
    if not has_worked:
        leave(FAILED)
    return ANSWERED


def show_screen(plan: Plan, capture: Any) -> bool:
    """Show a `screen.view_state.Capture` until the user ends it; False if the screen failed."""
    from kdissect.screen.app import Top

    app = Top(capture, interval_s=plan.interval_s, window_s=plan.window_s)
    with terminal():
        app.run()
    # Textual has printed the error, if there was one.
    return not app.return_code


def lines(plan: Plan, runs: Runs, view: Shown) -> int:
    """Print a line per interval, until the capture ends."""

    def show(made: Capturing) -> None:
        while not made.wait(plan.interval_s):
            if view.snapshot().status.now_ns:
                print_line(view, plan.is_json)
        print_line(view, plan.is_json)

    return watched(plan, runs, view, show)


def once(plan: Plan, runs: Runs, view: Shown) -> int:
    """Print one page, of the last window."""
    from kdissect.cli.top.page import print_page

    def show(made: Capturing) -> None:
        made.wait()
        made.check()
        if plan.is_json:
            print_line(view, is_json=True)
            return
        print_page(view.snapshot(), plan.title, plan.window_s)

    return watched(plan, runs, view, show)


def print_line(view: Shown, is_json: bool = False) -> None:
    """Print the status line, or the snapshot as JSON."""
    if is_json:
        text = json.dumps({**head("top"), **json_of(view.snapshot())})
        click.echo(json_safe(text))
    else:
        click.echo(line_of(view.snapshot()))
    sys.stdout.flush()


def watched(plan: Plan, runs: Runs, view: Shown, show: Callable[[Capturing], None]) -> int:
    """Run the capture beside `show`; signals end it. Explains an empty result."""
    with signals(runs):
        tell_begin(plan.asked, plan.options)
        with capturing(runs) as made:
            show(made)
    balance = view.snapshot().status.balance
    if not balance.exchanges:
        explain_empty(NO_EXCHANGES, asdict(balance))
    return ANSWERED
