"""Records other traffic found beside Kafka: other protocols, proxies, health checks.

    python -m tools.record.others -o captures/other

writes beside.pcapng (a 3.9.1 broker's ZooKeeper session, an administrator's word, HTTP, SSH, Redis,
JMX over RMI, probes) and proxied.pcapng (kafka-python through two HAProxy, with PROXY headers of
both versions between them, and the first one's health checks). Needs haproxy, redis-server,
redis-cli and ssh in the PATH, `pip install asyncssh`, and what `tools.record` needs.
"""

import argparse
import http.server
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from kafka import KafkaConsumer

from tools.record import installs
from tools.record.cluster import Cluster, ClusterSettings
from tools.record.configuration import ZOOKEEPER, Layout
from tools.record.releases import RELEASES
from tools.record.sidecar import capture_facts
from tools.record.sniffer import Sniffer, to_pcapng

KAFKA_VERSION: Final = "3.9.1"
PORTS: Final = {
    "kafka": 19092, "http": 18080, "ssh": 18022, "redis": 16379, "rmi": 18999, "none": 18099,
    "v1-front": 18101, "v1": 18102, "v2-front": 18103, "v2": 18104,
}  # fmt: skip
JMX: Final = """
import javax.management.remote.*;
public class Jmx {
    public static void main(String[] args) throws Exception {
        String at = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + args[0] + "/jmxrmi";
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(at))) {
            System.out.println(connector.getMBeanServerConnection().getMBeanCount());
        }
    }
}
"""
SSH_SERVER: Final = """
import asyncio, sys, asyncssh
async def main():
    key = asyncssh.generate_private_key("ssh-ed25519")
    await asyncssh.listen("127.0.0.1", int(sys.argv[1]), server_host_keys=[key])
    await asyncio.Event().wait()
asyncio.run(main())
"""
HAPROXY: Final = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 30s
    timeout server 30s
{proxies}
"""
PROXIES: Final = """
listen {name}-front
    bind 127.0.0.1:{front}
    server next 127.0.0.1:{behind} {send} check {check} inter 1s
listen {name}
    bind 127.0.0.1:{behind} accept-proxy
    server broker 127.0.0.1:{broker}
"""


@contextmanager
def running(*command: str, port: int) -> Iterator[None]:
    """A server process, up to the end of the block, once it listens."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await_port(port)
        yield
    finally:
        process.terminate()
        process.wait(20)


def await_port(port: int) -> None:
    """Return once something listens on a port."""
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def make_cluster(directory: Path) -> Cluster:
    """A broker that keeps its metadata in ZooKeeper."""
    settings = ClusterSettings(
        RELEASES[KAFKA_VERSION], ZOOKEEPER, Layout(), PORTS["kafka"], 256, {}
    )
    return Cluster(settings, f"{installs.broker_jars(KAFKA_VERSION)}/*", directory)


