"""Records the same talk with and without TLS at one broker: ``python -m tools.record_twins``.

Writes tests/tls/twins.pcapng, its key log twins.keys, and twins.json, which says how. One broker
has listeners for PLAINTEXT, SSL, SSL with client certificates, SASL_PLAINTEXT and SASL_SSL. A
client that waits for each answer says the same at each, over TLS 1.2 and 1.3, to a topic that is
made anew. The key log is that of an agent in the broker's JVM. Needs a JDK, tcpdump, tshark,
editcap and openssl.
"""

import json
import socket
import ssl
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.exchange_builders import request
from tests.messages.record_builders import make_batch, make_record
from tools.record import installs
from tools.record.cluster import Cluster, ClusterSettings
from tools.record.configuration import KRAFT, LOGIN_MODULES, USERS, Layout
from tools.record.key_log import by_client_random, client_randoms
from tools.record.processes import free_port
from tools.record.releases import NEWEST, RELEASES
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER
from tools.record.sniffer import Sniffer
from tools.record.tls import HOST, Tls

PLACE: Final = Path(__file__).parent.parent / "tests" / "tls"
OUTPUT: Final = PLACE / "twins.pcapng"
TOPIC, MISSING, GROUP = "twins", "missing", "twins-group"
BEAT: Final[dict[str, object]] = {"group_id": GROUP, "generation_id": 1, "member_id": "none"}
UNKNOWN_MEMBER_ID: Final = 25
USER: Final = "alice"
VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
LARGE: Final = 17_000  # bytes of a value: more than a record of TLS has
TIMEOUT_S: Final = 20
FIRST_PORT: Final = 39_092


class Listener(NamedTuple):
    """Name and protocol of a listener, and the name of the one without TLS to compare with."""

    name: str
    protocol: str
    twin: str = ""
    wants_certificate: bool = False


LISTENERS: Final = (
    Listener("OPEN", "PLAINTEXT"),
    Listener("SSL", "SSL", "OPEN"),
    Listener("MUTUAL", "SSL", "OPEN", wants_certificate=True),
    Listener("LOGIN", "SASL_PLAINTEXT"),
    Listener("LOGIN_SSL", "SASL_SSL", "LOGIN"),
)


class Talk:
    """A connection that asks one question after the other."""

    def __init__(self, connected: socket.socket) -> None:
        self.connected = connected
        self.number = 0

    def ask(self, *asked: tuple[str, int, dict[str, object]]) -> list[bytes]:
        """Send the requests at once; returns all answers."""
        frames = []
        for api, version, values in asked:
            self.number += 1
            frames.append(request(api, version, self.number, "twin", **values))
        self.connected.sendall(b"".join(frames))
        return [self._read(*struct.unpack(">i", self._read(4))) for _ in frames]

    def close(self) -> None:
        """Say that there is no more, and wait for the broker's end."""
        if isinstance(self.connected, ssl.SSLSocket):
            self.connected.unwrap()
        else:
            self.connected.shutdown(socket.SHUT_WR)
            assert self.connected.recv(1) == b""
        self.connected.close()

    def _read(self, size: int) -> bytes:
        read = b""
        while len(read) < size:
            more = self.connected.recv(size - len(read))
            if not more:
                raise EOFError("the broker closed the connection")
            read += more
        return read


def play(talk: Talk, has_login: bool) -> None:
    """All that is said at a listener."""
    if has_login:
        token = f"\0{USER}\0{USERS[USER]}".encode()
        talk.ask(("SaslHandshake", 1, {"mechanism": "PLAIN"}))
        talk.ask(("SaslAuthenticate", 2, {"auth_bytes": token}))
    software = {"client_software_name": "twin", "client_software_version": "1"}
    talk.ask(("ApiVersions", 3, software))
    talk.ask(("Metadata", 9, {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}))
    for value in (b"small", b"v" * LARGE):
        talk.ask(produce(TOPIC, value))
    talk.ask(produce(MISSING, b"lost"))
    talk.ask(("ListOffsets", 7, {
        "replica_id": -1, "isolation_level": 0,
        "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
    }))  # fmt: skip
    talk.ask(fetch(TOPIC, 0), fetch(TOPIC, 7))
    talk.ask(("FindCoordinator", 3, {"key": GROUP, "key_type": 0}))
    talk.ask(*[("Heartbeat", 4, BEAT)] * 3)
    talk.ask(("OffsetFetch", 7, {
        "group_id": GROUP,
        "topics": [{"name": TOPIC, "partition_indexes": [0]}], "require_stable": False,
    }))  # fmt: skip
    talk.ask(("DescribeConfigs", 4, {
        "resources": [{"resource_type": 2, "resource_name": TOPIC}],
    }))  # fmt: skip


def produce(topic: str, value: bytes) -> tuple[str, int, dict[str, object]]:
    partition = {"index": 0, "records": make_batch([make_record(key=b"k", value=value)])}
    data = [{"name": topic, "partition_data": [partition]}]
    return "Produce", 9, {"acks": -1, "timeout_ms": 5000, "topic_data": data}


