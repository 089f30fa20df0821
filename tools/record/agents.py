"""The driver's side of the agents: processes that are sent commands and answer with events."""

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any, NamedTuple

from tools.record import client_log, installs
from tools.record.releases import NEWEST

ANSWER_TIMEOUT_SECONDS = 120.0
EXIT_TIMEOUT_SECONDS = 20.0
JAVA_OPTIONS = (
    *("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
GO_LIBRARIES = ("sarama", "franz")
REPOSITORY = Path(__file__).resolve().parents[2]


class Reply(NamedTuple):
    """Answer of an agent to one command; `operation` and `arguments` are the command's."""

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
        self._log = log
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

    @property
    def process_id(self) -> int:
        """Process id of the agent."""
        return self._process.pid

    def send(self, operation: str, **arguments: Any) -> None:
        """Give a command; its reply is for `receive`."""
        self._sent.append((operation, arguments))
        self._commands.write(json.dumps({"op": operation, **arguments}) + "\n")
        self._commands.flush()

    def receive(self) -> Reply:
        """The reply to the oldest command without one; raises when the agent failed at it."""
        reply = self.await_reply(ANSWER_TIMEOUT_SECONDS)
        if reply.error is not None:
            tail = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.library} failed at {reply.operation}: {reply.error}\n{tail}")
        return reply

    def await_reply(self, seconds: float) -> Reply:
        """The same, but failures are only told."""
        operation, arguments = self._sent.pop(0)
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"{self.library} did not answer {operation} in time") from None
        if not line:
            tail = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.library} ended during {operation}:\n{tail}")
        return Reply(operation, arguments, **json.loads(line))

    def kill(self) -> None:
        """Kill the agent, without a clean shutdown."""
        self._process.kill()
        self._process.wait()
        self._commands.close()

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


class Library(NamedTuple):
    """A client library and its version; None is the newest that is installed."""

    name: str
    version: str | None

    @property
    def is_java(self) -> bool:
        """Return whether Apache's own client does the work."""
        return self.name in ("java", "streams")


def parse_library(text: str) -> Library:
    """The library that a scenario writes as "java", "java@2.4.1", or, for a second agent of the
    same library beside the first, "java@2.4.1#2".
    """
    name, _, version = text.partition("#")[0].partition("@")
    return Library(name, version or None)


def start_agent(
    text: str, bootstrap: str, log: Path, prefix: list[str], logs_requests: bool
) -> AgentProcess:
    """Start the agent of a library, written as `parse_library` reads it; `prefix` is what its
    command begins with. Java's clients can log each request.
    """
    library = parse_library(text)
    logging = client_log.LOGGING if logs_requests else ()
    return AgentProcess(text, prefix + _command(library, bootstrap, logging), log)


def _command(library: Library, bootstrap: str, logging: tuple[str, ...]) -> list[str]:
    if library.is_java:
        make = installs.streams_agent if library.name == "streams" else installs.java_agent
        options, parts = make(library.version or NEWEST)
        return ["java", *JAVA_OPTIONS, *logging, *options, bootstrap, *parts]
    if library.name in GO_LIBRARIES:
        return [str(installs.go_agent(library.name)), bootstrap]
    if library.name == "kafkajs":
        agent = str(installs.SOURCES / "clients" / "kafkajs_agent.js")
        return ["env", f"NODE_PATH={installs.node_modules()}", "node", agent, bootstrap]
    module = f"tools.record.clients.{library.name}_agent"
    return [str(installs.client_python(*library)), "-m", module, bootstrap]


def python_version() -> str:
    """The interpreter version the Python agents share with this program."""
    return sys.version.split()[0]
