"""Records Kafka's own clients with and without TLS: ``python -m tools.record_client_twins``.

Writes tests/tls/client_twins.pcapng, its key log client_twins.keys, and client_twins.json, which
says how. At each listener of the broker of `tools.record_twins` the same work is done by Kafka's
console producer and consumer, and by librdkafka. The Java clients' secrets are those that an agent
in their own JVMs logs; librdkafka logs none, so its secrets are the broker's. Sessions that both
sides log must have the same secrets. Needs a JDK, tcpdump, tshark, editcap, openssl and Maven.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tools.record import installs
from tools.record.cluster import Cluster
from tools.record.configuration import SECURITY, USERS
from tools.record.key_log import by_client_random, client_randoms
from tools.record.processes import free_port
from tools.record.releases import NEWEST
from tools.record.sniffer import Sniffer, to_pcapng
from tools.record_twins import (
    FIRST_PORT,
    LISTENERS,
    PLACE,
    TIMEOUT_S,
    TOPIC,
    USER,
    VERSIONS,
    Listener,
    certificate,
    make_topic,
    running,
    warm_up,
)

OUTPUT: Final = PLACE / "client_twins.pcapng"
TOOLS: Final = "org.apache.kafka.tools"
LIBRDKAFKA: Final = Path(__file__).parent / "record" / "clients" / "librdkafka_twin.py"
LINES: Final = "k:small\nk:" + "v" * 1000 + "\n"
CLIENT_TIMEOUT_S: Final = 60
OPENSSL: Final = """openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = tls
[tls]
MaxProtocol = TLSv1.2
"""


class Run(NamedTuple):
    """A client program at a listener, and when it ran, in ns."""

    client: str
    listener: Listener
    version: str
    begin_ns: int
    end_ns: int


class Scene(NamedTuple):
    """What all runs need; `client` are the files of its certificate and key."""

    cluster: Cluster
    directory: Path
    ports: dict[str, int]
    client: tuple[Path, Path]


def settings(one: Listener) -> dict[str, str]:
    """What Java's clients and librdkafka are told in the same words."""
    found = {"client.id": "twin", "enable.metrics.push": "false"}
    if one.protocol != "PLAINTEXT":
        found["security.protocol"] = one.protocol
    if one.protocol.startswith("SASL"):
        found["sasl.mechanism"] = "PLAIN"
    return found


def java_settings(scene: Scene, one: Listener, version: str) -> dict[str, str]:
    found = settings(one)
    if one.protocol.startswith("SASL"):
        found["sasl.jaas.config"] = (
            f"{SECURITY}.plain.PlainLoginModule required"
            f' username="{USER}" password="{USERS[USER]}";'
        )
    if one.twin:
        trusted = scene.directory / "trusted.pem"
        trusted.write_text(scene.cluster.certificates)
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(trusted)}
        found |= {"ssl.enabled.protocols": f"TLSv{version}", "ssl.protocol": f"TLSv{version}"}
    if one.wants_certificate:
        both = scene.directory / "both.pem"
        both.write_text("".join(file.read_text() for file in reversed(scene.client)))
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
    return found


def rdkafka_settings(scene: Scene, one: Listener) -> dict[str, str]:
    found = settings(one)
    found |= {"topic.metadata.refresh.interval.ms": "-1"}
    found["bootstrap.servers"] = f"127.0.0.1:{scene.ports[one.name]}"
    if one.protocol.startswith("SASL"):
        found |= {"sasl.username": USER, "sasl.password": USERS[USER]}
    if one.twin:
        found["ssl.ca.pem"] = scene.cluster.certificates
    if one.wants_certificate:
        certificate_file, key = map(str, scene.client)
        found |= {"ssl.certificate.location": certificate_file, "ssl.key.location": key}
    return found


def java(scene: Scene, one: Listener, version: str, main: str, *more: str, given: str = "") -> None:
    """Run one of Kafka's tools, with the agent that logs its secrets."""
    file = scene.directory / "client.properties"
    told = java_settings(scene, one, version)
    file.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
    jars = f"{installs.tools_jars(NEWEST)}/*"
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", jars]
    if one.twin:
        command.insert(1, f"-javaagent:{installs.key_logger()}={scene.directory / 'java.keys'}")
    command += [main, "--bootstrap-server", f"127.0.0.1:{scene.ports[one.name]}"]
    run([*command, "--command-config", str(file), "--topic", TOPIC, *more], given)


def produce(scene: Scene, one: Listener, version: str) -> None:
    """Kafka's console producer, a request for each record."""
    keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    java(scene, one, version, f"{TOOLS}.ConsoleProducer", "--sync", *keys, given=LINES)


def consume(scene: Scene, one: Listener, version: str) -> None:
    """Kafka's console consumer of these records, from the partition's begin."""
    asked = ("--partition", "0", "--offset", "0", "--max-messages", str(LINES.count("\n")))
    java(scene, one, version, f"{TOOLS}.consumer.ConsoleConsumer", *asked)


