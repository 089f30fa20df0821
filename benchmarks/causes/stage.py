"""Staging: a cluster, and one incident after the other on it, each with a capture of its own."""

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.causes import vantage
from benchmarks.causes.paced import Paced
from benchmarks.causes.shapes import HEAP_MEGABYTES, PORT, cluster_of
from benchmarks.causes.table import Incident, Quiet, Variant
from benchmarks.causes.truth import Truth, read_truth
from tools.record.agents import AgentProcess, Reply, parse_library
from tools.record.cluster import Cluster
from tools.record.networks import Network, lose
from tools.record.processes import START_TIMEOUT_SECONDS
from tools.record.recording import Options, Stage, record
from tools.record.scenarios import SCENARIOS
from tools.record.scenarios.at_work import place
from tools.record.sniffer import Sniffer, to_pcapng

LOOPBACK = Network("127.0.0.1")
CAPTURES = Path(__file__).resolve().parents[2] / "captures"
CPU_PRESSURE = Path("/proc/pressure/cpu")
STARTED = "started (kafka.server.Kafka"
SETTLE_SECONDS = 0.4
PCAP_HEADER = 24
WORKING = ("java", "librdkafka")  # libraries whose agents work in threads
NAMES = ("orders", "clicks", "payments", "trips", "parcels", "readings", "bids", "carts")
Planned = tuple[str, str, Incident | Quiet, Variant]  # name, half, and incident


