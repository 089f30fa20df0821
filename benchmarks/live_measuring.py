"""Run one capturer against a sender at one rate: packets captured and resources used."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks import timing
from benchmarks.live_capturers import PRINTED, Capturer
from benchmarks.live_sender import Sent
from benchmarks.processes import cpu_seconds, tree, wanted_seconds
from benchmarks.workloads import ROOT
from tools.namespaces import Cable, Side, run

FIRST_CORE = "0"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 60.0
# A capturer is idle when it takes less than a tenth of a core for longer than libpcap keeps packets
# that do not fill a block: a second.
SAMPLE_SECONDS, IDLE_SECONDS, IDLE_SHARE = 0.25, 1.25, 0.1
BEHIND_SECONDS = 2.0  # one that is busy longer than this after the last packet does not keep up
KEPT_RATE = 0.97  # a sender that is slower than this share of the rate is at its limit


class Step(NamedTuple):
    """Sent and captured amounts.

    `rate` was requested; `arrived` came to the interface. `cpu_seconds` are those between the first
    packet and `behind` seconds after the last, when all work was done.
    """

    rate: float
    sent: Sent
    arrived: int
    packets: int
    dropped: int
    cpu_seconds: float
    peak_bytes: int
    behind: float
    slack: int = 0

    @property
    def is_held(self) -> bool:
        """Return whether all packets came out, soon."""
        is_soon = self.behind <= BEHIND_SECONDS
        return is_soon and not self.dropped and self.packets >= self.arrived - self.slack

    @property
    def is_senders_limit(self) -> bool:
        """Return whether the sender could not send as much."""
        return self.sent.packets / self.sent.seconds < self.rate * KEPT_RATE


class Captured:
    """A capturer that runs, bound to the last core."""

    def __init__(self, capturer: Capturer, side: Side, scratch: Path) -> None:
        self.capturer = capturer
        self.scratch = scratch
        parts = (part.replace("{out}", str(scratch)) for part in capturer.command)
        command = [part.replace("{}", side.interface) for part in parts]
        with (scratch / "said").open("wb") as said, (scratch / PRINTED).open("wb") as printed:
            self.process = subprocess.Popen(
                [*side.enter, "taskset", "-c", capturer.cores, *command],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=said,
                env=timing.environment(capturer.path),
                cwd=scratch,
            )
        self._await(side)

    @property
    def said(self) -> str:
        return (self.scratch / "said").read_text(errors="replace")

    def cpu_seconds(self) -> float:
        """CPU time of a process and its descendants."""
        return sum(cpu_seconds(process) for process in tree(self.process.pid))

    def wanted_seconds(self) -> float:
        """Time for which threads of it and its descendants ran or waited for a core."""
        return sum(wanted_seconds(process) for process in tree(self.process.pid))

    def peak_bytes(self) -> int:
        return sum(memory(process, "VmHWM") for process in tree(self.process.pid))

    def resident_bytes(self) -> int:
        return sum(memory(process, "VmRSS") for process in tree(self.process.pid))

    def settle(
        self,
        longest: float = 2 * BEHIND_SECONDS,
        sample: float = SAMPLE_SECONDS,
        share: float = IDLE_SHARE,
        *,
        with_waiting: bool = False,
    ) -> float:
        """Wait until it is idle, or was busy for longer; gives for how long it was busy.

        It is idle when it takes less than a `share` of a core, in samples of so many seconds; a
        thread that waits for a core counts as one that has it, if asked.
        """
        used = self.wanted_seconds if with_waiting else self.cpu_seconds
        started = time.perf_counter()
        busy = passed = 0.0
        while passed < busy + IDLE_SECONDS and busy < longest:
            before = used()
            time.sleep(sample)
            passed = time.perf_counter() - started
            if used() - before > sample * share:
                busy = passed
        return busy

    @contextmanager
    def paused(self) -> Iterator[None]:
        """All its processes are stopped, and go on afterwards."""
        processes = tree(self.process.pid)
        try:
            for process in processes:
                os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    def stop(self) -> None:
        """Tell it to end, and wait."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        for process in reversed(tree(self.process.pid)):
            os.kill(process, signal.SIGKILL)
        self.process.wait()

    def _await(self, side: Side) -> None:
        """Until a packet socket of the namespace is there; there is no other."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while len(run([*side.enter, "cat", "/proc/net/packet"]).splitlines()) < 2:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                command = " ".join(self.capturer.command)
                raise RuntimeError(f"{command} does not capture: {self.said[-2000:]}")
            time.sleep(0.05)
        time.sleep(0.2)


@contextmanager
def captured(capturer: Capturer, side: Side, directory: Path | None) -> Iterator[Captured]:
    """A capturer with a directory of its own, which is removed with all its files."""
    with tempfile.TemporaryDirectory(prefix="kdissect-live-", dir=directory) as scratch:
        one = Captured(capturer, side, Path(scratch))
        try:
            yield one
        finally:
            one.stop()


def measured(
    capturer: Capturer, cable: Cable, capture: Path, rate: float, seconds: float, scratch: Path
) -> Step:
    """One step; nothing of it stays on the disk."""
    before, _ = cable.far.counts()
    with captured(capturer, cable.far, scratch) as one:
        one.settle()  # workers import after their sockets are open
        used = one.cpu_seconds()
        sent = send(cable.near, capture, rate, seconds)
        behind = one.settle()
        used = one.cpu_seconds() - used
        peak = one.peak_bytes()
        arrived = cable.far.counts()[0] - before
        one.stop()
        counted = capturer.counted(one.said, one.scratch)
    return Step(
        rate, sent, arrived, counted.packets, counted.dropped, round(used, 3), peak,
        round(behind, 2), capturer.slack,
    )  # fmt: skip


def send(
    side: Side, capture: Path, rate: float, seconds: float, loops: int = 0, packets: int = 0
) -> Sent:
    """Send the capture from a namespace, bound to the first core."""
    done = subprocess.run(
        [*sending(side, capture, rate, seconds), "--loops", str(loops), "--packets", str(packets)],
        capture_output=True, text=True, cwd=ROOT, check=True,
    )  # fmt: skip
    return Sent(**json.loads(done.stdout))


def sending(side: Side, capture: Path, rate: float, seconds: float) -> list[str]:
    """The command of a sender."""
    program = [sys.executable, "-m", "benchmarks.live_sender", side.interface, str(capture)]
    limits = ["--rate", f"{rate:.0f}", "--seconds", str(seconds)]
    return [*side.enter, "taskset", "-c", FIRST_CORE, *program, *limits]


def memory(process: int, name: str) -> int:
    """A figure of one process' status, in bytes; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)
