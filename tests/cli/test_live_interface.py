"""The whole command on an interface, in a network namespace, as a service starts it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

import kdissect

INSTALLED = str(Path(kdissect.__file__).parents[1])
NAMESPACE = f"kdissect-live-{os.getpid()}"
# A client and librdkafka's own broker in one process; it prints how many records were accepted.
TALK = """
from confluent_kafka import Producer
producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "linger.ms": 0})
accepted = []
for number in range(20):
    producer.produce("orders", b"%d" % number, on_delivery=lambda error, _: accepted.append(error))
    producer.flush(30)
print(accepted.count(None))
"""
ASK = """
from urllib.request import urlopen
print(urlopen("http://127.0.0.1:19123/metrics", timeout=30).read().decode())
"""


@pytest.fixture
def inside() -> Iterator[list[str]]:
    """Command prefix to start a program inside."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and iproute2 to make a network namespace")
    pytest.importorskip("confluent_kafka")
    made = subprocess.run(["ip", "netns", "add", NAMESPACE], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"cannot make a network namespace: {made.stderr.decode()}")
    try:
        enter = ["ip", "netns", "exec", NAMESPACE]
        entered = subprocess.run([*enter, "true"], capture_output=True, text=True, check=False)
        if "--make-rslave" in entered.stderr:  # in a chroot whose root is no mount point
            pytest.skip(f"ip netns exec cannot remount /sys here: {entered.stderr}")
        subprocess.run([*enter, "ip", "link", "set", "lo", "up"], check=True)
        yield enter
    finally:
        subprocess.run(["ip", "netns", "delete", NAMESPACE], check=True)


def heard(manager: socket.socket, word: str) -> None:
    """Wait until the service prints it."""
    while word not in manager.recv(4096).decode().split("\n"):
        pass


@pytest.mark.parametrize("way", ["absolute", "relative, below what only root can enter"])
def test_live_files_of_another_user_contain_the_traffic(
    inside: list[str], shared_path: Path, way: str
) -> None:
    shared_path.chmod(0o755 if way == "absolute" else 0o700)
    place = shared_path / "place"
    place.mkdir()
    output = place / "tables"
    named = str(output) if way == "absolute" else output.name
    words = ["live", "-i", "lo", "--all-ports", "-o", named, "--user", "nobody"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(shared_path / "notify"))
        manager.settimeout(60)
        process = subprocess.Popen(
            [*inside, sys.executable, "-m", "kdissect", *words],
            env={**os.environ, "NOTIFY_SOCKET": manager.getsockname(), "PYTHONPATH": INSTALLED},
            cwd=place,
            stderr=subprocess.PIPE,
        )
        try:
            heard(manager, "READY=1")
            talk = [*inside, sys.executable, "-c", TALK]
            talked = subprocess.run(talk, capture_output=True, timeout=60, check=True)
            heard(manager, "WATCHDOG=1")
            heard(manager, "WATCHDOG=1")
            process.send_signal(signal.SIGTERM)
            _, error = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait(60)
        heard(manager, "STOPPING=1")
    assert process.returncode == 0, error
    files = sorted(map(str, output.glob("*/*/partitions.parquet")))
    rows = ds.dataset(files).to_table().to_pylist()
    produced = [row for row in rows if row["topic"] == "orders" and row["base_offset"] is not None]
    accepted = sum(row["record_count"] for row in produced if row["fetch_offset"] is None)
    assert accepted == int(talked.stdout) == 20
    assert 0 not in {path.stat().st_uid for path in [output, *output.rglob("*")]}


def test_metrics_are_answered_on_loopback_alone(inside: list[str], tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        words = ["live", "-i", "lo", "--metrics", ":19123", "--user", "nobody"]
        process = subprocess.Popen(
            [*inside, sys.executable, "-m", "kdissect", *words],
            env={**os.environ, "NOTIFY_SOCKET": manager.getsockname()},
            stdout=subprocess.DEVNULL,
        )
        try:
            heard(manager, "WATCHDOG=1")
            listening = subprocess.run(
                [*inside, "ss", "-Hltn"], capture_output=True, text=True, timeout=60, check=True
            ).stdout
            told = subprocess.run(
                [*inside, sys.executable, "-c", ASK], capture_output=True, timeout=60, check=True
            ).stdout
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    assert [line.split()[3] for line in listening.splitlines()] == ["127.0.0.1:19123"]
    assert b"kdissect_packets" in told
