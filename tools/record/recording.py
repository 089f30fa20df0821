"""One recording: cluster, sniffer and agents brought up, a scenario played, the files written."""

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tools.record import installs
from tools.record.agents import AgentProcess, Reply, python_version, start_agent
from tools.record.client_log import read_client_logs
from tools.record.cluster import Cluster, ClusterSettings
from tools.record.configuration import KRAFT, ZOOKEEPER, Layout
from tools.record.key_log import inject, write_key_log
from tools.record.networks import CLIENT, Network
from tools.record.releases import RELEASES, Release
from tools.record.request_log import read_request_logs
from tools.record.sidecar import Facts, Journal, capture_facts, write_sidecar
from tools.record.sniffer import Sniffer, to_pcapng

LOOPBACK = Network("127.0.0.1")
PATIENCE_SECONDS = 6.0
FIRST_WITH_NEWEST_CLIENTS = (2, 1)  # oldest broker that the newest Java client supports


class Options(NamedTuple):
    """Options of the user; `clients` are the libraries for a scenario of many versions."""

    kafka_version: str
    port: int
    heap_megabytes: int
    mode: str | None = None
    clients: tuple[str, ...] = ()
    java: str = "java"

    @property
    def release(self) -> Release:
        """The broker's release."""
        return RELEASES[self.kafka_version]

    @property
    def cluster_mode(self) -> str:
        """Metadata mode of the cluster: as requested, else KRaft when the release has it."""
        return self.mode or (KRAFT if self.release.has_kraft else ZOOKEEPER)


class Stage:
    """Environment of a scenario: the cluster, and an agent for each library, started on demand."""

    def __init__(self, options: Options, cluster: Cluster, directory: Path) -> None:
        self.options = options
        self.cluster = cluster
        self.directory = directory
        self.journal = Journal()
        self.topics: list[list[Any]] = []
        self.software: dict[str, Any] = {}
        self.sniffers: list[Sniffer] = []  # of all taps
        self._agents: dict[tuple[str, str], AgentProcess] = {}

    def call(self, library: str, operation: str, client: str, **arguments: Any) -> Reply:
        """Let a client do something and wait until it is done."""
        self.send(library, operation, client, **arguments)
        return self.receive(library)

    def send(self, library: str, operation: str, client: str, **arguments: Any) -> None:
        """Let a client do something; `receive` waits for it."""
        self._agent(library, self.cluster.address).send(operation, client=client, **arguments)

    def receive(self, library: str) -> Reply:
        """The reply to the library's oldest unanswered command, journaled."""
        reply = self._agent(library, self.cluster.address).receive()
        self.journal.add(library, reply)
        return reply

    def attempt(self, library: str, operation: str, client: str, **arguments: Any) -> Reply:
        """Let a client do what it may fail at; how it failed is journaled. One that does not come
        back from it ends with its process.
        """
        self.send(library, operation, client, **arguments)
        start_ns = time.time_ns()
        try:
            reply = self._agent(library, self.cluster.address).await_reply(PATIENCE_SECONDS)
        except TimeoutError as error:
            self._agents.pop((library, self.cluster.address)).kill()
            told = {"client": client, **arguments}
            reply = Reply(operation, told, start_ns, time.time_ns(), None, str(error), [])
        self.journal.add(library, reply)
        return reply

    def kill(self, library: str, client: str) -> None:
        """End a client with its process, which had nothing to answer, by SIGKILL."""
        agent = self._agents.pop((library, self.cluster.address))
        start_ns = time.time_ns()
        agent.kill()
        self.journal.add_kill(client, start_ns, time.time_ns())

    def prepare(self, operation: str, **arguments: Any) -> Reply:
        """Let the newest Java client do something through the listener without SASL and TLS."""
        agent = self._agent("java", self.cluster.open_address)
        agent.send(operation, client="backstage", **arguments)
        return agent.receive()

    @property
    def logs_requests(self) -> bool:
        """Return whether Java clients log requests and responses."""
        return self.cluster.settings.layout.logs_client_requests

    def act(self, operation: str, node: int, action: Callable[[], object]) -> None:
        """Do something to a server, journaled as an operation of the session `operator`."""
        start_ns = time.time_ns()
        action()
        arguments = {"client": "operator", "node": node}
        end_ns = time.time_ns()
        reply = Reply(operation, arguments, start_ns, end_ns, None, None, [])
        self.journal.add("recorder", reply)

    def create_topics(self, client: str, topics: list[dict[str, Any]]) -> None:
        """Create topics and remember them with their ids; by Kafka's own tool when it is old."""
        if self.options.release.number < FIRST_WITH_NEWEST_CLIENTS:
            return self._create_topics_in_zookeeper(topics)
        ids = self.call("java", "create_topics", client, topics=topics).result
        for topic in topics:
            name = topic["name"]
            if name in ids:
                self.remember(topic, ids[name])
        return None

    def start_late_taps(self) -> None:
        """Begin the captures that begin in the middle."""
        for sniffer in self.sniffers:
            if sniffer.tap.is_late:
                sniffer.start()

    def stop_agents(self) -> None:
        """End all agents."""
        for agent in self._agents.values():
            agent.stop()
        self._agents.clear()

    def _create_topics_in_zookeeper(self, topics: list[dict[str, Any]]) -> None:
        for topic in topics:
            numbers = ["--partitions", str(topic["partitions"])]
            numbers += ["--replication-factor", str(topic.get("replication", 1))]
            configs = [f"{name}={value}" for name, value in topic.get("configs", {}).items()]
            self.cluster.run(
                *("kafka.admin.TopicCommand", "--zookeeper", self.cluster.zookeeper_address),
                *("--create", "--topic", topic["name"], *numbers),
                *(word for config in configs for word in ("--config", config)),
            )
            self.remember(topic, None)

    def remember(self, topic: dict[str, Any], topic_id: str | None) -> None:
        """A topic that was created, for the side-car."""
        configs = topic.get("configs", {})
        self.topics.append([topic["name"], topic_id, topic["partitions"], configs])

    def _agent(self, library: str, address: str) -> AgentProcess:
        key = (library, address)
        if key not in self._agents:
            log_name = re.sub(r"\W", "-", f"{library} {len(self._agents)}")
            network = self.cluster.settings.layout.network
            prefix = [] if network is None else network.enter(CLIENT)
            log, logs = self.directory / f"{log_name}.log", self.logs_requests
            agent = start_agent(library, address, log, prefix, logs)
            self._agents[key] = agent
            agent.send("versions")
            self._add_software(agent.receive().result)
        return self._agents[key]

    def _add_software(self, versions: dict[str, str]) -> None:
        """Remember versions; a name with more than one gets a list of them."""
        for name, version in versions.items():
            known = self.software.get(name, version)
            several = known if isinstance(known, list) else [known]
            several = sorted({*several, version})
            self.software[name] = several if len(several) > 1 else version


