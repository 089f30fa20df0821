"""The capture of ``kdissect top``: a watcher in a thread of its own, and what it has come to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kdissect.live.watcher import Watcher
from kdissect.screen.view_state import ENDED, FAILED, RUNNING

# What a thread may take to end: it looks for that ten times a second, and finishes what it has.
STOPPING_S: Final = 10.0


class Capturing:
    """Runs `watcher` until its wire ends, something is raised, or `stop`."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is over, or for so long; whether it is."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End it, and wait for that."""
        self.watcher.stop()
        self.wait(STOPPING_S)

    def state(self) -> str:
        """What `screen.looking` calls it."""
        if self.error is not None:
            return FAILED
        return RUNNING if self._thread.is_alive() else ENDED

    def check(self) -> None:
        """Raise what the thread raised."""
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self.watcher.run()
        except BaseException as error:  # told in the other thread
            self.error = error


@contextmanager
def capturing(watcher: Watcher) -> Iterator[Capturing]:
    """The capture runs in here; an error of it is raised at the end."""
    made = Capturing(watcher)
    made.start()
    try:
        yield made
    finally:
        made.stop()
    made.check()
