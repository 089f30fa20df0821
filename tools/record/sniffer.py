"""tcpdump: nothing lost, nanoseconds kept, pcapng written."""

import re
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from tools.record.networks import Tap, inside

BUFFER_KIB = 524_288
LOOPBACK = Tap()
START_TIMEOUT_SECONDS = 10
SETTLE_SECONDS = 2.0
SETTLE_LIMIT_SECONDS = 3.0
STOP_TIMEOUT_SECONDS = 30


class SnifferReport(NamedTuple):
    """Statistics that tcpdump printed at its end."""

    version: str
    captured: int
    dropped_by_kernel: int
    stopped_ms: int


class Sniffer:
    """Records every packet from or to the given TCP ports, or those of a filter."""

    def __init__(self, ports: list[int], pcap: Path, tap: Tap = LOOPBACK) -> None:
        all_ports = " or ".join(f"tcp port {port}" for port in ports)
        self._filter = tap.filter.format(port=ports[0]) or all_ports
        self.tap = tap
        self.pcap = pcap
        self._messages = pcap.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return once tcpdump listens."""
        options = [
            "-i",
            self.tap.interface,
            "-n",
            "-s",
            "0",
            "-U",
            "-B",
            str(BUFFER_KIB),
            "-Z",
            "root",
        ]
        options += [
            "--immediate-mode",
            "--time-stamp-precision=nano",
            "-w",
            str(self.pcap),
            *self.tap.options,
            self._filter,
        ]
        command = [*inside(self.tap.namespace), "tcpdump", *options]
        with self._messages.open("wb") as messages:
            self._process = subprocess.Popen(command, stderr=messages)
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while "listening on" not in self._messages.read_text():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"tcpdump did not start: {self._messages.read_text()}")
            time.sleep(0.05)

    def settle(self) -> None:
        """Wait until the file has stopped growing, or not long: servers never stop talking to
        each other.
        """
        size = -1
        deadline = time.monotonic() + SETTLE_LIMIT_SECONDS
        while size != self.pcap.stat().st_size and time.monotonic() < deadline:
            size = self.pcap.stat().st_size
            time.sleep(SETTLE_SECONDS)

    def stop(self) -> SnifferReport:
        """End tcpdump; raise when the kernel dropped packets."""
        assert self._process is not None
        stopped_ms = time.time_ns() // 1_000_000
        self._process.send_signal(signal.SIGINT)
        self._process.wait(STOP_TIMEOUT_SECONDS)
        self._process = None
        report = self._read_report(stopped_ms)
        if report.dropped_by_kernel:
            raise RuntimeError(f"the kernel dropped {report.dropped_by_kernel} packets")
        return report

    def kill(self) -> None:
        """Stop tcpdump."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _read_report(self, stopped_ms: int) -> SnifferReport:
        messages = self._messages.read_text()
        captured = re.search(r"(\d+) packets? captured", messages)
        dropped = re.search(r"(\d+) packets? dropped by kernel", messages)
        if captured is None or dropped is None:
            raise RuntimeError(f"tcpdump ended without counts: {messages}")
        version = subprocess.run(
            ["tcpdump", "--version"], capture_output=True, text=True, check=True, timeout=10
        )
        lines = (version.stdout + version.stderr).splitlines()
        return SnifferReport(lines[0], int(captured[1]), int(dropped[1]), stopped_ms)


def to_pcapng(pcap: Path, pcapng: Path) -> None:
    """Write the packets of a pcap as pcapng, nanoseconds kept."""
    subprocess.run(
        ["editcap", "-F", "pcapng", str(pcap), str(pcapng)],
        check=True,
        capture_output=True,
        timeout=300,
    )