class Scene:
    """One incident on its stage: its names, its clients, its capture and its truth."""

    def __init__(
        self, stage: "CausesStage", name: str, half: str, what: Incident | Quiet, variant: Variant
    ) -> None:
        self.stage = stage
        self.name = name
        self.variant = variant
        self.stem = stem_of(name)
        self.names: dict[str, str] = {"stem": self.stem}
        self.truth = Truth(name, what.name, half, "")
        self._what = what
        self._running: dict[str, str] = {}
        self._paced: dict[str, Paced] = {}
        self._sniffer: Sniffer | None = None

    @property
    def cluster(self) -> Cluster:
        """The servers."""
        return self.stage.cluster

    def broker(self, number: int) -> str:
        """A broker's address, as captures have it."""
        return f"127.0.0.{number}:{self.cluster.ports.client}"

    def topic(self, suffix: str = "", partitions: int = 1, **more: Any) -> str:
        """Create a topic: `replication`, `configs`."""
        name = f"{self.stem}-{suffix}" if suffix else self.stem
        wanted = {"name": name, "partitions": partitions, **more}
        self.stage.prepare("create_topics", topics=[wanted])
        return name

    def admin(self, operation: str, **arguments: Any) -> Any:
        """Let an administrator make a change."""
        return self.stage.prepare(operation, **arguments).result

    def write(self, who: str, *topics: str, library: str | None = None, **work: Any) -> str:
        """Start to produce as the client {stem}-{who}, until `stop`; its client id."""
        return self._begin("start_writing", who, library, topics=list(topics), **work)

    def read(self, who: str, *topics: str, library: str | None = None, **work: Any) -> str:
        """Begin to consume, in the group {stem}-{group}."""
        group = work.pop("group", None)
        if group is not None:
            work["group"] = f"{self.stem}-{group}"
        return self._begin("start_reading", who, library, topics=list(topics), **work)

    def share(self, who: str, *topics: str, group: str, **work: Any) -> str:
        """Begin to consume as a member of a share group."""
        named, own = f"{self.stem}-{group}", work.pop("own", None)
        return self._begin("start_sharing", who, own, topics=list(topics), group=named, **work)

    def stop(self, client: str) -> dict[str, int]:
        """End a client's work; return its counts."""
        counts = self._end(client)
        known = self.truth.clients.setdefault(client, {})
        for what, number in counts.items():
            known[what] = known.get(what, 0) + number
        return counts

    def stop_all(self) -> None:
        """End all clients, in the order in which they began."""
        for client in list(self._running):
            self.stop(client)

    def agent(self, library: str) -> AgentProcess:
        """The process of a library's clients."""
        return self.stage.agent(library)

    def wait_for(self, client: str, requests: int = 10) -> None:
        """Wait until a client works: a process may take seconds to send its first request."""
        assert self._sniffer is not None, "nothing is captured yet"
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while self._sniffer.pcap.read_bytes().count(client.encode()) < requests:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{client} sent no {requests} requests")
            time.sleep(0.2)

    def kill(self, library: str) -> None:
        """End a process and its clients by SIGKILL."""
        self.stage.drop_agent(library).kill()
        self._running = {who: where for who, where in self._running.items() if where != library}

    def place(self, topic: str, partition: int, replicas: list[int]) -> None:
        """Set the brokers of a partition; the first leads it."""
        place(self.stage, topic, partition, replicas)

    def kill_broker(self, number: int, politely: bool = False) -> None:
        """End a broker's process; `start_broker` brings it back."""
        self.cluster.servers[number].stop(politely)

    def start_broker(self, number: int) -> None:
        """Start a broker that was stopped, and wait until it serves again.

        With ZooKeeper it ends immediately while its old session lasts, and is started again.
        """
        server = self.cluster.servers[number]
        before = server.logged().count(STARTED)
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while server.logged().count(STARTED) == before:
            if time.monotonic() > deadline:
                raise RuntimeError(f"broker {number} did not come back")
            if not server.is_running:
                server.launch()
            time.sleep(0.2)

    def pause_broker(self, number: int, seconds: float) -> None:
        """Stop a broker's process for a moment, as a long garbage collection would."""
        self.cluster.servers[number].pause(seconds, lambda: None)

    def lose(self, percent: int) -> None:
        """Drop packets of the client, from now on."""
        lose(percent)

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Capture meanwhile; clients that still work are stopped before the capture ends."""
        network = self.cluster.settings.layout.network or LOOPBACK
        pcap = self.stage.directory / f"{self.name}.pcap"
        self._sniffer = Sniffer(self.cluster.captured_ports, pcap, network.taps[0])
        self._sniffer.start()
        waited, began = cpu_waits_us(), time.monotonic()
        try:
            yield
            self.stop_all()
            elapsed = time.monotonic() - began
            self.truth.pressure = round((cpu_waits_us() - waited) / elapsed / 1e6, 2)
            time.sleep(SETTLE_SECONDS)
            self._sniffer.stop()
            if pcap.stat().st_size <= PCAP_HEADER:
                raise RuntimeError("nothing was captured")
        finally:
            self._sniffer.kill()

    @contextmanager
    def incident(self, **names: str) -> Iterator[None]:
        """Note when it began and ended; `names` are for {placeholders} of the truth."""
        self.names |= names
        self.truth.start_ns = time.time_ns()
        yield
        self.truth.end_ns = time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Let the scene continue."""
        time.sleep(seconds * self.variant.length)

    def play(self) -> None:
        """Play it; leave no client behind."""
        try:
            self._what.play(self)
        finally:
            for client in list(self._running):
                self._end(client)

    def write_files(self, directory: Path) -> list[Path]:
        """The capture, its truth, and those of its views."""
        fill(self.truth, self._what, self.variant, self.names)
        capture = directory / f"{self.name}.pcapng"
        to_pcapng(self.stage.directory / f"{self.name}.pcap", capture)
        (self.stage.directory / f"{self.name}.pcap").unlink()
        self.truth.write(capture)
        views = [vantage.derive(capture, view, self.names) for view in self.variant.views]
        return [capture, *views]

    def _end(self, client: str) -> dict[str, int]:
        library = self._running.pop(client)
        if client in self._paced:
            return self._paced.pop(client).stop()
        counts: dict[str, int] = self.stage.call(library, "stop", client).result
        return counts

    def _begin(self, operation: str, who: str, library: str | None, **work: Any) -> str:
        client = f"{self.stem}-{who}"
        if operation == "start_writing" and "every_ms" in work:
            work["every_ms"] = max(1, round(work["every_ms"] * self.variant.pace))
        chosen = library or self.variant.library
        if parse_library(chosen).name in WORKING:
            self.stage.call(chosen, operation, client, **work)
        else:
            chosen = f"{chosen}#{client}"
            self._paced[client] = Paced(self.stage, chosen, client, work)
            self._paced[client].open()
        self._running[client] = chosen
        return client


def cpu_waits_us() -> int:
    """For how long any process on this machine has waited for a CPU; 0 where that is unknown."""
    if not CPU_PRESSURE.exists():
        return 0
    some, *_ = CPU_PRESSURE.read_text().splitlines()
    return int(some.rpartition("total=")[2])


def stem_of(name: str) -> str:
    """Prefix of the names of a recording's clients, groups and topics."""
    number = sum(name.encode()) % 97
    return f"{NAMES[number % len(NAMES)]}-{number}"


def retell(directory: Path, planned: Sequence[Planned]) -> None:
    """Rewrite the truths of captures from the current table, and their views."""
    for name, half, what, variant in planned:
        capture = directory / half / f"{name}.pcapng"
        if not capture.exists():
            continue
        truth = read_truth(capture)
        fill(truth, what, variant, {"stem": stem_of(name)} | truth.names)
        truth.write(capture)
        for file in capture.parent.glob(f"{name}-*"):
            if not file.name.removeprefix(f"{name}-")[0].isdigit():
                file.unlink()
        for view in variant.views:
            vantage.derive(capture, view, truth.names)