def rdkafka(scene: Scene, one: Listener, version: str) -> None:
    """librdkafka's producer and consumer; OpenSSL's own settings choose the version."""
    file = scene.directory / "openssl.cnf"
    file.write_text(OPENSSL)
    asked = {"settings": rdkafka_settings(scene, one), "topic": TOPIC}
    python = installs.client_python("librdkafka", None)
    chosen = {"OPENSSL_CONF": str(file)} if version == "1.2" else {}
    run([str(python), str(LIBRDKAFKA)], json.dumps(asked), os.environ | chosen)


CLIENTS: Final = {"console-producer": produce, "console-consumer": consume, "librdkafka": rdkafka}


def run(command: list[str], given: str, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        input=given,
        env=environment,
        capture_output=True,
        text=True,
        timeout=CLIENT_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stdout}{done.stderr}")


def played(scene: Scene) -> Iterator[Run]:
    """All clients at all listeners. The consumer reads what the console producer wrote."""
    for one in LISTENERS:
        for version in VERSIONS if one.twin else ("",):
            for name, play in CLIENTS.items():
                if name != "console-consumer":
                    make_topic(scene.cluster)
                begin_ns = time.time_ns()
                play(scene, one, version)
                yield Run(name, one, version, begin_ns, time.time_ns())


def client_ports(capture: Path) -> list[tuple[int, str, str]]:
    """Time in ns, client's port and broker's port of each connection's begin."""
    fields = ("frame.time_epoch", "tcp.srcport", "tcp.dstport")
    done = subprocess.run(
        ["tshark", "-r", str(capture), "-Y", "tcp.flags.syn == 1 && tcp.flags.ack == 0",
         "-T", "fields", *(word for field in fields for word in ("-e", field))],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
    )  # fmt: skip
    found = []
    for line in done.stdout.splitlines():
        seconds, client, broker = line.split("\t")
        whole, _, part = seconds.partition(".")
        found.append((int(whole + part.ljust(9, "0")[:9]), client, broker))
    return found


def described(runs: list[Run], capture: Path, ports: dict[str, int]) -> list[dict[str, object]]:
    """Each run with the ports of its connections, in the order of their begin."""
    begun = client_ports(capture)
    return [
        {
            "client": one.client, "listener": one.listener.name,
            "protocol": one.listener.protocol, "version": one.version, "twin": one.listener.twin,
            "port": str(ports[one.listener.name]),
            "client_ports": [
                client
                for at, client, broker in begun
                if one.begin_ns <= at <= one.end_ns and broker == str(ports[one.listener.name])
            ],
        }
        for one in runs
    ]  # fmt: skip


def secrets(capture: Path, ports: dict[str, int], java_log: Path, broker_log: Path) -> list[str]:
    """Lines of the Java clients, and the broker's for sessions that those have not."""
    randoms: dict[str, list[str]] = {}
    for one in LISTENERS:
        if one.twin:
            randoms |= client_randoms(capture, ports[one.name])
    logged = (log.read_text(encoding="ascii").splitlines() for log in (java_log, broker_log))
    own, broker = (
        {tuple(line.split()[:2]): line for line in by_client_random(lines, randoms)}
        for lines in logged
    )
    both = own.keys() & broker.keys()
    if not both or any(own[one].lower() != broker[one].lower() for one in both):
        raise RuntimeError("the two sides logged other secrets for the same session")
    print(f"{len(both)} secrets logged by both sides, {len(broker.keys() - own.keys())} by one")
    return list((broker | own).values())


def record(directory: Path) -> list[dict[str, object]]:
    """Play at all listeners; which connections of the capture are of which client."""
    client = certificate(directory)
    ports = {one.name: free_port(FIRST_PORT + at) for at, one in enumerate(LISTENERS)}
    capture = directory / "twins.pcap"
    with running(directory, ports, client[0]) as cluster:
        sniffer = Sniffer(list(ports.values()), capture)
        warm_up(cluster)
        scene = Scene(cluster, directory, ports, client)
        make_topic(cluster)
        produce(scene, LISTENERS[0], "")  # the broker has ids of producers from now on
        sniffer.start()
        runs = list(played(scene))
        time.sleep(1)  # for the end of the last connection
        sniffer.stop()
        key_log = cluster.key_log
    lines = secrets(capture, ports, directory / "java.keys", key_log)
    OUTPUT.with_suffix(".keys").write_text("".join(f"{one}\n" for one in lines))
    to_pcapng(capture, OUTPUT)
    return described(runs, capture, ports)


def main() -> None:
    installs.tools_jars(NEWEST)
    installs.client_python("librdkafka", None)  # before tcpdump runs
    with tempfile.TemporaryDirectory(prefix="kdissect-twins-") as name:
        runs = record(Path(name))
    made = {
        "kafka": NEWEST, "librdkafka": installs.PYTHON_CLIENTS["librdkafka"],
        "agent": f"extract-tls-secrets {installs.KEY_LOGGER_VERSION}",
        "java": installs.java_version("java"), "runs": runs,
    }  # fmt: skip
    OUTPUT.with_suffix(".json").write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
