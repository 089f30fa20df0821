"""What tests do with wires: read until all is there, and compare with tcpdump."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kdissect.capture.files import open_captures
from kdissect.capture.packet import Packet
from kdissect.wire.wire import Wire
from tests.wire.namespaces import Host

PATIENCE = 10.0
# Longer than a block of the ring waits to be given.
QUIET = 0.2
TOLERANCE_NS = 200_000_000


class Seen(NamedTuple):
    """A packet as a value."""

    time_ns: int
    data: bytes
    original_length: int


def seen(packets: list[Packet]) -> list[Seen]:
    return [Seen(one.time_ns, bytes_of(one), one.original_length) for one in packets]


def bytes_of(packet: Packet) -> bytes:
    return packet.data[packet.start : packet.end]


def assert_same(ours: list[Seen], theirs: list[Seen]) -> None:
    """The same packets, at nearly the same times, from two programs.

    A segment that comes from this kernel's own TCP has a time for when to send it where others have
    that of their arrival, so each program takes its own time; and what goes and what comes may
    change places between two processors.
    """
    pairs = list(zip(sorted(ours, key=_content), sorted(theirs, key=_content), strict=True))
    assert [_content(one) for one, _ in pairs] == [_content(other) for _, other in pairs]
    assert max(abs(one.time_ns - other.time_ns) for one, other in pairs) < TOLERANCE_NS


def _content(one: Seen) -> tuple[bytes, int]:
    return one.data, one.original_length


def read_all(wire: Wire) -> list[Packet]:
    """What comes until nothing comes any more."""
    packets: list[Packet] = []
    until = time.monotonic() + PATIENCE
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < QUIET:
        assert time.monotonic() < until
        if more := wire.read(0.05):
            packets += more
            quiet_since = time.monotonic()
    return packets


def problems_of(wire: Wire, count: int) -> list[str]:
    """Kinds of the next problems, read until there are `count`."""
    found: list[str] = []
    until = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < until
        wire.read(0.05)
        found += [problem.kind for problem in wire.take_problems()]
    return found


@contextmanager
def tcpdump(host: Host, name: str, path: Path, *words: str) -> Iterator[None]:
    """tcpdump writes `path` meanwhile, packets of all that came before its end."""
    command = ["ip", "netns", "exec", host.namespace, "tcpdump", "-i", name, "-U", "--immediate-mode"]
    command += ["--time-stamp-precision=nano", "-w", str(path), *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as writing:
        try:
            assert writing.stderr is not None
            while "listening on" not in (line := writing.stderr.readline()):
                assert line, "tcpdump ended"
            yield
            time.sleep(QUIET)
        finally:
            writing.send_signal(signal.SIGINT)
            writing.communicate(timeout=PATIENCE)


def written(path: Path) -> list[Seen]:
    """The packets of a file."""
    with open_captures(str(path)) as capture:
        return seen([packet for packets in capture for packet in packets])
