"""Configuration of servers of every recorded release: Kafka's, ZooKeeper's, log4j's, JAAS."""

from pathlib import Path
from typing import NamedTuple

from tools.record.networks import Network
from tools.record.releases import LOG4J2, Release
from tools.record.tls import HOST, Tls

KRAFT = "kraft"
ZOOKEEPER = "zookeeper"
PLAINTEXT = "PLAINTEXT"
SASL = "SASL_PLAINTEXT"
CONTROLLER = "CONTROLLER"
BEHIND = 20  # from a port where a proxy ends TLS to the broker's
LOGS_REQUESTS_AT_TRACE = (0, 10)
FIRST_WITH_LISTENERS = (0, 9)
FIRST_WITH_JAAS_PROPERTIES = (1, 1)
FIRST_WITH_TOKENS = (1, 1)
FIRST_WITH_TOKENS_IN_KRAFT = (3, 6)

# A line of requests.log is a completed request, behind the time it was logged.
LOG4J2_XML = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="error" shutdownHook="disable">
  <Appenders>
    <File name="server" fileName="{directory}/server.log">
      <PatternLayout pattern="[%d] %p %m (%c)%n"/>
    </File>
    <File name="requests" fileName="{directory}/requests.log">
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
LOG4J1_PROPERTIES = """log4j.rootLogger=INFO, server
log4j.appender.server=org.apache.log4j.FileAppender
log4j.appender.server.File={directory}/server.log
log4j.appender.server.layout=org.apache.log4j.PatternLayout
log4j.appender.server.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.appender.requests=org.apache.log4j.FileAppender
log4j.appender.requests.File={directory}/requests.log
log4j.appender.requests.layout=org.apache.log4j.PatternLayout
log4j.appender.requests.layout.ConversionPattern=%d{{yyyy-MM-dd'T'HH:mm:ss.SSS}} %m%n
log4j.logger.kafka.request.logger={level}, requests
log4j.additivity.kafka.request.logger=false
"""
# The users of every SASL recording; a test greps kdissect's output for these passwords.
USERS = {"admin": "admin-secret", "alice": "alice-secret"}
PLAIN_USERS = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
SECURITY = "org.apache.kafka.common.security"
LOGIN_MODULES = {
    "PLAIN": f'{SECURITY}.plain.PlainLoginModule required username="admin" '
    f'password="{USERS["admin"]}" {PLAIN_USERS};',
    "SCRAM-SHA-256": f"{SECURITY}.scram.ScramLoginModule required;",
    "SCRAM-SHA-512": f"{SECURITY}.scram.ScramLoginModule required;",
    "OAUTHBEARER": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="admin";',
}


class Layout(NamedTuple):
    """Cluster required by a scenario; by default one broker that is its own controller."""

    brokers: int = 1
    controllers: int = 0
    has_sasl: bool = False
    tls: Tls | None = None
    network: Network | None = None  # None: IPv4 on the loopback
    captures_everything: bool = False  # the traffic among servers too
    has_joining_controllers: bool = False  # all but the first join the quorum by themselves
    late_brokers: int = 0  # the last so many are for the scenario to start
    is_relayed: bool = False  # clients are sent to the port BEHIND, where the scenario has a relay
    logs_client_requests: bool = False  # Java's, into the side-car

    @property
    def protocol(self) -> str:
        """Security protocol of clients, also the listener's name."""
        plain = {False: PLAINTEXT, True: SASL}[self.has_sasl]
        return plain if self.tls is None else {PLAINTEXT: "SSL", SASL: "SASL_SSL"}[plain]

    @property
    def broker_protocol(self) -> str:
        """Security protocol of the broker at that listener."""
        is_terminated = self.tls is not None and self.tls.is_terminated
        return self.protocol.replace("SSL", PLAINTEXT) if is_terminated else self.protocol

    @property
    def has_open_listener(self) -> bool:
        """Return whether there is a second listener, without TLS and SASL, that is not captured."""
        return self.protocol != PLAINTEXT


class Node(NamedTuple):
    """A Kafka process: its identity and listeners."""

    node_id: int
    address: str
    is_broker: bool
    is_controller: bool


class Ports(NamedTuple):
    """The ports, the same on every address: clients', servers' own if another, controllers'."""

    client: int
    inter_broker: int
    controller: int
    zookeeper: int


def write_logging(release: Release, directory: Path) -> str:
    """Write the logging configuration of a server; the JVM's option that names it."""
    if release.logging == LOG4J2:
        file = directory / "log4j2.xml"
        file.write_text(LOG4J2_XML.format(directory=directory))
        return f"-Dlog4j2.configurationFile={file}"
    file = directory / "log4j.properties"
    level = "TRACE" if release.number[:2] == LOGS_REQUESTS_AT_TRACE else "DEBUG"
    file.write_text(LOG4J1_PROPERTIES.format(directory=directory, level=level))
    return f"-Dlog4j.configuration=file:{file}"


