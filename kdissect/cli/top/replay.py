"""``kdissect top FILE`` of a recorded session: the snapshots as they were shown."""

import json
from pathlib import Path
from typing import Any

import click

from kdissect.cli.documents import head
from kdissect.cli.program import ANSWERED, FAILED, leave
from kdissect.cli.top.run import Plan, show_screen
from kdissect.cli.top.terminal import has_screen
from kdissect.errors import InvalidArgument
from kdissect.live.counting.lines import json_of, line_of
from kdissect.live.counting.narrowing import narrowed
from kdissect.live.counting.snapshot import Focus, Snapshot
from kdissect.live.recorded_sessions import RecordedSession
from kdissect.text.escape import json_safe


def replay(plan: Plan) -> int:
    """Show the session until its end, or the user ends it; returns the exit code."""
    if plan.record is not None or plan.findings_s is not None:
        raise InvalidArgument("a recorded session has its snapshots alone: no --record, --findings")
    session = RecordedSession(Path(plan.asked.sources[0]))
    if plan.once:
        session.seek(len(session))
        show_page(plan, session.snapshot())
    elif has_screen() and not plan.is_json:
        if not show_screen(plan, capture_of(plan, session)):
            leave(FAILED)
    else:
        print_all(plan, session)
    return ANSWERED


def capture_of(plan: Plan, session: RecordedSession) -> Any:
    """The session as `screen.view_state.Capture`; it is played from its first snapshot on."""
    from kdissect.screen.view_state import ENDED, RUNNING, Capture

    def source(focus: Focus) -> Snapshot:
        return narrowed(session.snapshot(), focus)

    session.snapshot()  # an error is said before the screen is there
    return Capture(
        source,
        plan.title,
        lambda: ENDED if session.is_over else RUNNING,
        advance=session.advance,
        seek=session.seek,
        place=lambda: session.place,
    )


def show_page(plan: Plan, snapshot: Snapshot) -> None:
    """Print the last snapshot."""
    from kdissect.cli.top.page import print_page

    if plan.is_json:
        print_document(snapshot)
    else:
        print_page(snapshot, plan.title, snapshot.window_s)


def print_all(plan: Plan, session: RecordedSession) -> None:
    """Print a line for each snapshot."""
    for number in range(len(session)):
        session.seek(number - session.number)
        if plan.is_json:
            print_document(session.snapshot())
        else:
            click.echo(line_of(session.snapshot()))


def print_document(snapshot: Snapshot) -> None:
    """Print a snapshot as JSON."""
    click.echo(json_safe(json.dumps({**head("top"), **json_of(snapshot)})))
