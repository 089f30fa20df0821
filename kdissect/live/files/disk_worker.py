"""`DiskWorker`: a writer thread, so that the thread that reads packets does not wait for a disk."""

import threading
import time
from typing import Final

from kdissect.errors import OutputError
from kdissect.live.files.disk_errors import DiskTrouble

# Maximum time of attempts to write the rest at the end, while writing fails.
LAST_TRIES_S: Final = 2.0
LOOK_S: Final = 0.05


class DiskWorker(threading.Thread):
    """Runs `work` whenever it is woken; after a disk error it retries then."""

    def __init__(self, name: str, trouble: DiskTrouble) -> None:
        super().__init__(name=name, daemon=True)
        self.trouble = trouble
        self.failure: BaseException | None = None
        self._woken = threading.Event()
        self._is_ending = False
        self._is_busy = False

    def work(self) -> None:
        """Do the pending work; raises OSError or OutputError on disk errors."""
        raise NotImplementedError

    def has_work(self) -> bool:
        """Return whether work is pending."""
        raise NotImplementedError

    def wake(self) -> None:
        """Signal new work, or a retry."""
        self._woken.set()

    def run(self) -> None:
        """Thread function."""
        while True:
            self._woken.wait()
            self._woken.clear()
            if self._is_ending:
                return
            self._is_busy = True
            try:
                self._try()
            except BaseException as error:  # re-raised in the thread that reads packets
                self.failure = error
                return
            finally:
                self._is_busy = False

    def _try(self) -> None:
        try:
            self.work()
        except (OSError, OutputError) as error:
            self.trouble.failed(self.name, error)
        else:
            self.trouble.worked(self.name)

    def check(self) -> None:
        """Re-raise an unexpected error."""
        if self.failure is not None:
            raise self.failure

    def drain(self) -> None:
        """Finish all work, or give up if writing keeps failing."""
        give_up = time.monotonic() + LAST_TRIES_S
        while (self.has_work() or self._is_busy) and self.failure is None:
            if self.has_work():
                self.wake()
            time.sleep(LOOK_S)
            if not self.trouble.is_failing:
                give_up = time.monotonic() + LAST_TRIES_S
            elif time.monotonic() > give_up:
                break
        self.check()

    def end(self) -> None:
        """Drain, and end the thread."""
        self.drain()
        self._is_ending = True
        self.wake()
        self.join()
