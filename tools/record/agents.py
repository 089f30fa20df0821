"""The driver's side of the agents: processes that are sent commands and answer with events."""

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any, NamedTuple

from tools.record import installs

ANSWER_TIMEOUT_SECONDS = 120.0
EXIT_TIMEOUT_SECONDS = 20.0
REPOSITORY = Path(__file__).resolve().parents[2]


class Reply(NamedTuple):
    """What an agent answered to one command; `operation` and `arguments` are the command's."""

    operation: str
    arguments: dict[str, Any]
    start_ns: int
    end_ns: int
    result: Any
    error: str | None
    events: list[dict[str, Any]]


class AgentProcess:
    """One agent. `send` and `receive` overlap work of several agents; `call` does both."""

    def __init__(self, library: str, command: list[str], log: Path) -> None:
        self.library = library
        self._sent: list[tuple[str, dict[str, Any]]] = []
        self._lines: queue.Queue[str] = queue.Queue()
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=REPOSITORY,
                env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands: IO[str] = self._process.stdin
        reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        reader.start()

    def send(self, operation: str, **arguments: Any) -> None:
        """Give a command; its reply is for `receive`."""
        self._sent.append((operation, arguments))
        self._commands.write(json.dumps({"op": operation, **arguments}) + "\n")
        self._commands.flush()

    def receive(self, timeout: float = ANSWER_TIMEOUT_SECONDS) -> Reply:
        """The reply to the oldest command without one; raises when the agent failed at it."""
        operation, arguments = self._sent.pop(0)
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"{self.library} did not answer {operation} in time") from None
        if not line:
            raise RuntimeError(f"{self.library} ended during {operation}")
        reply = Reply(operation, arguments, **json.loads(line))
        if reply.error is not None:
            raise RuntimeError(f"{self.library} failed at {operation}: {reply.error}")
        return reply

    def stop(self) -> None:
        """Let the agent end itself, else end it by its process id."""
        self._commands.close()
        try:
            self._process.wait(EXIT_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self._lines.put(line)
        self._lines.put("")


def start_agent(library: str, bootstrap: str, kafka_version: str, directory: Path) -> AgentProcess:
    """Start the agent of a library: java, librdkafka, kafka_python or aiokafka."""
    log = directory / f"{library}.log"
    if library == "java":
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        class_path = installs.java_agent(kafka_version)
        return AgentProcess(library, ["java", *options, "-cp", class_path, "Agent", bootstrap], log)
    module = f"tools.record.clients.{library}_agent"
    python = str(installs.client_python())
    return AgentProcess(library, [python, "-m", module, bootstrap], log)


def python_version() -> str:
    """The interpreter version the Python agents share with this program."""
    return sys.version.split()[0]
