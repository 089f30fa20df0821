"""Faults injected into a capture one after the other, at random moments."""

import errno
import random
import time
from collections.abc import Callable
from typing import NamedTuple

from tools.soak.capture import Failed, LiveCapture
from tools.soak.judge import Outage
from tools.soak.scene import Scene

SECOND_NS = 1_000_000_000
# Beside the flush interval: rows are handed on once a second, and written by another thread.
FLUSH_MARGIN_S = 1.5
# In flight when an interface came back.
GRACE_NS = SECOND_NS // 2
ENDING = ("SIGTERM", "kill -9", "worker killed")
TWICE = 0.3  # of kills are followed by another
BALLAST_SPLIT = b"\0" * (1 << 20)


class Fault(NamedTuple):
    """A fault that was injected; `failure` describes a violated expectation."""

    kind: str
    begin_ns: int
    end_ns: int
    outages: list[Outage]
    failure: str = ""


class Faults:
    """All kinds of them; each takes some seconds, and leaves everything as it was before."""

    def __init__(
        self,
        scene: Scene,
        capture: LiveCapture,
        flush_s: float,
        chance: random.Random,
        is_one_run: bool = False,
    ) -> None:
        self.scene = scene
        self.capture = capture
        self.flush_s = flush_s
        self.chance = chance
        self.kinds: dict[str, Callable[[], list[Outage]]] = {
            "interface down": self.down,
            "interface gone": self.gone,
            "disk full": self.full,
            "SIGTERM": self.terminate,
            "kill -9": self.kill,
            "SIGHUP": self.hang_up,
            "broker restart": self.restart_broker,
        }
        if capture.workers > 1:
            self.kinds["worker killed"] = self.kill_worker
        if is_one_run:
            self.kinds = {kind: act for kind, act in self.kinds.items() if kind not in ENDING}
        self._bag: list[str] = []

    def next(self) -> Fault:
        """Any of those that there were not since the last of all."""
        if not self._bag:
            self._bag = self.chance.sample(list(self.kinds), len(self.kinds))
        kind = self._bag.pop()
        begin = time.time_ns()
        try:
            outages, failure = self.kinds[kind](), ""
        except Failed as error:
            outages, failure = self.begin_anew(kind, begin), str(error)
        return Fault(kind, begin, time.time_ns(), outages, failure)

    def begin_anew(self, kind: str, begin: int) -> list[Outage]:
        """After a violation: everything since then, and one flush interval before, may be lost."""
        self.capture.end()
        ready = self.capture.start()
        before = int((self.flush_s + FLUSH_MARGIN_S) * SECOND_NS)
        return [Outage(f"{kind}, failed", begin - before, ready)]

    def down(self) -> list[Outage]:
        side = self.scene.cable.near
        begin = time.time_ns()
        side.sets("down")
        self.pause(1, 4)
        side.sets("up")
        self.scene.lead()
        end = self.capture.await_capturing()
        return [Outage("interface down", begin, end + GRACE_NS)]

    def gone(self) -> list[Outage]:
        begin = time.time_ns()
        self.scene.cable.unplug()
        self.pause(1, 4)
        self.scene.plug()
        end = self.capture.await_moved()
        return [Outage("interface gone", begin, end + GRACE_NS)]

    def full(self) -> list[Outage]:
        """Fill the disk; nothing may be lost."""
        ballast = self.scene.disk / "ballast"
        try:
            with ballast.open("wb", buffering=0) as file:
                while file.write(BALLAST_SPLIT):
                    pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        self.pause(3, 8)
        ballast.unlink()
        self.pause(2, 3)
        return []

    def terminate(self) -> list[Outage]:
        begin = time.time_ns()
        self.capture.stop()
        self.pause(0, 2)
        return [Outage("SIGTERM", begin, self.capture.start())]

    def kill(self) -> list[Outage]:
        before = int((self.flush_s + FLUSH_MARGIN_S) * SECOND_NS)
        begin = time.time_ns() - before
        self.capture.kill()
        self.pause(0, 2)
        ready = self.capture.start()
        if self.chance.random() < TWICE:
            # While it recovers the state of the previous run.
            self.pause(0, 0.5)
            self.capture.kill()
            ready = self.capture.start()
        return [Outage("kill -9", begin, ready)]

    def kill_worker(self) -> list[Outage]:
        before = int((self.flush_s + FLUSH_MARGIN_S) * SECOND_NS)
        begin = time.time_ns() - before
        self.capture.kill_worker(self.chance.randrange(self.capture.workers))
        self.pause(0, 2)
        return [Outage("worker killed", begin, self.capture.start())]

    def hang_up(self) -> list[Outage]:
        """Send a SIGHUP; nothing may be lost."""
        self.capture.hang_up()
        self.pause(0, 1)
        return []

    def restart_broker(self) -> list[Outage]:
        """Restart the broker; nothing may be lost."""
        self.scene.cluster.servers[1].stop(politely=self.chance.random() < 0.5)
        self.pause(0, 2)
        self.scene.cluster.start_nodes([1])
        return []

    def pause(self, least_s: float, most_s: float) -> None:
        time.sleep(self.chance.uniform(least_s, most_s))
