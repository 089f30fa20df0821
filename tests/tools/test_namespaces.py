"""A mirrored port carries what the interface does, both ways: by tcpdump at both."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dpkt
import pytest

from tools.namespaces import Cable, Side, cabled, mirrored

SERVER = """
import socket
with socket.create_server(("10.92.0.2", 9092)) as server:
    print("listens", flush=True)
    connection, _ = server.accept()
    with connection:
        while content := connection.recv(65536):
            connection.sendall(content[::-1])
"""
CLIENT = """
import os, socket
with socket.create_connection(("10.92.0.2", 9092), 10) as connection:
    for size in (1, 100, 5000, 100_000):
        content = os.urandom(size)
        connection.sendall(content)
        answer = b""
        while len(answer) < size:
            answer += connection.recv(65536)
"""


@contextmanager
def tcpdump(side: Side, path: Path) -> Iterator[None]:
    command = ["tcpdump", "-i", side.interface, "-w", str(path), "-Z", "root", "-U", "tcp"]
    with subprocess.Popen([*side.enter, *command], stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            assert b"listening" in process.stderr.readline()
            yield
        finally:
            process.terminate()


def talk(cable: Cable) -> None:
    """A conversation over TCP."""
    command = [*cable.far.enter, sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"listens\n"
        client = [*cable.near.enter, sys.executable, "-c", CLIENT]
        subprocess.run(client, check=True, timeout=30)


def packets_in(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return sorted(content for _, content in dpkt.pcap.Reader(file))


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make network namespaces")
def test_a_mirrored_port_carries_what_the_interface_does(tmp_path: Path) -> None:
    files = [tmp_path / "interface.pcap", tmp_path / "port.pcap"]
    with (
        cabled("10.92.0.1", "10.92.0.2") as cable,
        mirrored(cable.far, 0) as port,
        tcpdump(cable.far, files[0]),
        tcpdump(port, files[1]),
    ):
        talk(cable)
        time.sleep(1.5)  # tcpdump keeps packets for a second that do not fill a block
    at_interface, at_port = (packets_in(file) for file in files)
    ways = [bytes(dpkt.ethernet.Ethernet(one).ip.src)[-1] for one in at_interface]
    assert min(ways.count(1), ways.count(2)) > 5
    assert at_port == at_interface
