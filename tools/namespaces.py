"""Network namespaces for a measurement or a test: named after this process, removed at its end."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tools.record.networks import Network, inside

COMMAND_TIMEOUT_SECONDS = 20


class Inside(Network):
    """All servers of a cluster are in one namespace."""

    def enter(self, namespace: str) -> list[str]:
        return inside(self.namespaces[0])


class Side(NamedTuple):
    """One end of a cable: a namespace, its interface there, and that one's address."""

    namespace: str
    interface: str
    address: str = ""

    @property
    def enter(self) -> list[str]:
        """Command prefix to run in the namespace."""
        return inside(self.namespace)

    def ip(self, command: str) -> str:
        """Output of an `ip` command in the namespace."""
        return run(["ip", "-n", self.namespace, *command.split()])

    def sets(self, state: str) -> None:
        """Let the interface be `up` or `down`."""
        self.ip(f"link set {self.interface} {state}")

    def counts(self) -> tuple[int, int]:
        """Packets and bytes that came to the interface."""
        of_all = run([*self.enter, "cat", "/proc/net/dev"])
        line = next(one for one in of_all.splitlines() if one.strip().startswith(self.interface))
        fields = line.partition(":")[2].split()
        return int(fields[1]), int(fields[0])


class Cable(NamedTuple):
    """A veth pair between two namespaces."""

    near: Side
    far: Side

    def plug(self) -> None:
        """Make it, with the addresses of both ends, and let both be up."""
        near, far = self
        peer = f"type veth peer name {far.interface} netns {far.namespace}"
        near.ip(f"link add {near.interface} {peer}")
        for side in self:
            if side.address:
                side.ip(f"address add {side.address}/24 dev {side.interface}")
            side.sets("up")

    def unplug(self) -> None:
        """Remove it: both interfaces are gone."""
        self.near.ip(f"link delete {self.near.interface}")


@contextmanager
def cabled(near: str = "", far: str = "") -> Iterator[Cable]:
    """Two namespaces with a cable, whose ends have these addresses, or none."""
    names = [f"kdissect-{os.getpid()}-{word}" for word in ("near", "far")]
    cable = Cable(Side(names[0], "near0", near), Side(names[1], "far0", far))
    try:
        for name in names:
            make(name)
        cable.plug()
        yield cable
    finally:
        for name in names:
            remove(name)


@contextmanager
def mirrored(side: Side, core: int) -> Iterator[Side]:
    """A port in a namespace of its own, to which all packets of an interface are copied.

    As behind a switch's mirrored port (SPAN), receiving there is the work of another processor.
    """
    name = f"kdissect-{os.getpid()}-mirror"
    mirror, port = Side(side.namespace, "mirror0"), Side(name, "port0")
    cable = Cable(mirror, port)
    try:
        make(name)
        cable.plug()
        tc = [*side.enter, "tc"]
        run([*tc, "qdisc", "add", "dev", side.interface, "clsact"])
        for direction in ("ingress", "egress"):
            run([
                *tc, "filter", "add", "dev", side.interface, direction, "protocol", "all",
                "u32", "match", "u32", "0", "0",
                "action", "mirred", "egress", "mirror", "dev", mirror.interface,
            ])  # fmt: skip
        cpus = f"/sys/class/net/{port.interface}/queues/rx-0/rps_cpus"
        run([*port.enter, "sh", "-c", f"echo {1 << core:x} > {cpus}"])
        yield port
    finally:
        remove(name)


@contextmanager
def alone() -> Iterator[Side]:
    """A namespace with nothing but its own loopback."""
    name = f"kdissect-{os.getpid()}-alone"
    try:
        make(name)
        yield Side(name, "lo", "127.0.0.1")
    finally:
        remove(name)


def make(namespace: str) -> None:
    run(["ip", "netns", "add", namespace])
    # Its links carry only the requested traffic.
    run([*inside(namespace), "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"])
    run(["ip", "-n", namespace, "link", "set", "lo", "up"])


def remove(namespace: str) -> None:
    """Remove it, whether it is there or not."""
    subprocess.run(
        ["ip", "netns", "delete", namespace],
        capture_output=True,
        timeout=COMMAND_TIMEOUT_SECONDS,
        check=False,
    )


def run(command: list[str], seconds: float = COMMAND_TIMEOUT_SECONDS) -> str:
    """Output of a command; raises RuntimeError with its stderr if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
