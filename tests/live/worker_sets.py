"""Captures of ``kdissect live`` at the end of a cable, and comparison of their rows."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import kdissect
from kdissect.capture.files import open_captures
from kdissect.tables.rotations import runs_in
from kdissect.tables.schemas import DEFAULT_TABLES
from tests.live.replays import read_run
from tests.sources.namespaces import CABLE, Host

INSTALLED = str(Path(kdissect.__file__).parents[1])
PATIENCE_S = 60
LARGEST = "65535"  # MTU of the loopback
AT_ONCE = 64
PAUSE_S = 0.002
Row = dict[str, Any]
# Columns that number what one process has seen.
OF_A_PROCESS = {
    "capture", "connection_id", "exchange_id", "first_packet", "request_packet", "response_packet",
    "packet_number",
}  # fmt: skip


class Live:
    """A capture that runs, and its service manager."""

    def __init__(self, process: "subprocess.Popen[str]", manager: socket.socket) -> None:
        self.process = process
        self.manager = manager
        self.output = ""

    def hear(self, word: str) -> None:
        """Wait for a message of the service."""
        while word not in self.manager.recv(4096).decode().split("\n"):
            assert self.process.poll() is None, self.process.communicate()

    def skip(self) -> None:
        """Forget the messages that came so far."""
        while select.select([self.manager], [], [], 0)[0]:
            self.manager.recv(4096)

    @property
    def workers(self) -> list[int]:
        """Processes of its workers, in their order."""
        tasks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return sorted(map(int, tasks.read_text().split()))

    def end(self, number: int = signal.SIGTERM, code: int = 0) -> str:
        """Stop it; returns its stderr."""
        self.process.send_signal(number)
        return self.ended(code)

    def ended(self, code: int) -> str:
        """Wait for its end; returns its stderr."""
        self.output, error = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == code, error
        return error


@contextmanager
def live(host: Host, directory: Path, *words: str, interface: str = CABLE) -> Iterator[Live]:
    """Capture on the host's end of the cable; it has begun."""
    directory.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(directory / "notify"))
        manager.settimeout(PATIENCE_S)
        process = subprocess.Popen(
            ["ip", "netns", "exec", host.namespace, sys.executable, "-m", "kdissect", "live",
             "-i", interface, *words],
            env={**os.environ, "NOTIFY_SOCKET": manager.getsockname(), "PYTHONPATH": INSTALLED},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        running = Live(process, manager)
        try:
            running.hear("READY=1")
            yield running
        finally:
            process.kill()
            process.communicate(timeout=PATIENCE_S)


def frames_of(capture: Path) -> list[bytes]:
    """The frames of a capture."""
    with open_captures(str(capture)) as packets:
        return [one.data[one.start : one.end] for batch in packets for one in batch]


def send(client: Host, packets: Sequence[Sequence[bytes]]) -> None:
    """Put the frames of packets on the cable, a few at a time; fragments follow each other."""
    for at in range(0, len(packets), AT_ONCE):
        client.send_frames([frame for parts in packets[at : at + AT_ONCE] for frame in parts])
        time.sleep(PAUSE_S)


def quiet_cable(hosts: Sequence[Host]) -> None:
    """Let the cable carry frames of any size, and nothing that the hosts send by themselves."""
    for host in hosts:
        host.ip("address", "flush", "dev", CABLE)
        host.ip("link", "set", CABLE, "mtu", LARGEST, "arp", "off")


def rows_in(
    directory: Path, table: str, is_wanted: Callable[[tuple[Any, ...]], bool] = lambda _: True
) -> Counter[str]:
    """Rows of all runs, with names instead of numbers of a process, in any order.

    Of connections that are wanted, by `flow_of`.
    """
    found: Counter[str] = Counter()
    for run in runs_in(directory):
        connections = {one["connection_id"]: flow_of(one) for one in rows(run, "connections")}
        exchanges = {
            one["exchange_id"]: (one["request_start"], one["response_start"], one["correlation_id"])
            for one in rows(run, "exchanges")
        }
        for row in rows(run, table):
            shown = {name: value for name, value in row.items() if name not in OF_A_PROCESS}
            shown["connection"] = connections.get(row.get("connection_id"))
            shown["exchange"] = exchanges.get(row.get("exchange_id"))
            if shown["connection"] is None or is_wanted(shown["connection"]):
                found[repr(shown)] += 1
    return found


def flow_of(connection: Row) -> tuple[Any, ...]:
    names = ("client_ip", "client_port", "broker_ip", "broker_port", "first_time")
    return tuple(connection.get(name) for name in names)


def rows(run: Path, table: str) -> list[Row]:
    """Rows of a table of a run, times in ns."""
    whole: pa.Table = read_run(run, table)
    for at, field in enumerate(whole.schema):
        if pa.types.is_timestamp(field.type):
            whole = whole.set_column(at, field.name, whole.column(at).cast(pa.int64()))
    found: list[Row] = whole.to_pylist()
    return found


def differences(one: Path, other: Path) -> dict[str, tuple[list[str], list[str]]]:
    """By table, rows that only one of two directories has."""
    found = {}
    for table in DEFAULT_TABLES:
        ours, theirs = rows_in(one, table), rows_in(other, table)
        only = sorted((ours - theirs).elements()), sorted((theirs - ours).elements())
        if any(only):
            found[table] = only
    return found
