"""A broker's own throughput without capturing, with kdissect live, and with tcpdump -w.

A real broker and Kafka's own performance tools are bound to the first core, in a namespace of their
own, on its loopback; capturers to the last. The ways take turns, and every round does them in
another order.
"""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.live_capturers import Capturer
from benchmarks.live_measuring import FIRST_CORE, Captured, captured
from tools.namespaces import Inside, Side, alone
from tools.record import installs
from tools.record.cluster import Cluster, ClusterSettings
from tools.record.configuration import KRAFT, Layout
from tools.record.releases import NEWEST, RELEASES
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER

TOPIC = "measured"
RECORD_SIZE, RECORDS = 1000, 200_000
HEAP_MEGABYTES = 1024
PORT = 9092
TIMEOUT_S = 120.0
# Nothing is deleted meanwhile; that would be work of the broker's own.
PROPERTIES = SMALL_SINGLE_BROKER | {"log.segment.bytes": str(64 << 20)}
WARM_UPS = 3
TOOLS = "org.apache.kafka.tools"
PRODUCED = re.compile(r"\(([\d.]+) MB/sec\)")
WITHOUT = "without"


class Bench:
    """A broker, and the tools that load it."""

    def __init__(self, side: Side, directory: Path) -> None:
        self.side = side
        self.jars = f"{installs.broker_jars(NEWEST)}/*:{installs.tools_jars(NEWEST)}/*"
        layout = Layout(network=Inside(side.address, (side.namespace,)))
        settings = ClusterSettings(
            RELEASES[NEWEST], KRAFT, layout, PORT, HEAP_MEGABYTES, PROPERTIES
        )
        self.cluster = Cluster(settings, self.jars, directory)
        self.address = f"{side.address}:{self.cluster.ports.client}"

    def create_topic(self, name: str) -> None:
        """A topic of one partition."""
        options = ("--create", "--topic", name, "--partitions", "1")
        self.cluster.run(f"{TOOLS}.TopicCommand", "--bootstrap-server", self.address, *options)

    def produce(self) -> float:
        """MB a second of a producer that does nothing else."""
        said = self._run(
            f"{TOOLS}.ProducerPerformance", "--topic", TOPIC, "--num-records", str(RECORDS),
            "--record-size", str(RECORD_SIZE), "--throughput", "-1", "--producer-props",
            f"bootstrap.servers={self.address}", "acks=1", "linger.ms=5", "batch.size=65536",
        )  # fmt: skip
        return float(PRODUCED.findall(said)[-1])

    def consume(self) -> float:
        """MB a second of a consumer from the first record there is."""
        said = self._run(
            f"{TOOLS}.ConsumerPerformance", "--bootstrap-server", self.address, "--topic", TOPIC,
            "--num-records", str(RECORDS),
        )  # fmt: skip
        names, values = (line.split(", ") for line in said.strip().splitlines()[-2:])
        return float(values[names.index("fetch.MB.sec")])

    def _run(self, *command: str) -> str:
        java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", self.jars]
        done = subprocess.run(
            [*self.side.enter, *java, *command],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{command} failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout


@contextmanager
def on_first_core() -> Iterator[None]:
    """What is started meanwhile stays on it."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {int(FIRST_CORE)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def bench(scratch: Path | None) -> Iterator[Bench]:
    """A broker that serves, warm."""
    with alone() as side, tempfile.TemporaryDirectory(dir=scratch) as directory:
        one = Bench(side, Path(directory))
        try:
            with on_first_core():
                one.cluster.start()
                one.create_topic(TOPIC)
                for _ in range(WARM_UPS):
                    one.produce()
                    one.consume()
            yield one
        finally:
            one.cluster.stop()


def measured(chosen: list[Capturer], rounds: int, scratch: Path | None) -> dict[str, Any]:
    """MB a second without and with each capturer in each round."""
    ways: dict[str, Capturer | None] = {WITHOUT: None} | {one.name: one for one in chosen}
    found: dict[str, dict[str, list[float]]] = {
        name: {"produce": [], "consume": [], "cpu_seconds": []} for name in ways
    }
    with bench(scratch) as one:
        for number in range(rounds):
            names = list(ways)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                figures = loaded(one, ways[name], scratch)
                for what, value in figures.items():
                    found[name][what].append(value)
                print(f"{time.strftime('%H:%M:%S')} {name:9} {figures}", flush=True)
    return {"rounds": rounds, "record_size": RECORD_SIZE, "records": RECORDS, "ways": found}


def loaded(one: Bench, capturer: Capturer | None, scratch: Path | None) -> dict[str, float]:
    """Producer and consumer, one after the other, perhaps captured."""
    capturing = nullcontext() if capturer is None else captured(capturer, one.side, scratch)
    with capturing as capture:
        with on_first_core():
            figures = {"produce": one.produce(), "consume": one.consume()}
        return figures | {"cpu_seconds": used(capture)}


def used(capture: Captured | None) -> float:
    """CPU seconds of a capturer."""
    return 0.0 if capture is None else round(capture.cpu_seconds(), 2)
