"""Output of ``kdissect live``: lines on stdout while it runs, and messages on stderr."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kdissect.capture.packet import SECOND_NS
from kdissect.cli.live.output import Output
from kdissect.dissection.options import Options
from kdissect.live.listener import Listener, LiveCapture, Status
from kdissect.live.source_choice import Asked, filter_text
from kdissect.text import human
from kdissect.text.escape import escaped, json_safe

if TYPE_CHECKING:
    from kdissect.api.finding_states import FindingEvent
    from kdissect.live.counting.snapshot import Snapshot

OVER: Final = "over"  # event of a finding
CLOCK: Final = slice(11, 19)
MAX_NAMES: Final = 5  # limit of names listed


class Lines(Listener):
    """A line of the counts of `meters`, every `every_s` seconds by the packets' clock."""

    def __init__(
        self, meters: Any, every_s: float, text_of: "Callable[[Snapshot], str | dict[str, Any]]"
    ) -> None:
        self._meters = meters
        self._every_ns = round(every_s * SECOND_NS)
        self._text_of = text_of
        # Time of the last line; the first tick has no line.
        self._last_ns: int | None = None
        self._has_begun = False
        self._exchanges = 0  # counted in the last line
        self._output = Output()

    def begin(self, watcher: LiveCapture | None = None) -> None:
        self._output.begin()

    def is_due(self, now_ns: int) -> bool:
        """Return whether a tick at that time writes a line."""
        return self._last_ns is not None and now_ns >= self._last_ns + self._every_ns

    def tick(self, status: Status) -> None:
        if self._last_ns is None:
            self._last_ns = status.now_ns
        elif self.is_due(status.now_ns):
            self._write(status)

    def finish(self, status: Status) -> None:
        """Write a last line, unless one was just written with all counts, or there was no input.

        At the end, requests that were still waiting are counted as unanswered.
        """
        is_late = not self._has_begun or status.now_ns >= (self._last_ns or 0) + SECOND_NS
        if status.balance.packets and (is_late or status.balance.exchanges != self._exchanges):
            self._write(status)
        self._output.end()
        if self._output.left_out:
            tell(f"{human.counted(self._output.left_out, 'line')} left out: stdout was not read")

    def _write(self, status: Status) -> None:
        self._has_begun = True
        self._exchanges = status.balance.exchanges
        self._last_ns = status.now_ns
        found = self._text_of(self._meters.snapshot())
        text = found if isinstance(found, str) else json_safe(json.dumps(found))
        self._output.put(text)


class Deadline(Listener):
    """Stops the watcher after this many seconds by this machine's clock."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._watcher: LiveCapture | None = None

    def begin(self, watcher: LiveCapture) -> None:
        self._watcher = watcher

    def tick(self, status: Status) -> None:
        if self._watcher is not None and time.monotonic() >= self._end:
            self._watcher.stop()


def tell(text: str) -> None:
    """Print a message on stderr."""
    click.echo(f"kdissect: {escaped(text)}", err=True)


def tell_finding(event: "FindingEvent") -> None:
    """Print a finding that began, got worse, or is over, on stderr."""
    finding = event.finding
    clock = human.time(event.time_ns)[CLOCK]
    text = "" if event.event == OVER else f": {finding.text}"
    tell(f"{clock} {event.event}: {event.severity} {finding.id}{text}")


def tell_begin(asked: Asked, options: Options) -> None:
    """Print the interfaces and the filter; on a terminal, also how to stop."""
    is_terminal = sys.stderr.isatty()
    if asked.interfaces:
        how = "; Ctrl-C ends it" if is_terminal else ""
        tell(f"captures on {', '.join(asked.interfaces)}: {filter_text(asked, options)}{how}")
        if is_terminal and os.geteuid() == 0:
            tell("this is root; with --user NAME it would be that user from now on")
    elif is_terminal and asked.is_live:
        tell(f"reads {', '.join(asked.sources)} as it is written; Ctrl-C ends it")


def tell_end(status: Status, names: list[str], files: Any) -> None:
    """Print the totals and the location of the output."""
    tell_totals(status, names)
    if files is not None:
        tell_files(files.rows, files.number, files.run.path)


def tell_files(rows: int, rotations: int, run: str | Path) -> None:
    """Print the number of rows written, and where they are."""
    tell(f"{human.counted(rows, 'row')} in {human.counted(rotations, 'rotation')}: {run}")


def tell_totals(status: Status, names: list[str]) -> None:
    """Print the totals."""
    balance = status.balance
    shown = ", ".join(names[:MAX_NAMES])
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    tell(
        f"{human.counted(balance.packets, 'packet')} of {shown}{more}, "
        f"{human.count(status.packet_source.dropped)} dropped: "
        f"{human.counted(balance.exchanges, 'exchange')} on "
        f"{human.counted(balance.connections, 'connection')}"
    )
