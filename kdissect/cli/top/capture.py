"""The capture of ``kdissect top``: a watcher, or the leader of workers, in its own thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kdissect.cli.top.shown import Runs
from kdissect.screen.view_state import ENDED, FAILED, RUNNING

# Time limit for the thread to end: it checks ten times a second, and finishes pending work.
STOPPING_S: Final = 10.0


class Capturing:
    """Runs `runs` until its source ends, an exception is raised, or `stop`."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, at most for this time; return whether it has."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Stop the thread, and join it."""
        self.runs.stop()
        self.wait(STOPPING_S)

    def state(self) -> str:
        """State name, as in `screen.view_state`."""
        if self.error is not None:
            return FAILED
        return RUNNING if self._thread.is_alive() else ENDED

    def check(self) -> None:
        """Raise the exception of the thread."""
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self.runs.run()
        except BaseException as error:  # reported in the other thread
            self.error = error


@contextmanager
def capturing(runs: Runs) -> Iterator[Capturing]:
    """Run the capture inside this context; its exception is raised at the end."""
    made = Capturing(runs)
    made.start()
    try:
        yield made
    finally:
        made.stop()
    made.check()
