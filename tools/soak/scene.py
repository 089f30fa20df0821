"""Scene of the soak: a broker behind a cable, clients at its other end, a small disk.

clients ── far0 ══ near0 ── broker, on an address of its own that is always there
                     └── kdissect live ──▶ a file system of DISK_SIZE in memory
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.namespaces import Cable, Inside, cabled, run
from tools.record import installs
from tools.record.cluster import Cluster, ClusterSettings
from tools.record.configuration import KRAFT, Layout
from tools.record.releases import NEWEST, RELEASES
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER
from tools.soak.capture import LiveCapture

ROOT = Path(__file__).resolve().parents[2]
BROKER, NEAR, FAR = "10.77.1.1", "10.77.0.1", "10.77.0.2"
PORT = 9092
HEAP_MEGABYTES = 512
DISK_SIZE = "512m"
CLIENTS_TIMEOUT_S = 90.0


class Scene:
    """Parts of the scene; see `staged`."""

    def __init__(self, cable: Cable, directory: Path) -> None:
        self.cable = cable
        self.directory = directory
        self.disk = directory / "disk"
        self.journal = directory / "journal.jsonl"
        layout = Layout(network=Inside(BROKER, (cable.near.namespace,)))
        settings = ClusterSettings(
            RELEASES[NEWEST], KRAFT, layout, PORT, HEAP_MEGABYTES, SMALL_SINGLE_BROKER
        )
        self.cluster = Cluster(settings, f"{installs.broker_jars(NEWEST)}/*", directory)
        self.clients: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> Path:
        return self.disk / "live"

    def capture(
        self, command: list[str], environment: dict[str, str], workers: int = 1
    ) -> LiveCapture:
        """`kdissect live` at the broker's end of the cable, not started."""
        log = self.directory / "live.log"
        return LiveCapture(command, self.cable.near, self.output, log, environment, workers)

    def plug(self) -> None:
        """The cable, again."""
        self.cable.plug()
        self.lead()

    def lead(self) -> None:
        """Tell clients the way to the broker."""
        self.cable.far.ip(f"route replace {BROKER} via {NEAR}")

    def start_clients(self, seed: int, count: int) -> None:
        address = f"{BROKER}:{self.cluster.ports.client}"
        program = [sys.executable, "-m", "tools.soak.client", address, str(self.journal)]
        with (self.directory / "clients.log").open("wb") as log:
            self.clients = subprocess.Popen(
                [*self.cable.far.enter, *program, "--seed", str(seed), "--clients", str(count)],
                stderr=log,
                cwd=ROOT,
            )

    def stop_clients(self) -> None:
        """Let them finish their current work."""
        assert self.clients is not None
        self.clients.send_signal(signal.SIGTERM)
        code = self.clients.wait(CLIENTS_TIMEOUT_S)
        if code:
            said = (self.directory / "clients.log").read_text()
            raise RuntimeError(f"the clients ended with {code}: {said[-2000:]}")

    def end(self) -> None:
        if self.clients is not None and self.clients.poll() is None:
            self.clients.kill()
            self.clients.wait()
        self.cluster.stop()


@contextmanager
def staged(directory: Path) -> Iterator[Scene]:
    """A running broker; everything is removed except the contents of the directory."""
    with cabled(NEAR, FAR) as cable:
        cable.near.ip(f"address add {BROKER}/32 dev lo")
        scene = Scene(cable, directory)
        scene.lead()
        scene.disk.mkdir()
        run(["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "tmpfs", str(scene.disk)])
        try:
            scene.cluster.start()
            yield scene
        finally:
            scene.end()
            run(["umount", "--lazy", str(scene.disk)])