def fetch(topic: str, offset: int) -> tuple[str, int, dict[str, object]]:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    values = {
        "replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }  # fmt: skip
    return "Fetch", 12, values


def certificate(directory: Path) -> tuple[Path, Path]:
    """Certificate and key of the client, made for the recording."""
    made, key = directory / "client.pem", directory / "client.key"
    command: list[str | Path] = ["openssl", "req", "-x509", "-newkey", "ec"]
    command += ["-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "3650", "-subj", "/CN=twin", "-keyout", key, "-out", made]
    subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)
    return made, key


def properties(ports: dict[str, int], cluster_ports: list[str], client: Path) -> dict[str, str]:
    """Listeners of the broker, beside those that the recorder uses itself."""
    protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT"}
    protocols |= {one.name: one.protocol for one in LISTENERS}
    places = [f"{one.name}://127.0.0.1:{ports[one.name]}" for one in LISTENERS]
    found = {
        "listeners": ",".join([*places, *cluster_ports]),
        "advertised.listeners": ",".join(
            [*places, *(one for one in cluster_ports if not one.startswith("CONTROLLER"))]
        ),
        "listener.security.protocol.map": ",".join(f"{a}:{b}" for a, b in protocols.items()),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.certificates": client.read_text().replace("\n", "\\n"),
    }
    for one in LISTENERS:
        if one.protocol.startswith("SASL"):
            name = f"listener.name.{one.name.lower()}.plain.sasl.jaas.config"
            found[name] = LOGIN_MODULES["PLAIN"]
    return found


@contextmanager
def running(directory: Path, ports: dict[str, int], client: Path) -> Iterator[Cluster]:
    """The broker; its key log is complete when it has ended."""
    layout = Layout(tls=Tls())
    settings = ClusterSettings(
        RELEASES[NEWEST], KRAFT, layout, FIRST_PORT + 10, 512, dict(SMALL_SINGLE_BROKER),
        key_logger=installs.key_logger(),
    )  # fmt: skip
    cluster = Cluster(settings, f"{installs.broker_jars(NEWEST)}/*", directory)
    own = cluster.ports
    places = [f"PLAINTEXT://127.0.0.1:{own.inter_broker}",
              f"CONTROLLER://127.0.0.1:{own.controller}"]  # fmt: skip
    settings.properties.update(properties(ports, places, client))
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def behind_the_scenes(cluster: Cluster) -> Iterator[Talk]:
    """A talk that is not captured."""
    host, _, port = cluster.open_address.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connected:
        yield Talk(connected)


def warm_up(cluster: Cluster) -> None:
    """Wait until the group has its coordinator, and the broker answers as it will."""
    deadline = time.monotonic() + TIMEOUT_S
    code = -1
    while code != UNKNOWN_MEMBER_ID:
        assert time.monotonic() < deadline
        time.sleep(0.5)
        with behind_the_scenes(cluster) as talk:
            talk.ask(("FindCoordinator", 3, {"key": GROUP, "key_type": 0}))
            (answer,) = talk.ask(("Heartbeat", 4, BEAT))
        # Behind the correlation id, an empty field of tags, and the throttle time.
        (code,) = struct.unpack_from(">h", answer, 9)


def make_topic(cluster: Cluster) -> None:
    """Delete the topic, and make it again: the same offsets at each listener."""
    with behind_the_scenes(cluster) as talk:
        talk.ask(("DeleteTopics", 4, {"topic_names": [TOPIC], "timeout_ms": 5000}))
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
        talk.ask(("CreateTopics", 5, {"topics": [topic], "timeout_ms": 5000}))
        place = {"partition_index": 0, "timestamp": -1}
        asked = {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [place]}]}
        code = -1
        while code:
            time.sleep(0.1)
            (answer,) = talk.ask(("ListOffsets", 1, asked))
            # Behind the correlation id, a topic's name, and a partition's number.
            (code,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(TOPIC) + 4 + 4)


def context(cluster: Cluster, version: str, client: tuple[Path, Path] | None) -> ssl.SSLContext:
    made = ssl.create_default_context(cadata=cluster.certificates)
    made.minimum_version = made.maximum_version = VERSIONS[version]
    if client is not None:
        made.load_cert_chain(*client)
    return made


def record(directory: Path) -> list[dict[str, str]]:
    """Play at all listeners; what was said at which of the capture's connections, in order."""
    client = certificate(directory)
    ports = {one.name: free_port(FIRST_PORT + at) for at, one in enumerate(LISTENERS)}
    capture, said = directory / "twins.pcap", []
    with running(directory, ports, client[0]) as cluster:
        sniffer = Sniffer(list(ports.values()), capture)
        warm_up(cluster)
        sniffer.start()
        for one in LISTENERS:
            for version in VERSIONS if one.twin else ("",):
                make_topic(cluster)
                address = HOST if one.twin else "127.0.0.1"
                with socket.create_connection(("127.0.0.1", ports[one.name]), TIMEOUT_S) as plain:
                    given = client if one.wants_certificate else None
                    connected = (
                        context(cluster, version, given).wrap_socket(plain, server_hostname=address)
                        if one.twin
                        else plain
                    )
                    said.append({
                        "listener": one.name, "protocol": one.protocol, "version": version,
                        "twin": one.twin, "client_port": str(connected.getsockname()[1]),
                    })  # fmt: skip
                    talk = Talk(connected)
                    play(talk, one.protocol.startswith("SASL"))
                    talk.close()
        time.sleep(1)  # for the end of the last connection
        sniffer.stop()
        key_log = cluster.key_log
    randoms: dict[str, list[str]] = {}
    for one in LISTENERS:
        if one.twin:
            randoms |= client_randoms(capture, ports[one.name])
    lines = by_client_random(key_log.read_text(encoding="ascii").splitlines(), randoms)
    OUTPUT.with_suffix(".keys").write_text("".join(f"{one}\n" for one in lines))
    command = ["editcap", "-F", "pcapng", str(capture), str(OUTPUT)]
    subprocess.run(command, check=True, timeout=TIMEOUT_S)
    return said


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kdissect-twins-") as name:
        said = record(Path(name))
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    made = {
        "kafka": NEWEST, "agent": f"extract-tls-secrets {installs.KEY_LOGGER_VERSION}",
        "java": java.stderr.splitlines()[1], "connections": said,
    }  # fmt: skip
    OUTPUT.with_suffix(".json").write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
