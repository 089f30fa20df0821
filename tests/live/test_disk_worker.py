"""A writer thread ends its work on a slow disk, too."""

import threading
import time

from kdissect.live.files.disk_errors import DiskTrouble
from kdissect.live.files.disk_worker import LOOK_S, DiskWorker


class SlowWorker(DiskWorker):
    """Each call takes longer than the interval at which `drain` looks, even with no work left."""

    def __init__(self, calls: int) -> None:
        super().__init__("slow", DiskTrouble())
        self.left = calls
        self.calls = 0

    def work(self) -> None:
        # What is tested is a pass that is longer than this interval, so it has to last.
        time.sleep(2 * LOOK_S)
        self.calls += 1
        self.left = max(self.left - 1, 0)

    def has_work(self) -> bool:
        return self.left > 0


def test_slow_work_is_drained_once() -> None:
    worker = SlowWorker(calls=2)
    worker.start()
    # In a thread of its own: a `drain` that never returns is a failure, not a test that hangs.
    ending = threading.Thread(target=worker.end, daemon=True)
    ending.start()
    ending.join(60)
    assert not ending.is_alive()
    # It is woken while it works, so it may look once more.
    assert 2 <= worker.calls <= 3
    assert not worker.is_alive()
