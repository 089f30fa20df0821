"""A capture three times as long takes no more memory, as the system counts it, in two processes."""

import os
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from kdissect.capture.files import open_captures
from kdissect.capture.pcap import NANOSECONDS
from kdissect.checkpoint.worker_pool import WORTHWHILE_PACKETS
from kdissect.cli.environment import is_compiled
from tests.seeds import SEED

CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("*.pcapng"))
LONGEST = 12  # packets: what a connection leaves behind is most, by packets, where it is short
# Bytes of a connection in the resident set, in the compiled build: 4200 to 4400 were measured, and
# 7600 to 7900 when no states were shared.
LARGEST_CONNECTION = 5000
IPV4, TCP, FIN, SYN, ACK = b"\x08\x00", 6, 1, 2, 16

Frames = list[bytes]


def recorded_connections() -> Iterator[Frames]:
    """Frames of short connections with a start, payload, and the end of both sides."""
    for path in CAPTURES:
        flows = defaultdict(list)
        with open_captures(path) as capture:
            for packet in (one for batch in capture for one in batch):
                frame = bytes(packet.data[packet.start : packet.end])
                if len(frame) >= 54 and frame[12:14] == IPV4 and frame[23] == TCP:
                    ends = frame[26:30] + frame[34:36], frame[30:34] + frame[36:38]
                    flows[min(ends) + max(ends)].append(frame)
        for frames in flows.values():
            flags = [frame[47] for frame in frames]
            is_whole = flags[0] & (SYN | ACK) == SYN and sum(one & FIN for one in flags) == 2
            if is_whole and len(frames) <= LONGEST and max(map(len, frames)) > 80:
                yield frames


def write_copies(path: Path, talks: list[Frames], packets: int, step_us: int = 1_000) -> int:
    """Write the connections again and again, each from another client, up to so many packets.

    Returns the number of connections. The default is 100 of them in a second.
    """
    written = number = 0
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", NANOSECONDS, 2, 4, 0, 0, 1 << 18, 1))
        while written < packets:
            frames = talks[number % len(talks)]
            client = struct.pack(">I", (10 << 24) + number)
            opener = frames[0][26:30] + frames[0][34:36]
            for frame in frames:
                is_own = frame[26:30] + frame[34:36] == opener
                at = 26 if is_own else 30
                seconds, micros = divmod(written * step_us, 1_000_000)
                size = len(frame)
                file.write(struct.pack("<IIII", 1_700_000_000 + seconds, micros * 1000, size, size))
                file.write(frame[:at] + client + frame[at + 4 :])
                written += 1
            number += 1
    return number


def peak_mb(path: Path, jobs: int = 2) -> float:
    """The largest resident set of the program and its processes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kdissect", str(path), "--findings", "none", "--jobs", str(jobs)],
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


@pytest.mark.slow
def test_memory_of_two_processes_does_not_grow_with_the_capture(tmp_path: Path) -> None:
    source = Random(f"{SEED} long captures")
    talks = source.sample(list(recorded_connections()), 5)
    peaks = []
    for times in (1, 3):
        path = tmp_path / "long.pcap"
        write_copies(path, talks, times * (WORTHWHILE_PACKETS + 50_000))
        peaks.append(peak_mb(path))
    assert peaks[1] < peaks[0] + 100, peaks


@pytest.mark.slow
@pytest.mark.skipif(not is_compiled(), reason="objects of plain Python are larger")
def test_a_connection_takes_little_memory(tmp_path: Path) -> None:
    """Connections that have ended linger for ten seconds, with all their state."""
    talks = Random(f"{SEED} many connections").sample(list(recorded_connections()), 5)
    path = tmp_path / "many.pcap"
    counts, peaks = [], []
    for packets in (100_000, 700_000):
        counts.append(write_copies(path, talks, packets, step_us=10))
        peaks.append(peak_mb(path, jobs=1))
    each = (peaks[1] - peaks[0]) * (1 << 20) / (counts[1] - counts[0])
    assert each < LARGEST_CONNECTION, (counts, peaks)
