"""Network namespaces with interfaces of their own: two hosts with a cable, made and removed."""

import ctypes
import itertools
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

CLONE_NEWNET = 0x40000000
NUMBERS = itertools.count()
# Both ends of the cable, each in its own namespace.
CABLE = "kd0"
PORT = 9092
TIMEOUT = 10


class Host(NamedTuple):
    """A namespace; `ipv4` and `ipv6` are its addresses on the cable, the broker's end 1."""

    namespace: str
    ipv4: str
    ipv6: str

    def ip(self, *words: str) -> None:
        """Run `ip` inside."""
        self.ip_says(*words)

    def ip_says(self, *words: str) -> str:
        return run("ip", "-n", self.namespace, *words)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets opened meanwhile by this thread are of this host."""
        with Path("/proc/self/ns/net").open() as here:
            try:
                with Path("/run/netns", self.namespace).open() as there:
                    enter(there.fileno())
                yield
            finally:
                enter(here.fileno())

    def plug(self, name: str = CABLE) -> None:
        """Give its end of the cable addresses, and take it up."""
        self.ip("address", "add", f"{self.ipv4}/24", "dev", name)
        self.ip("address", "add", f"{self.ipv6}/64", "dev", name, "nodad")
        self.ip("link", "set", name, "up")

    def talk_to(self, other: "Host", texts: list[bytes], address: str = "") -> None:
        """A connection to the other, over which each text goes there and comes back."""
        address = address or other.ipv4
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with other.inside():
            server = socket.create_server((address, PORT), family=family)
        with server:
            server.settimeout(TIMEOUT)
            with self.inside():
                client = socket.create_connection((address, PORT), timeout=TIMEOUT)
            with client:
                answering = server.accept()[0]
                with answering:
                    answering.settimeout(TIMEOUT)
                    for text in texts:
                        client.sendall(text)
                        answering.sendall(receive(answering, len(text)))
                        receive(client, len(text))

    def send_frames(self, frames: list[bytes], name: str = CABLE) -> None:
        """Put whole Ethernet frames on the cable."""
        with self.inside(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sending:
            sending.bind((name, 0))
            for frame in frames:
                sending.send(frame)


def receive(talking: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        more = talking.recv(size - len(received))
        assert more
        received += more
    return received


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def needs_packet_sockets() -> None:
    """Skip, with the reason, where interfaces cannot be made or read."""
    if not hasattr(socket, "AF_PACKET"):
        pytest.skip("needs Linux for packet sockets")
    if os.geteuid() != 0:
        pytest.skip("needs root to open packet sockets")
    with suppress(OSError, AssertionError), two_hosts():
        return
    pytest.skip("needs network namespaces and `ip` of iproute2")


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """A client and a broker with a cable between them, named CABLE at both ends."""
    stem = f"kd{os.getpid()}-{next(NUMBERS)}"
    hosts = [Host(f"{stem}-{at}", f"10.77.0.{at}", f"fd77::{at}") for at in (2, 1)]
    try:
        for host in hosts:
            run("ip", "netns", "add", host.namespace)
            host.ip("link", "set", "lo", "up")
        lay_cable(*hosts)
        yield hosts[0], hosts[1]
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "delete", host.namespace], check=False, timeout=TIMEOUT)


def lay_cable(one: Host, other: Host) -> None:
    ends = ["netns", one.namespace, "type", "veth", "peer", "name", CABLE]
    run("ip", "link", "add", CABLE, *ends, "netns", other.namespace)
    one.plug()
    other.plug()