class Scenario(NamedTuple):
    """Something to play, and the cluster it needs."""

    play: Callable[[Stage], None]
    broker_properties: dict[str, str] | Callable[[Release, str], dict[str, str]]
    layout: Layout = Layout()


def record(scenario: Scenario, name: str, options: Options, capture: Path) -> None:
    """Play the scenario and write the capture and its side-car (same name, .json)."""
    class_path = f"{installs.broker_jars(options.kafka_version)}/*"
    plugins = installs.broker_plugins(options.kafka_version)
    class_path += f":{plugins}" if plugins is not None else ""
    with tempfile.TemporaryDirectory(prefix="kdissect-record-") as scratch:
        directory = Path(scratch)
        cluster = Cluster(_settings(scenario, options), class_path, directory)
        stage = Stage(options, cluster, directory)
        network = scenario.layout.network or LOOPBACK
        stage.sniffers = [
            Sniffer(cluster.captured_ports, directory / f"tap-{number}.pcap", tap)
            for number, tap in enumerate(network.taps)
        ]
        try:
            network.up()
            for sniffer in stage.sniffers:
                if not sniffer.tap.is_late:
                    sniffer.start()
            cluster.start()
            scenario.play(stage)
            stage.stop_agents()
            stage.sniffers[0].settle()
            reports = [sniffer.stop() for sniffer in stage.sniffers]
        finally:
            stage.stop_agents()
            for sniffer in stage.sniffers:
                sniffer.kill()
            cluster.stop()
            network.down()
        report = reports[0]
        to_pcapng(stage.sniffers[0].pcap, capture)
        if cluster.key_log.exists():
            keys = capture.with_suffix(".keys")
            write_key_log(cluster.key_log, capture, cluster.ports.client, keys)
            if scenario.layout.tls is not None and scenario.layout.tls.has_keys_inside:
                inject(keys, capture)
        software = {
            "kafka": options.kafka_version,
            **stage.software,
            "broker_java": installs.java_version(options.java),
            "python": python_version(),
            "tcpdump": report.version,
        }
        facts = Facts(
            scenario=name,
            software=software,
            cluster=_cluster_facts(cluster),
            capture=capture_facts(capture, report.captured),
            pauses=cluster.pauses,
            topics=stage.topics,
            views=[
                _view(sniffer, told.captured, capture)
                for sniffer, told in zip(stage.sniffers[1:], reports[1:], strict=True)
            ],
            requests=read_client_logs(directory) if stage.logs_requests else None,
        )
        log = read_request_logs(cluster.request_logs(), cluster.listeners, report.stopped_ms)
        write_sidecar(capture.with_suffix(".json"), facts, stage.journal, log)


def _view(sniffer: Sniffer, packets: int, capture: Path) -> dict[str, Any]:
    """Write the capture of another tap, in `views/`, and describe it."""
    tap = sniffer.tap
    target = capture.parent / "views" / f"{capture.stem}-{tap.name}.pcapng"
    target.parent.mkdir(exist_ok=True)
    to_pcapng(sniffer.pcap, target)
    how = {"interface": tap.interface, "options": tap.options, "filter": tap.filter}
    return {"view": tap.name, **how, "is_late": tap.is_late, **capture_facts(target, packets)}


def _settings(scenario: Scenario, options: Options) -> ClusterSettings:
    tls = scenario.layout.tls
    properties, place = scenario.broker_properties, (options.release, options.cluster_mode)
    has_agent = tls is not None and tls.has_key_log and not tls.is_terminated
    return ClusterSettings(
        options.release,
        options.cluster_mode,
        scenario.layout,
        options.port,
        options.heap_megabytes,
        properties if isinstance(properties, dict) else properties(*place),
        options.java,
        installs.key_logger() if has_agent else None,
    )


def _cluster_facts(cluster: Cluster) -> dict[str, Any]:
    brokers = [node for node in cluster.nodes if node.is_broker]
    port = cluster.ports.client
    return {
        "cluster_id": cluster.cluster_id if cluster.settings.mode == KRAFT else None,
        "mode": cluster.settings.mode,
        "listener": cluster.listeners[0],
        "brokers": [
            {"node_id": node.node_id, "host": node.address, "port": port} for node in brokers
        ],
    }