def write_jaas(release: Release, directory: Path) -> str:
    """Write the JAAS file of a release that has no property for it; the JVM's option for it."""
    modules = "".join(f"  {LOGIN_MODULES[name]}\n" for name in mechanisms(release)[:2])
    file = directory / "jaas.conf"
    file.write_text(f"KafkaServer {{\n{modules}}};\n")
    return f"-Djava.security.auth.login.config={file}"


def mechanisms(release: Release) -> list[str]:
    """The SASL mechanisms a release knows, without Kerberos."""
    known = ["PLAIN"] if release.number >= (0, 10) else []
    known += ["SCRAM-SHA-256", "SCRAM-SHA-512"] if release.number >= (0, 10, 2) else []
    return known + (["OAUTHBEARER"] if release.number >= (2, 0) else [])


def write_properties(file: Path, properties: dict[str, str]) -> None:
    """Write a Java properties file."""
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def zookeeper_properties(directory: Path, port: int) -> dict[str, str]:
    """ZooKeeper's zoo.cfg for one server."""
    return {
        "dataDir": str(directory / "data"),
        "clientPort": str(port),
        "clientPortAddress": "127.0.0.1",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
    }


def kafka_properties(
    release: Release, mode: str, layout: Layout, node: Node, ports: Ports, nodes: list[Node]
) -> dict[str, str]:
    """The properties of one Kafka process that come from where it is."""
    properties = {"num.network.threads": "2", "num.io.threads": "2", "log.cleaner.enable": "false"}
    if mode == KRAFT:
        properties |= _kraft_properties(layout, node, ports, nodes)
    else:
        properties |= {
            "broker.id": str(node.node_id),
            "zookeeper.connect": f"127.0.0.1:{ports.zookeeper}",
            "zookeeper.session.timeout.ms": "18000",
        }
    if release.number < FIRST_WITH_LISTENERS:
        return properties | {"host.name": node.address, "port": str(ports.client)}
    listeners = _listeners(layout, node, ports) if node.is_broker else {}
    advertised = ",".join(f"{name}://{place}" for name, place in listeners.items())
    if layout.tls is not None:
        advertised = advertised.replace(
            f"{layout.protocol}://{listeners[layout.protocol]}",
            f"{layout.protocol}://{HOST}:{ports.client}",
        )
    if layout.is_relayed:
        advertised = f"{PLAINTEXT}://{node.address}:{ports.client + BEHIND}"
    if node.is_controller:
        listeners |= {CONTROLLER: f"{node.address}:{ports.controller}"}
    properties["listeners"] = ",".join(f"{name}://{place}" for name, place in listeners.items())
    if node.is_broker:
        properties["advertised.listeners"] = advertised
    if layout.has_sasl:
        properties |= _sasl_properties(release, layout.protocol)
        properties |= _token_properties(release, mode)
    if layout.has_open_listener:
        properties["security.inter.broker.protocol"] = PLAINTEXT
    return properties


def _listeners(layout: Layout, node: Node, ports: Ports) -> dict[str, str]:
    if not layout.has_open_listener:
        return {PLAINTEXT: f"{node.address}:{ports.client}"}
    is_terminated = layout.broker_protocol != layout.protocol
    port = ports.client + BEHIND if is_terminated else ports.client
    return {
        layout.protocol: f"{node.address}:{port}",
        PLAINTEXT: f"{node.address}:{ports.inter_broker}",
    }


def _kraft_properties(
    layout: Layout, node: Node, ports: Ports, nodes: list[Node]
) -> dict[str, str]:
    roles = {"broker": node.is_broker, "controller": node.is_controller}
    voters = (
        f"{voter.node_id}@{voter.address}:{ports.controller}"
        for voter in nodes
        if voter.is_controller
    )
    quorum = {"controller.quorum.voters": ",".join(voters)}
    if layout.has_joining_controllers:
        addresses = [each.address for each in nodes if each.is_controller]
        places = ",".join(f"{address}:{ports.controller}" for address in addresses)
        quorum = {"controller.quorum.bootstrap.servers": places}
        if node.is_controller:
            quorum["controller.quorum.auto.join.enable"] = "true"
    protocols = {CONTROLLER: PLAINTEXT, PLAINTEXT: PLAINTEXT}
    protocols[layout.protocol] = layout.broker_protocol
    return {
        "process.roles": ",".join(role for role, has in roles.items() if has),
        "node.id": str(node.node_id),
        **quorum,
        "controller.listener.names": CONTROLLER,
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in protocols.items()
        ),
    }


def _sasl_properties(release: Release, protocol: str) -> dict[str, str]:
    properties = {"sasl.enabled.mechanisms": ",".join(mechanisms(release))}
    if release.number >= FIRST_WITH_JAAS_PROPERTIES:
        for name in mechanisms(release):
            key = f"listener.name.{protocol.lower()}.{name.lower()}.sasl.jaas.config"
            properties[key] = LOGIN_MODULES[name]
    return properties


def _token_properties(release: Release, mode: str) -> dict[str, str]:
    first = FIRST_WITH_TOKENS_IN_KRAFT if mode == KRAFT else FIRST_WITH_TOKENS
    if release.number < first:
        return {}
    word = "secret" if release.number >= (2, 8) else "master"
    return {f"delegation.token.{word}.key": "a-key-of-the-recorder"}
