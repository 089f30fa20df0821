"""One recording: broker, sniffer and agents brought up, a scenario played, the files written."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tools.record import installs
from tools.record.agents import AgentProcess, Reply, python_version, start_agent
from tools.record.broker import Broker, BrokerSettings, free_port
from tools.record.request_log import read_request_log
from tools.record.sidecar import Facts, Journal, capture_facts, write_sidecar
from tools.record.sniffer import Sniffer, to_pcapng

LISTENER = "PLAINTEXT"


class Options(NamedTuple):
    """What the user asked for."""

    kafka_version: str
    port: int
    heap_megabytes: int


class Stage:
    """What a scenario plays on: the broker, and an agent for each library, started on demand."""

    def __init__(self, options: Options, broker: Broker, directory: Path) -> None:
        self.broker = broker
        self.directory = directory
        self.journal = Journal()
        self.topics: list[list[Any]] = []
        self.software: dict[str, str] = {}
        self._kafka_version = options.kafka_version
        self._agents: dict[str, AgentProcess] = {}

    def call(self, library: str, operation: str, client: str, **arguments: Any) -> Reply:
        """Let a client do something and wait until it is done."""
        self.send(library, operation, client, **arguments)
        return self.receive(library)

    def send(self, library: str, operation: str, client: str, **arguments: Any) -> None:
        """Let a client do something; `receive` waits for it."""
        self._agent(library).send(operation, client=client, **arguments)

    def receive(self, library: str) -> Reply:
        """The reply to the library's oldest unanswered command, journaled."""
        reply = self._agent(library).receive()
        self.journal.add(library, reply)
        return reply

    def create_topics(self, client: str, topics: list[dict[str, Any]]) -> None:
        """Create topics with the Java admin client, and remember them with their ids."""
        ids = self.call("java", "create_topics", client, topics=topics).result
        for topic in topics:
            name = topic["name"]
            if name in ids:
                configs = topic.get("configs", {})
                self.topics.append([name, ids[name], topic["partitions"], configs])

    def stop_agents(self) -> None:
        """End all agents."""
        for agent in self._agents.values():
            agent.stop()
        self._agents.clear()

    def _agent(self, library: str) -> AgentProcess:
        if library not in self._agents:
            agent = start_agent(library, self.broker.address, self._kafka_version, self.directory)
            self._agents[library] = agent
            agent.send("versions")
            self.software |= agent.receive().result
        return self._agents[library]


class Scenario(NamedTuple):
    """Something to play, and the broker properties it needs."""

    play: Callable[[Stage], None]
    broker_properties: dict[str, str]


def record(scenario: Scenario, name: str, options: Options, capture: Path) -> None:
    """Play the scenario and write the capture and its side-car (same name, .json)."""
    jars = installs.broker_jars(options.kafka_version)
    with tempfile.TemporaryDirectory(prefix="kdissect-record-") as scratch:
        directory = Path(scratch)
        settings = BrokerSettings(
            node_id=1,
            port=free_port(options.port),
            controller_port=free_port(options.port + 10001),
            heap_megabytes=options.heap_megabytes,
            properties=scenario.broker_properties,
        )
        broker = Broker(settings, jars, directory / "broker-1")
        sniffer = Sniffer([settings.port], directory / "capture.pcap")
        stage = Stage(options, broker, directory)
        try:
            sniffer.start()
            broker.start()
            scenario.play(stage)
            stage.stop_agents()
            report = sniffer.stop()
        finally:
            stage.stop_agents()
            sniffer.kill()
            broker.stop()
        to_pcapng(directory / "capture.pcap", capture)
        facts = Facts(
            scenario=name,
            software={
                "kafka": options.kafka_version,
                **stage.software,
                "broker_java": installs.java_version(),
                "python": python_version(),
                "tcpdump": report.version,
            },
            cluster={
                "cluster_id": broker.cluster_id,
                "mode": "kraft",
                "listener": LISTENER,
                "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": settings.port}],
            },
            capture=capture_facts(capture, report.captured),
            pauses=broker.pauses,
            topics=stage.topics,
        )
        log = read_request_log(broker.request_log, LISTENER)
        write_sidecar(capture.with_suffix(".json"), facts, stage.journal, log)