def record_beside(directory: Path, capture: Path) -> None:
    """Protocols on ports of their own."""
    cluster = make_cluster(directory)
    protocols = {cluster.ports.zookeeper: "zookeeper"}
    protocols |= {PORTS[name]: name for name in ("http", "ssh", "redis", "rmi", "none")}
    sniffer = Sniffer(list(protocols), directory / "beside.pcap")
    with ExitStack() as stack:
        stack.callback(cluster.stop)
        stack.enter_context(serving_http(PORTS["http"]))
        stack.enter_context(serving_ssh(directory, PORTS["ssh"]))
        redis = ("redis-server", "--port", str(PORTS["redis"]), "--save", "", "--appendonly", "no")
        stack.enter_context(running(*redis, port=PORTS["redis"]))
        stack.enter_context(serving_jmx(directory, PORTS["rmi"]))
        stack.callback(sniffer.kill)
        sniffer.start()
        cluster.start()
        word = socket.create_connection(("127.0.0.1", cluster.ports.zookeeper))
        word.sendall(b"srvr")
        word.recv(4096)
        word.close()
        urllib.request.urlopen(f"http://127.0.0.1:{PORTS['http']}/metrics").read()
        subprocess.run(
            ["ssh", "-p", str(PORTS["ssh"]), "-o", "BatchMode=yes", "-o",
             "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "nobody@127.0.0.1"],
            capture_output=True, check=False,
        )  # fmt: skip
        subprocess.run(["redis-cli", "-p", str(PORTS["redis"]), "set", "a", "1"], check=True,
                       capture_output=True)  # fmt: skip
        subprocess.run(["java", str(directory / "Jmx.java"), str(PORTS["rmi"])], check=True,
                       capture_output=True)  # fmt: skip
        with socket.create_server(("127.0.0.1", PORTS["none"])):
            for _ in range(5):
                socket.create_connection(("127.0.0.1", PORTS["none"])).close()
        sniffer.settle()
        report = sniffer.stop()
    write(directory / "beside.pcap", capture, report.captured, protocols)


def record_proxied(directory: Path, capture: Path) -> None:
    """Kafka through a chain of two proxies."""
    cluster = make_cluster(directory)
    checks = {
        "v1": ("send-proxy", "check-send-proxy"), "v2": ("send-proxy-v2", "check-send-proxy"),
    }  # fmt: skip
    proxies = "".join(
        PROXIES.format(name=name, front=PORTS[f"{name}-front"], behind=PORTS[name], send=send,
                       check=check, broker=cluster.ports.client)
        for name, (send, check) in checks.items()
    )  # fmt: skip
    configuration = directory / "haproxy.cfg"
    configuration.write_text(HAPROXY.format(proxies=proxies))
    sniffer = Sniffer([PORTS["v1"], PORTS["v2"]], directory / "proxied.pcap")
    with ExitStack() as stack:
        stack.callback(cluster.stop)
        cluster.start()
        stack.callback(sniffer.kill)
        sniffer.start()
        haproxy = ("haproxy", "-f", str(configuration))
        stack.enter_context(running(*haproxy, port=PORTS["v1-front"]))
        for name in checks:
            consumer = KafkaConsumer(
                bootstrap_servers=f"127.0.0.1:{PORTS[f'{name}-front']}", client_id=f"shop-{name}"
            )
            consumer.topics()
            consumer.close()
        time.sleep(3)
        sniffer.settle()
        report = sniffer.stop()
    write(
        directory / "proxied.pcap", capture, report.captured,
        {PORTS["v1"]: "proxy, version 1", PORTS["v2"]: "proxy, version 2"},
    )  # fmt: skip


@contextmanager
def serving_http(port: int) -> Iterator[None]:
    """Python's own web server, in a thread."""
    server = http.server.HTTPServer(("127.0.0.1", port), http.server.BaseHTTPRequestHandler)
    server.RequestHandlerClass.do_GET = (  # type: ignore[attr-defined]
        lambda self: (self.send_response(200), self.end_headers(), self.wfile.write(b"up 1\n"))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()


@contextmanager
def serving_ssh(directory: Path, port: int) -> Iterator[None]:
    """asyncssh with its own host key; all logins fail."""
    program = directory / "ssh_server.py"
    program.write_text(SSH_SERVER)
    with running(sys.executable, str(program), str(port), port=port):
        yield


@contextmanager
def serving_jmx(directory: Path, port: int) -> Iterator[None]:
    """A JVM that does nothing, with its JMX agent on one port."""
    (directory / "Jmx.java").write_text(JMX)
    (directory / "Idle.java").write_text(
        "public class Idle { public static void main(String[] a) throws Exception"
        " { Thread.sleep(600_000); } }"
    )
    prefix = "-Dcom.sun.management.jmxremote"
    options = [f"{prefix}.port={port}", f"{prefix}.rmi.port={port}", f"{prefix}.ssl=false",
               f"{prefix}.authenticate=false", "-Djava.rmi.server.hostname=127.0.0.1"]  # fmt: skip
    with running("java", *options, str(directory / "Idle.java"), port=port):
        yield


def write(pcap: Path, capture: Path, packets: int, protocols: dict[int, str]) -> None:
    """Write the capture and its side-car with the protocol of each port."""
    to_pcapng(pcap, capture)
    facts = {
        "format": 1,
        "scenario": capture.stem,
        "capture": capture_facts(capture, packets),
        "software": {"kafka": KAFKA_VERSION, **versions()},
        "ports": {str(port): name for port, name in sorted(protocols.items())},
    }
    capture.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def versions() -> dict[str, str]:
    """First line of each program's version output."""
    asked = {"haproxy": ("-v",), "redis-server": ("--version",), "ssh": ("-V",)}
    told = {"python": sys.version.split()[0], "java": installs.java_version("java")}
    for program, options in asked.items():
        done = subprocess.run([program, *options], capture_output=True, text=True, check=True)
        told[program] = (done.stdout + done.stderr).splitlines()[0]
    return told


def main() -> None:
    """Record both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-o", "--output", type=Path, required=True)
    output: Path = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    for record in (record_beside, record_proxied):
        with tempfile.TemporaryDirectory(prefix="kdissect-record-") as scratch:
            name = record.__name__.removeprefix("record_")
            record(Path(scratch), output / f"{name}.pcapng")


if __name__ == "__main__":
    main()
