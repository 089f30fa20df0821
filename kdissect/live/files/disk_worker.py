"""`DiskWorker`: a thread that writes, so that who reads packets need not wait for a disk."""

import threading
import time
from typing import Final

from kdissect.errors import OutputError
from kdissect.live.files.disk_errors import DiskTrouble

# So long it is tried to write the rest at the end, while nothing can be written.
LAST_TRIES_S: Final = 2.0
LOOK_S: Final = 0.05


class DiskWorker(threading.Thread):
    """Does `work` whenever it is woken; what the disk does not take, it tries again then."""

    def __init__(self, name: str, trouble: DiskTrouble) -> None:
        super().__init__(name=name, daemon=True)
        self.trouble = trouble
        self.failure: BaseException | None = None
        self._woken = threading.Event()
        self._is_ending = False
        self._is_busy = False

    def work(self) -> None:
        """Do what there is to do; raises OSError or OutputError where the disk does not take it."""
        raise NotImplementedError

    def has_work(self) -> bool:
        """Whether there is still something to do."""
        raise NotImplementedError

    def wake(self) -> None:
        """There is something to do, or it is time to try again."""
        self._woken.set()

    def run(self) -> None:
        """The thread."""
        while True:
            self._woken.wait()
            self._woken.clear()
            if self._is_ending:
                return
            self._is_busy = True
            try:
                self._try()
            except BaseException as error:  # raised again where packets are read
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
        """Raise what nobody has foreseen."""
        if self.failure is not None:
            raise self.failure

    def drain(self) -> None:
        """Finish all work, or give it up where the disk takes nothing."""
        give_up = time.monotonic() + LAST_TRIES_S
        while (self.has_work() or self._is_busy) and self.failure is None:
            self.wake()
            time.sleep(LOOK_S)
            if not self.trouble.is_failing:
                give_up = time.monotonic() + LAST_TRIES_S
            elif time.monotonic() > give_up:
                break
        self.check()

    def end(self) -> None:
        """The same, and end."""
        self.drain()
        self._is_ending = True
        self.wake()
        self.join()
