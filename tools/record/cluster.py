"""A real Kafka cluster on the loopback: KRaft, or brokers with a ZooKeeper out of their jars."""

import base64
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tools.record.configuration import (
    BEHIND,
    FIRST_WITH_JAAS_PROPERTIES,
    KRAFT,
    USERS,
    ZOOKEEPER,
    Layout,
    Node,
    Ports,
    kafka_properties,
    write_jaas,
    write_logging,
    write_properties,
    zookeeper_properties,
)
from tools.record.networks import BROKER
from tools.record.processes import JavaServer, Pause, free_port, run_tool
from tools.record.releases import Release
from tools.record.terminator import Terminator
from tools.record.tls import HOST, KeyStore, broker_properties, jvm_options

KAFKA_STARTED = r"started \(kafka\.server\.Kafka(Raft)?Server\)"
ZOOKEEPER_STARTED = r"binding to port|Started AdminServer|PrepRequestProcessor.*started"
FIRST_CONTROLLER_ID = 101
FIRST_WITH_SCRAM_IN_FORMAT = (3, 5)


class ClusterSettings(NamedTuple):
    """A cluster: release, mode, layout and the properties that differ from Kafka's."""

    release: Release
    mode: str
    layout: Layout
    port: int
    heap_megabytes: int
    properties: dict[str, str]
    java: str = "java"
    key_logger: Path | None = None  # the jar of the JVM's agent that writes the key log


