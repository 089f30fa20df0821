"""Java server processes: started, waited for, paused, ended by their process ids."""

import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

START_TIMEOUT_SECONDS = 90
STOP_TIMEOUT_SECONDS = 30
TOOL_TIMEOUT_SECONDS = 60


class Pause(NamedTuple):
    """A time during which the broker's process was stopped by SIGSTOP."""

    start_ns: int
    end_ns: int


class JavaServer:
    """One server process. `start` returns when its log says that it serves."""

    def __init__(self, command: list[str], directory: Path, started: str) -> None:
        self.directory = directory
        self.pauses: list[Pause] = []
        self._command = command
        self._started = re.compile(started)
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start the process and do not wait."""
        with (self.directory / "stdout.log").open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )

    def await_started(self) -> None:
        """Wait until a log of the server says that it serves."""
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._started.search(self.logged()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{self._command[-2:]} did not start:\n{self.logged()[-4000:]}")
            time.sleep(0.1)

    @property
    def is_running(self) -> bool:
        """Return whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def logged(self) -> str:
        """Log of the server so far."""
        files = (self.directory / name for name in ("server.log", "stdout.log"))
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def pause(self, seconds: float, meanwhile: Callable[[], None]) -> None:
        """Stop the process for a while and do something, whose requests become slow."""
        assert self._process is not None
        start_ns = time.time_ns()
        self._process.send_signal(signal.SIGSTOP)
        try:
            meanwhile()
            time.sleep(seconds)
        finally:
            self._process.send_signal(signal.SIGCONT)
        self.pauses.append(Pause(start_ns, time.time_ns()))

    def stop(self, politely: bool = True) -> None:
        """End the process: politely, then not."""
        if self._process is None:
            return
        if politely:
            self._process.terminate()
        else:
            self._process.kill()
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def run_tool(command: list[str], given: str = "") -> str:
    """Run one of Kafka's command-line tools; return its output."""
    done = subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def free_port(wanted: int) -> int:
    """The requested loopback port if free, else one chosen by the system."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise RuntimeError("no free loopback port")
