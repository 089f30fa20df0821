"""`kdissect live` as the soak runs it: started, ended and killed, and when it captures."""

import signal
import subprocess
import time
from pathlib import Path

from tools.namespaces import Side

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 60.0
LOOK_S = 0.02
SHOWN = 500


class Failed(Exception):
    """The program broke a promise."""


class LiveCapture:
    """One process at a time; ``{}`` in the command is the interface, ``{out}`` the directory."""

    def __init__(
        self, command: list[str], side: Side, output: Path, log: Path, environment: dict[str, str]
    ) -> None:
        parts = (part.replace("{out}", str(output)) for part in command)
        self.command = [*side.enter, *(part.replace("{}", side.interface) for part in parts)]
        self.side = side
        self.log = log
        self.environment = environment
        self._said_at = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def start(self) -> int:
        """Gives the time from which on it captures, ns."""
        with self.log.open("ab") as log:
            self._said_at = log.tell()
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

    def is_capturing(self) -> bool:
        """Return whether a packet socket of its namespace hears the interface that is there now."""
        try:
            sockets = Path(f"/proc/{self.process.pid}/net/packet").read_text()
        except OSError:
            return False
        # Columns: socket, references, type, protocol, interface, is running, ...
        fields = [line.split() for line in sockets.splitlines()[1:]]
        return [self._index(), "1"] in [one[4:6] for one in fields]

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
