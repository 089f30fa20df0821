"""A broker's own throughput without capturing, with kdissect live, and with tcpdump -w.

A real broker, a producer and a consumer (Kafka's own performance tools) are bound to the first
core; capturers to the last. Producer and consumer run all the time, as fast as the core lets them;
meanwhile the ways take turns, in another order each round. What goes over their network in a window
of some seconds is the throughput. That network is one of

- loopback: all of them are in one namespace, and its loopback is captured
- veth: the clients are in another namespace; the broker's end of the veth pair is captured
- mirror: as before, but a copy of all its packets is captured, in a third namespace, as behind a
  switch's mirrored port; they are copied without capturing, too

The broker's log is in memory, the last GB of it: on a disk, what it writes decides as much as who
captures. What capturers write goes to the disk.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.live_capturers import LAST_CORE, Capturer
from benchmarks.live_measuring import FIRST_CORE, captured
from tools.namespaces import Inside, Side, alone, cabled, mirrored
from tools.record import installs
from tools.record.cluster import Cluster, ClusterSettings
from tools.record.configuration import KRAFT, Layout
from tools.record.releases import NEWEST, RELEASES
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER

TOPIC = "measured"
RECORD_SIZE = 1000
ENDLESS = str(10**9)
HEAP_MEGABYTES = 1024
PORT = 9092
WARM_UP_S = 45.0  # until the JIT has compiled the hot code
SETTLE_S, WINDOW_S = 1.0, 6.0
MEMORY = Path("/dev/shm")  # noqa: S108  # a directory with any name is made in it
PROPERTIES = SMALL_SINGLE_BROKER | {
    "log.segment.bytes": str(64 << 20),
    "log.retention.bytes": str(1 << 30),
    "log.retention.check.interval.ms": "5000",
    "log.segment.delete.delay.ms": "1000",
}
TOOLS = "org.apache.kafka.tools"
WITHOUT = "without"
NETWORKS = ("loopback", "veth", "mirror")


class Places(NamedTuple):
    """Where the broker and its clients are, and what is captured."""

    broker: Side
    clients: Side
    captured: Side

    def received(self) -> int:
        """Bytes that came to the broker and to the clients."""
        return sum(side.counts()[1] for side in {self.broker, self.clients})


class Bench:
    """A broker, and the tools that load it."""

    def __init__(self, places: Places, directory: Path) -> None:
        side = places.broker
        self.places = places
        self.directory = directory
        self.jars = f"{installs.broker_jars(NEWEST)}/*:{installs.tools_jars(NEWEST)}/*"
        layout = Layout(network=Inside(side.address, (side.namespace,)))
        settings = ClusterSettings(
            RELEASES[NEWEST], KRAFT, layout, PORT, HEAP_MEGABYTES, PROPERTIES
        )
        self.cluster = Cluster(settings, self.jars, directory)
        self.address = f"{side.address}:{self.cluster.ports.client}"
        self.clients: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        """Broker, topic, producer and consumer."""
        self.cluster.start()
        command = (f"{TOOLS}.TopicCommand", "--bootstrap-server", self.address)
        self.cluster.run(*command, "--create", "--topic", TOPIC, "--partitions", "1")
        self._start(
            f"{TOOLS}.ProducerPerformance", "--topic", TOPIC, "--num-records", ENDLESS,
            "--record-size", str(RECORD_SIZE), "--throughput", "-1", "--producer-props",
            f"bootstrap.servers={self.address}", "acks=1", "linger.ms=5", "batch.size=65536",
        )  # fmt: skip
        self._start(
            f"{TOOLS}.ConsumerPerformance", "--bootstrap-server", self.address, "--topic", TOPIC,
            "--num-records", ENDLESS,
        )  # fmt: skip

    def rate(self, seconds: float) -> float:
        """MB a second over the network."""
        before, started = self.places.received(), time.perf_counter()
        time.sleep(seconds)
        size, passed = self.places.received() - before, time.perf_counter() - started
        for client in self.clients:
            if client.poll() is not None:
                said = (self.directory / "clients.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{client.args!r} ended: {said}")
        return size / passed / 1e6

    def end(self) -> None:
        for client in self.clients:
            client.kill()
            client.wait()
        self.cluster.stop()

    def _start(self, *command: str) -> None:
        java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", self.jars]
        with (self.directory / "clients.log").open("ab") as log:
            command = (*self.places.clients.enter, *java, *command)
            self.clients.append(subprocess.Popen(command, stdout=log, stderr=log))


@contextmanager
def on_first_core() -> Iterator[None]:
    """Pin processes started meanwhile to one CPU."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {int(FIRST_CORE)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def places_of(network: str) -> Iterator[Places]:
    """Namespaces with one of the networks."""
    if network == "loopback":
        with alone() as side:
            yield Places(side, side, side)
        return
    with cabled("10.92.0.1", "10.92.0.2") as cable:
        if network == "veth":
            yield Places(cable.far, cable.near, cable.far)
            return
        with mirrored(cable.far, int(LAST_CORE)) as port:
            yield Places(cable.far, cable.near, port)


@contextmanager
def bench(network: str, warm_up_s: float) -> Iterator[Bench]:
    """A broker under load, warm."""
    with (
        places_of(network) as places,
        tempfile.TemporaryDirectory(dir=MEMORY) as directory,
    ):
        one = Bench(places, Path(directory))
        try:
            with on_first_core():
                one.begin()
            time.sleep(warm_up_s)
            yield one
        finally:
            one.end()


def measured(
    network: str,
    chosen: list[Capturer],
    rounds: int,
    scratch: Path | None,
    warm_up_s: float = WARM_UP_S,
    window_s: float = WINDOW_S,
) -> dict[str, Any]:
    """MB a second without and with each capturer in each round."""
    ways: dict[str, Capturer | None] = {WITHOUT: None} | {one.name: one for one in chosen}
    found: dict[str, dict[str, list[float]]] = {
        name: {"rate": [], "cpu_share": []} for name in ways
    }
    with bench(network, warm_up_s) as one:
        for number in range(rounds):
            names = list(ways)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                figures = loaded(one, ways[name], scratch, window_s)
                for what, value in figures.items():
                    found[name][what].append(value)
                print(f"{time.strftime('%H:%M:%S')} {network} {name:9} {figures}", flush=True)
    return {"rounds": rounds, "ways": found}


def loaded(
    one: Bench, capturer: Capturer | None, scratch: Path | None, window_s: float
) -> dict[str, float]:
    """One window, perhaps captured: MB a second, and the share of a core that capturing takes."""
    side = one.places.captured
    with nullcontext() if capturer is None else captured(capturer, side, scratch) as capture:
        time.sleep(SETTLE_S)
        used = 0.0 if capture is None else capture.cpu_seconds()
        rate = one.rate(window_s)
        used = 0.0 if capture is None else capture.cpu_seconds() - used
    return {"rate": round(rate, 2), "cpu_share": round(used / window_s, 3)}
