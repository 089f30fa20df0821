"""The clusters that incidents are staged on: each is started once for many of them."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tools.record import installs
from tools.record.cluster import Cluster, ClusterSettings
from tools.record.configuration import KRAFT, ZOOKEEPER, Layout, Node
from tools.record.networks import switched
from tools.record.releases import RELEASES
from tools.record.scenarios.incidents import IMPATIENT_BROKER
from tools.record.tls import Tls

PORT = 29092
HEAP_MEGABYTES = 512
FAR_NAME = "broker-1.kafka.invalid"  # never resolved: RFC 2606
DEAF_ADDRESS = "127.0.0.66"  # of the loopback, where no broker listens
SMALL_DISK_NODE, SMALL_DISK_MEGABYTES = 2, 12
SHARE = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "3000",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams,share",
}
ONE = IMPATIENT_BROKER | {
    "group.initial.rebalance.delay.ms": "300",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "file.delete.delay.ms": "1000",
}
COPIES = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "500",
}
QUICK_SESSIONS = {"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "3000"}
LIMITS = {"max.connections.per.ip": "12", "group.max.size": "2"}
NARROW = {"num.io.threads": "1", "num.network.threads": "1"}
AUTHORIZERS = {
    KRAFT: "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ZOOKEEPER: "kafka.security.authorizer.AclAuthorizer",
}


class Shape(NamedTuple):
    """A layout and the properties that make it."""

    layout: Layout
    properties: Callable[[str], dict[str, str]]  # of a cluster's mode


def three(mode: str) -> dict[str, str]:
    """Three copies of everything; a broker that is silent for 3 s is given up."""
    quick = QUICK_SESSIONS if mode == KRAFT else {"zookeeper.session.timeout.ms": "4000"}
    return ONE | COPIES | quick


def strict(mode: str) -> dict[str, str]:
    """The same, and a follower that has not caught up for 1.5 s is out of sync."""
    quick = {"replica.fetch.wait.max.ms": "500", "replica.lag.time.max.ms": "1500"}
    return three(mode) | {"broker.session.timeout.ms": "9000"} | quick


def advertised(host: str) -> dict[str, str]:
    """Clients are sent to this host after they have bootstrapped."""
    listener = {"advertised.listeners": f"PLAINTEXT://{host}:{PORT}"}
    return ONE | listener | {"auto.create.topics.enable": "true", "num.partitions": "1"}


def guarded(mode: str) -> dict[str, str]:
    """Only the administrator may do everything."""
    return ONE | {
        "authorizer.class.name": AUTHORIZERS[mode],
        "super.users": "User:admin;User:ANONYMOUS",
    }


SHAPES = {
    "one": Shape(Layout(), lambda _: dict(ONE)),
    "share": Shape(Layout(), lambda _: ONE | SHARE),
    "three": Shape(Layout(brokers=3, controllers=1), three),
    "strict": Shape(Layout(brokers=3, controllers=1), strict),
    "disk": Shape(Layout(brokers=3, controllers=1), three),
    "sasl": Shape(Layout(has_sasl=True), guarded),
    "tls": Shape(Layout(tls=Tls(has_key_log=False)), lambda _: dict(ONE)),
    "idle": Shape(Layout(), lambda _: ONE | {"connections.max.idle.ms": "3000"}),
    "small-buffers": Shape(Layout(), lambda _: ONE | {"socket.send.buffer.bytes": "65536"}),
    "unnamed": Shape(Layout(), lambda _: advertised(FAR_NAME)),
    "deaf": Shape(Layout(), lambda _: advertised(DEAF_ADDRESS)),
    "network": Shape(Layout(network=switched()), lambda _: dict(ONE)),
    "limits": Shape(Layout(), lambda _: ONE | LIMITS),
    "narrow": Shape(Layout(), lambda _: ONE | NARROW),
}


def settings_of(version: str, shape: str) -> ClusterSettings:
    """A cluster of this release and shape."""
    release, (layout, properties) = RELEASES[version], SHAPES[shape]
    mode = KRAFT if release.has_kraft else ZOOKEEPER
    if mode == ZOOKEEPER and layout.controllers:
        layout = layout._replace(controllers=0)
    return ClusterSettings(release, mode, layout, PORT, HEAP_MEGABYTES, properties(mode))


class FullDiskCluster(Cluster):
    """The second broker's logs are on a disk of some megabytes of their own."""

    def __init__(self, settings: ClusterSettings, class_path: str, directory: Path) -> None:
        super().__init__(settings, class_path, directory)
        self._disk: Path | None = None

    def stop(self) -> None:
        """End the servers, and give the disk back."""
        super().stop()
        if self._disk is not None:
            subprocess.run(["umount", str(self._disk)], check=True, timeout=20)
            self._disk = None

    def _prepare(self, node: Node) -> None:
        super()._prepare(node)
        if node.node_id != SMALL_DISK_NODE:
            return
        data = self._directory / f"node-{node.node_id}" / "data"
        data.mkdir(exist_ok=True)
        formatted = data.rename(data.with_name("formatted"))
        data.mkdir()
        size = f"size={SMALL_DISK_MEGABYTES}m"
        mount = ["mount", "-t", "tmpfs", "-o", size, "none", str(data)]
        subprocess.run(mount, check=True, timeout=20)
        self._disk = data
        for file in formatted.iterdir():
            shutil.copy2(file, data / file.name)


def cluster_of(version: str, shape: str, directory: Path) -> Cluster:
    """A cluster that is not started yet."""
    make = FullDiskCluster if shape == "disk" else Cluster
    return make(settings_of(version, shape), class_path_of(version), directory)


def class_path_of(version: str) -> str:
    """The class path of brokers of a release."""
    path = f"{installs.broker_jars(version)}/*"
    plugins: Path | None = installs.broker_plugins(version)
    return path if plugins is None else f"{path}:{plugins}"