class Cluster:
    """The servers of one recording. Brokers are numbered from 1 and listen on 127.0.0.<number>."""

    def __init__(self, settings: ClusterSettings, class_path: str, directory: Path) -> None:
        self.settings = settings
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.nodes = list_nodes(settings.mode, settings.layout)
        wanted = settings.port
        self.ports = Ports(*(free_port(wanted + step) for step in (0, 2, 1, 89)))
        self.servers: dict[int, JavaServer] = {}
        self.key_log = directory / "tls.keys"
        tls = settings.layout.tls
        self._key_store = None if tls is None else KeyStore.make(directory)
        self._terminator: Terminator | None = None
        if self._key_store is not None and tls is not None and tls.is_terminated:
            self._terminator = Terminator(self._key_store.pem_files(), self.key_log)
        self._class_path = class_path
        self._directory = directory
        self._zookeeper: JavaServer | None = None

    @property
    def address(self) -> str:
        """Bootstrap servers for clients."""
        host = self.nodes[-1].address if self.settings.layout.network is not None else "127.0.0.1"
        host = host if self._key_store is None else HOST
        return f"{host}:{self.ports.client}"

    @property
    def open_address(self) -> str:
        """A listener without SASL and TLS."""
        has_own = self.settings.layout.has_open_listener
        return f"127.0.0.1:{self.ports.inter_broker if has_own else self.ports.client}"

    @property
    def certificates(self) -> str:
        """Certificates for clients to trust, as PEM."""
        assert self._key_store is not None
        return self._key_store.certificates

    @property
    def captured_ports(self) -> list[int]:
        """The ports whose traffic belongs to the recording."""
        ports = [self.ports.client]
        if self.settings.layout.captures_everything:
            ports.append(self.ports.controller)
        return ports

    @property
    def listeners(self) -> list[str]:
        """The names of the captured listeners, as brokers log them."""
        names = [self.settings.layout.protocol]
        return [*names, "CONTROLLER"] if self.settings.layout.captures_everything else names

    @property
    def pauses(self) -> list[Pause]:
        """Times during which a broker was stopped."""
        return [pause for server in self.servers.values() for pause in server.pauses]

    def request_logs(self) -> dict[int, Path]:
        """Each node's request log, complete once it has stopped."""
        return {node: server.directory / "requests.log" for node, server in self.servers.items()}

    def start(self) -> None:
        """Start ZooKeeper if there is one, then nodes that are not late; wait until they serve."""
        if self.settings.mode == ZOOKEEPER:
            self._start_zookeeper()
        for node in self.nodes:
            self._prepare(node)
        layout = self.settings.layout
        late = range(layout.brokers - layout.late_brokers + 1, layout.brokers + 1)
        self.start_nodes([node_id for node_id in self.servers if node_id not in late])
        if self._terminator is not None:
            self._terminator.start(self.ports.client, self.ports.client + BEHIND)

    def start_nodes(self, node_ids: list[int]) -> None:
        """Start nodes that were prepared (again) and wait until they serve."""
        for node_id in node_ids:
            self.servers[node_id].launch()
        for node_id in node_ids:
            self.servers[node_id].await_started()

    def pause(self, seconds: float, meanwhile: Callable[[], None]) -> None:
        """Stop the first broker for a while."""
        self.servers[1].pause(seconds, meanwhile)

    def run(self, *command: str, given: str = "") -> str:
        """Run a main class of the broker's jars with these input lines; return its output."""
        quiet = f"-Dlog4j.configuration=file:{self._quiet()}"
        return run_tool([*self._java(), quiet, *command], given)

    @property
    def zookeeper_address(self) -> str:
        """ZooKeeper address for the tools of old releases."""
        return f"127.0.0.1:{self.ports.zookeeper}"

    def directory_id(self, node_id: int) -> str:
        """Directory id of a node in the quorum."""
        text = (self.servers[node_id].directory / "data" / "meta.properties").read_text()
        return next(
            line.split("=", 1)[1] for line in text.splitlines() if line.startswith("directory.id=")
        )

    def stop(self) -> None:
        """End all processes, brokers first."""
        if self._terminator is not None:
            self._terminator.stop()
            self._terminator = None
        for node_id in sorted(self.servers):
            self.servers[node_id].stop(politely=len(self.servers) == 1)
        if self._zookeeper is not None:
            self._zookeeper.stop(politely=False)
            self._zookeeper = None

    def _java(self) -> list[str]:
        heap = f"-Xmx{self.settings.heap_megabytes}m"
        options = [heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
        network = self.settings.layout.network
        prefix = [] if network is None else network.enter(BROKER)
        return [*prefix, self.settings.java, *options, "-cp", self._class_path]

    def _quiet(self) -> Path:
        file = self._directory / "quiet.properties"
        file.write_text("log4j.rootLogger=OFF\n")
        return file

    def _start_zookeeper(self) -> None:
        directory = self._directory / "zookeeper"
        directory.mkdir(parents=True)
        file = directory / "zoo.cfg"
        write_properties(file, zookeeper_properties(directory, self.ports.zookeeper))
        logging = write_logging(self.settings.release, directory)
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = [*self._java(), logging, main, str(file)]
        self._zookeeper = JavaServer(command, directory, ZOOKEEPER_STARTED)
        self._zookeeper.launch()
        self._zookeeper.await_started()

    def _prepare(self, node: Node) -> None:
        settings = self.settings
        directory = self._directory / f"node-{node.node_id}"
        directory.mkdir(parents=True)
        file = directory / "server.properties"
        properties = kafka_properties(
            settings.release, settings.mode, settings.layout, node, self.ports, self.nodes
        )
        options = [write_logging(settings.release, directory)]
        if self._key_store is not None and settings.layout.tls is not None:
            properties |= broker_properties(self._key_store)
            logger = settings.key_logger
            options += jvm_options(settings.layout.tls, directory, logger, self.key_log)
        properties |= {"log.dirs": f"{directory}/data", **settings.properties}
        write_properties(file, properties)
        needs_jaas_file = settings.release.number < FIRST_WITH_JAAS_PROPERTIES
        if settings.layout.has_sasl and needs_jaas_file:
            options.append(write_jaas(settings.release, directory))
        if settings.mode == KRAFT:
            self._format(node, file)
        command = [*self._java(), *options, "kafka.Kafka", str(file)]
        self.servers[node.node_id] = JavaServer(command, directory, KAFKA_STARTED)

    def _format(self, node: Node, file: Path) -> None:
        # An identifier may begin with a hyphen.
        cluster_id = f"--cluster-id={self.cluster_id}"
        command = ["kafka.tools.StorageTool", "format", cluster_id, "-c", str(file)]
        release = self.settings.release
        if self.settings.layout.has_sasl and release.number >= FIRST_WITH_SCRAM_IN_FORMAT:
            for name, password in USERS.items():
                scram = f"SCRAM-SHA-256=[name={name},password={password}]"
                command += ["--add-scram", scram]
        if self.settings.layout.has_joining_controllers:
            is_first = node.node_id == min(
                each.node_id for each in self.nodes if each.is_controller
            )
            command.append("--standalone" if is_first else "--no-initial-controllers")
        self.run(*command)


def list_nodes(mode: str, layout: Layout) -> list[Node]:
    """The Kafka processes of a layout."""
    is_combined = mode == KRAFT and not layout.controllers
    if layout.network is not None:
        return [Node(1, layout.network.address, is_broker=True, is_controller=is_combined)]
    brokers = [
        Node(number, f"127.0.0.{number}", is_broker=True, is_controller=is_combined)
        for number in range(1, layout.brokers + 1)
    ]
    controllers = [
        Node(
            FIRST_CONTROLLER_ID + number,
            f"127.0.0.{FIRST_CONTROLLER_ID + number}",
            is_broker=False,
            is_controller=True,
        )
        for number in range(layout.controllers if mode == KRAFT else 0)
    ]
    return controllers + brokers
