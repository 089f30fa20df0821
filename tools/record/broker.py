"""A real Kafka broker in KRaft combined mode, on the loopback only."""

import base64
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

STARTED = "Kafka Server started"
START_TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 30

# One JSON line per completed request goes to requests.jsonl, each behind the time it was logged.
LOG4J2 = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="error" shutdownHook="disable">
  <Appenders>
    <File name="server" fileName="{directory}/server.log">
      <PatternLayout pattern="[%d] %p %m (%c)%n"/>
    </File>
    <File name="requests" fileName="{directory}/requests.jsonl">
      <PatternLayout pattern="%d{{UNIX_MILLIS}} %m%n"/>
    </File>
  </Appenders>
  <Loggers>
    <Root level="info"><AppenderRef ref="server"/></Root>
    <Logger name="kafka.request.logger" level="debug" additivity="false">
      <AppenderRef ref="requests"/>
    </Logger>
  </Loggers>
</Configuration>
"""


class BrokerSettings(NamedTuple):
    """What one broker is: its place in the cluster and the properties that differ from Kafka's."""

    node_id: int
    port: int
    controller_port: int
    heap_megabytes: int
    properties: dict[str, str]


class Pause(NamedTuple):
    """A time during which the broker's process was stopped by SIGSTOP."""

    start_ns: int
    end_ns: int


class Broker:
    """One broker process. `start` returns when it serves; `stop` ends it by its process id."""

    def __init__(self, settings: BrokerSettings, jars: Path, directory: Path) -> None:
        self.settings = settings
        self.pauses: list[Pause] = []
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._jars = jars
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What clients bootstrap from."""
        return f"127.0.0.1:{self.settings.port}"

    @property
    def request_log(self) -> Path:
        """The broker's request log, complete once the broker has stopped."""
        return self._directory / "requests.jsonl"

    def start(self) -> None:
        """Format the storage, start the process, wait until it says it serves."""
        self._directory.mkdir(parents=True)
        self._write_configuration()
        configuration = str(self._directory / "server.properties")
        format_storage = ["kafka.tools.StorageTool", "format", "-t", self.cluster_id]
        subprocess.run(
            [*self._java(), *format_storage, "-c", configuration],
            check=True,
            capture_output=True,
            timeout=START_TIMEOUT_SECONDS,
        )
        with (self._directory / "stdout.log").open("wb") as output:
            self._process = subprocess.Popen(
                [*self._java(), "kafka.Kafka", configuration],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        self._wait_until_started(time.monotonic() + START_TIMEOUT_SECONDS)

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

    def stop(self) -> None:
        """End the process: politely, then not."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _java(self) -> list[str]:
        return [
            "java",
            f"-Xmx{self.settings.heap_megabytes}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={self._directory}/log4j2.xml",
            "-cp",
            f"{self._jars}/*",
        ]

    def _write_configuration(self) -> None:
        settings = self.settings
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(settings.node_id),
            "controller.quorum.voters": f"{settings.node_id}@127.0.0.1:{settings.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{settings.port},"
            f"CONTROLLER://127.0.0.1:{settings.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{settings.port}",
            "log.dirs": f"{self._directory}/data",
            "num.network.threads": "2",
            "num.io.threads": "2",
            "log.cleaner.enable": "false",
            **settings.properties,
        }
        lines = "".join(f"{name}={value}\n" for name, value in properties.items())
        (self._directory / "server.properties").write_text(lines)
        (self._directory / "log4j2.xml").write_text(LOG4J2.format(directory=self._directory))

    def _wait_until_started(self, deadline: float) -> None:
        assert self._process is not None
        log = self._directory / "server.log"
        while not (log.exists() and STARTED in log.read_text()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                output = (self._directory / "stdout.log").read_text()
                raise RuntimeError(f"the broker did not start:\n{output[-4000:]}")
            time.sleep(0.1)


def free_port(wanted: int) -> int:
    """The wanted loopback port when nobody listens there, else one that the system picks."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise RuntimeError("no free loopback port")
