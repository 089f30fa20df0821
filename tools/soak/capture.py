"""`kdissect live` as the soak runs it: started, ended and killed, and when it captures."""

import os
import re
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from tools.namespaces import Side

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 60.0
LOOK_S = 0.02
SHOWN = 500
# For several workers whose interface is another one: they look at it five times a second, and in
# /proc/net/packet their sockets are those of all interfaces.
MOVE_S = 2.0
EVERY_S = 10.0  # between two looks at the memory
PACKETS = re.compile(r"(\d+) packets of \S+, (\d+) dropped")


class Failed(Exception):
    """The program broke a promise."""


class LiveCapture:
    """One run at a time; ``{}`` in the command is the interface, ``{out}`` the directory.

    A run has a process, or with `workers` above 1 as many more.
    """

    def __init__(
        self,
        command: list[str],
        side: Side,
        output: Path,
        log: Path,
        environment: dict[str, str],
        workers: int = 1,
    ) -> None:
        parts = (part.replace("{out}", str(output)) for part in command)
        self.command = [*side.enter, *(part.replace("{}", side.interface) for part in parts)]
        self.side = side
        self.log = log
        self.environment = environment
        self.workers = workers
        self._said_at = 0
        self._has_moved = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def start(self) -> int:
        """Gives the time from which on it captures, ns."""
        with self.log.open("ab") as log:
            self._said_at = log.tell()
            self._has_moved = False
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
            )
        return self.await_capturing()

    def await_capturing(self) -> int:
        """Wait until it captures; gives the time, ns."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.is_capturing():
            if self.process.poll() is not None:
                raise Failed(f"ended with {self.process.returncode}: {self.said()}")
            if time.monotonic() > deadline:
                raise Failed(f"does not capture after {START_TIMEOUT_S:.0f} s: {self.said()}")
            time.sleep(LOOK_S)
        return time.time_ns()

    def await_moved(self) -> int:
        """Wait until it captures on an interface that was made again; gives the time, ns."""
        if self.workers == 1:
            return self.await_capturing()
        self._has_moved = True
        self.await_capturing()
        time.sleep(MOVE_S)
        return time.time_ns()

    def is_capturing(self) -> bool:
        """Return whether a packet socket of its namespace hears the interface that is there now.

        Of several workers each has one; of all interfaces, if it was made again. Their filters pass
        nothing until all are in their group, which is before the processes are started.
        """
        if self.workers > 1 and len(self.processes) <= self.workers:
            return False
        try:
            sockets = Path(f"/proc/{self.process.pid}/net/packet").read_text()
        except OSError:
            return False
        # Columns: socket, references, type, protocol, interface, is running, ...
        fields = [line.split() for line in sockets.splitlines()[1:]]
        wanted = ["0" if self._has_moved else self._index(), "1"]
        return [one[4:6] for one in fields].count(wanted) >= self.workers

    @property
    def processes(self) -> list[int]:
        """Processes of the run, the first one before its workers; those that are there."""
        of_first = self.process.pid
        try:
            children = Path(f"/proc/{of_first}/task/{of_first}/children").read_text().split()
        except OSError:
            return []
        return [of_first, *map(int, children)]

    def kill_worker(self, number: int) -> None:
        """SIGKILL to a worker: all must end with an error that says so."""
        os.kill(self.processes[1 + number], signal.SIGKILL)
        code = self.process.wait(STOP_TIMEOUT_S)
        said = self.said()
        if code != 1 or f"worker {number + 1} of {self.workers} was killed (SIGKILL)" not in said:
            raise Failed(f"ended with {code} after worker {number + 1} was killed: {said}")

    def memory(self) -> int:
        """Bytes of all processes, pages that they share counted once; 0 if there are none."""
        found = 0
        for process in self.processes if self._process is not None else []:
            with suppress(OSError):
                text = Path(f"/proc/{process}/smaps_rollup").read_text()
                found += int(text.partition("\nPss:")[2].split()[0]) << 10
        return found

    def packets(self) -> tuple[int, int]:
        """Packets that all runs which ended in order saw, and that the kernel dropped."""
        found = PACKETS.findall(self.log.read_text(errors="replace"))
        return sum(int(seen) for seen, _ in found), sum(int(dropped) for _, dropped in found)

    def hang_up(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """SIGTERM; it must end well."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"runs {STOP_TIMEOUT_S:.0f} s after SIGTERM: {self.said()}") from None
        if code:
            raise Failed(f"ended with {code} after SIGTERM: {self.said()}")

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Kill it at any moment."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def said(self) -> str:
        """Last characters of its log since its start."""
        said = self.log.read_bytes()[self._said_at :].decode(errors="replace")
        return said[-SHOWN:].strip() or "nothing was said"

    def _index(self) -> str:
        return self.side.ip(f"-o link show {self.side.interface}").partition(":")[0]


class Memory(threading.Thread):
    """Looks at the memory of a capture until it is stopped: `samples` in bytes."""

    def __init__(self, capture: LiveCapture) -> None:
        super().__init__(daemon=True)
        self.capture = capture
        self.samples: list[int] = []
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(EVERY_S):
            if found := self.capture.memory():
                self.samples.append(found)

    def stop(self) -> None:
        self._stopped.set()
        self.join()
