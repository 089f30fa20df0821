"""Helpers for packet sources: read until complete, and compare with tcpdump."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from kdissect.sources.opening import open_interfaces
from kdissect.sources.packet_source import PacketSource
from tests.sources.namespaces import CABLE, PORT, Host

PATIENCE = 10.0
# Consecutive reads of 50 ms without a packet: longer than the ring holds back a block. They are
# counted, because on a busy machine time passes without a read.
QUIET_READS = 5
TOLERANCE_NS = 200_000_000


class Seen(NamedTuple):
    """A packet as a value."""

    time_ns: int
    data: bytes
    original_length: int


def open_at(host: Host, *names: str, **asked: Any) -> PacketSource:
    """The host's interfaces, the cable by default, with port 9092 by default."""
    with host.inside():
        return open_interfaces(names or [CABLE], **{"ports": [PORT], **asked})


def seen(packets: list[Packet]) -> list[Seen]:
    return [Seen(one.time_ns, bytes_of(one), one.original_length) for one in packets]


def bytes_of(packet: Packet) -> bytes:
    return packet.data[packet.start : packet.end]


def assert_same(ours: list[Seen], theirs: list[Seen]) -> None:
    """The same packets, at nearly the same times, from two programs.

    A segment from this kernel's own TCP has its scheduled send time where others have their arrival
    time, so each program takes its own time; and outgoing and incoming packets may change places
    between two processors.
    """
    pairs = list(zip(sorted(ours, key=_content), sorted(theirs, key=_content), strict=True))
    assert [_content(one) for one, _ in pairs] == [_content(other) for _, other in pairs]
    assert max(abs(one.time_ns - other.time_ns) for one, other in pairs) < TOLERANCE_NS


def _content(one: Seen) -> tuple[bytes, int]:
    return one.data, one.original_length


def read_all(packet_source: PacketSource) -> list[Packet]:
    """Packets until the source is silent."""
    packets: list[Packet] = []
    until = time.monotonic() + PATIENCE
    empty = 0
    while empty < QUIET_READS:
        assert time.monotonic() < until
        more = packet_source.read(0.05)
        packets += more or []
        empty = 0 if more else empty + 1
    return packets


def read_packets(packet_source: PacketSource, count: int) -> list[Packet]:
    """The next packets, read until there are `count`."""
    packets: list[Packet] = []
    until = time.monotonic() + PATIENCE
    while len(packets) < count:
        assert time.monotonic() < until
        packets += packet_source.read(0.05) or []
    return packets


def problems_of(packet_source: PacketSource, count: int) -> list[Problem]:
    """The next problems, read until there are `count`."""
    found: list[Problem] = []
    until = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < until
        packet_source.read(0.05)
        found += packet_source.take_problems()
    return found


@contextmanager
def tcpdump(host: Host, name: str, path: Path, *words: str) -> Iterator[None]:
    """tcpdump writes `path` in the meantime, each packet at once."""
    command = ["ip", "netns", "exec", host.namespace, "tcpdump", "-i", name, "-U"]
    # In this mode it has room for as many packets of the largest size as fit into its buffer (KiB).
    command += ["--immediate-mode", "-s", "66000", "-B", "65536"]
    command += ["--time-stamp-precision=nano", "-w", str(path), *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as writing:
        try:
            assert writing.stderr is not None
            while "listening on" not in (line := writing.stderr.readline()):
                assert line, "tcpdump ended"
            yield
        finally:
            writing.send_signal(signal.SIGINT)
            writing.communicate(timeout=PATIENCE)


def written(path: Path, count: int) -> list[Seen]:
    """The packets of the file that tcpdump writes, as soon as there are `count`."""
    until = time.monotonic() + PATIENCE
    while True:
        # Bytes not yet written are cut off, and no problem.
        with open_captures(str(path)) as capture:
            packets = [packet for some in capture for packet in some]
        if len(packets) >= count:
            return seen(packets)
        assert time.monotonic() < until, f"{len(packets)} packets of {count}"
        time.sleep(0.02)