def fill(truth: Truth, what: Incident | Quiet, variant: Variant, names: dict[str, str]) -> None:
    """Complete a truth by the table."""
    truth.names = names
    truth.kafka, truth.shape, truth.library = variant.version, variant.shape, variant.library
    if isinstance(what, Quiet):
        truth.cause = what.what
        return
    truth.cause = what.cause.format(**names)
    truth.ids, truth.also, truth.false = list(what.ids), list(what.also), list(what.false)
    truth.entities = [entity.format(**names) for entity in what.entities]
    truth.is_notice = what.is_notice


class CausesStage(Stage):
    """A recorder's stage kept from scene to scene."""

    def prepare(self, operation: str, **arguments: Any) -> Reply:
        """Let the newest Java client act, with SASL and TLS if configured."""
        layout = self.cluster.settings.layout
        address = self.cluster.open_address if layout.has_open_listener else self.cluster.address
        agent = self._agent("java", address)
        agent.send(operation, client="backstage", **arguments)
        return agent.receive()

    def agent(self, library: str) -> AgentProcess:
        """The process of a library's clients."""
        return self._agent(library, self.cluster.address)

    def drop_agent(self, library: str) -> AgentProcess:
        """The same, no longer of the stage."""
        return self._agents.pop((library, self.cluster.address))


def record_on(version: str, shape: str, planned: Sequence[Planned], directory: Path) -> list[str]:
    """Start a cluster and stage everything on it; return the names of those that failed."""
    failed = []
    options = Options(version, PORT, HEAP_MEGABYTES)
    with tempfile.TemporaryDirectory(prefix="kdissect-causes-") as scratch:
        cluster = cluster_of(version, shape, Path(scratch))
        network = cluster.settings.layout.network or LOOPBACK
        stage = CausesStage(options, cluster, Path(scratch))
        try:
            network.up()
            cluster.start()
            warm_up(stage, planned)
            for name, half, what, variant in planned:
                began = time.monotonic()
                scene = Scene(stage, name, half, what, variant)
                try:
                    scene.play()
                    target = directory / half
                    target.mkdir(parents=True, exist_ok=True)
                    made = scene.write_files(target)
                    told = f"{len(made)} captures, {made[0].stat().st_size:,} bytes"
                except Exception as error:  # the next one is staged all the same
                    failed.append(name)
                    told = f"failed: {type(error).__name__}: {str(error)[:300]}"
                print(f"{name}: {told}, {time.monotonic() - began:.0f} s", flush=True)
        finally:
            stage.stop_agents()
            cluster.stop()
            network.down()
    return failed


def record_scenarios(
    version: str, shape: str, planned: Sequence[Planned], directory: Path
) -> list[str]:
    """Record scenarios not staged here; return the names of failed ones."""
    del version, shape  # each scenario starts a cluster of its own
    failed = []
    for one in planned:
        try:
            record_scenario(one, directory)
        except Exception as error:  # the next one is recorded all the same
            failed.append(one[0])
            print(f"{one[0]}: failed: {type(error).__name__}: {str(error)[:300]}", flush=True)
    return failed


def record_scenario(planned: Planned, directory: Path) -> None:
    """Copy a committed capture, or let the recorder play its scenario; write the truth."""
    name, half, what, variant = planned
    target = directory / half
    target.mkdir(parents=True, exist_ok=True)
    capture = target / f"{name}.pcapng"
    if "capture" in variant.options:
        shutil.copyfile(CAPTURES / f"{variant.options['capture']}.pcapng", capture)
    else:
        scenario = variant.options["scenario"]
        options = Options(variant.version, PORT, HEAP_MEGABYTES, clients=variant.options["clients"])
        record(SCENARIOS[scenario], scenario, options, capture)
    truth = Truth(name, what.name, half, "")
    fill(truth, what, variant, {})
    truth.write(capture)
    print(f"{name}: {capture.stat().st_size:,} bytes", flush=True)


def warm_up(stage: Stage, planned: Sequence[Planned]) -> None:
    """Warm up: classes of JVMs, internal topics."""
    shape = planned[0][3].shape
    if shape in ("unnamed", "deaf", "sasl", "tls"):
        return
    stage.prepare("create_topics", topics=[{"name": "warm-up", "partitions": 1}])
    libraries = dict.fromkeys(["java", *(variant.library for *_, variant in planned)])
    for library in libraries:
        if parse_library(library).name not in WORKING:
            continue
        stage.call(library, "start_writing", "warm-up", topics=["warm-up"], every_ms=2)
        time.sleep(2)
        stage.call(library, "stop", "warm-up")
        reading = {"topics": ["warm-up"], "group": "warm-up"}
        stage.call(library, "start_reading", "warm-up", **reading)
        time.sleep(2)
        stage.call(library, "stop", "warm-up")
