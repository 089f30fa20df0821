"""How fast `kdissect live` reads full buffers: it is paused while a sender fills them, and goes on.

Neither a sender nor the kernel's receiving takes a core meanwhile, so that two workers have two
cores on a machine with no more of them. Nothing may be lost: buffers are not filled to the brim, as
a hash does not divide connections equally.
"""

from pathlib import Path
from typing import NamedTuple

from benchmarks.live_capturers import shared
from benchmarks.live_frames import Frames
from benchmarks.live_measuring import captured, send
from tools.namespaces import Cable

BUFFER_MB = 2500  # of all workers
FILLED = 0.7
SLOT_EXTRA = 96  # bytes of the ring for a packet, beside it: header, address, alignment
SAMPLE_SECONDS = 0.1  # so the time is up to this much too long
# Less than a worker that has packets; more than writing what is left, and adding up counters.
IDLE_SHARE = 0.8
LONGEST_SECONDS = 60.0
AS_FAST_AS_IT_CAN = 0.0


class Drained(NamedTuple):
    """Packets that lay in the buffers, and what it took until all were dissected and on disk."""

    packets: int
    bytes: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def drained(workers: int, path: str, cable: Cable, capture: Path, scratch: Path) -> Drained:
    """One measurement with so many workers on so many cores, from the first one on.

    Raises RuntimeError where a packet was lost, or they were too slow.
    """
    cores = f"0-{workers - 1}"
    capturer = shared(workers, path, cores, BUFFER_MB)
    fitting = packets_that_fit(capture)
    before, _ = cable.far.counts()
    with captured(capturer, cable.far, scratch) as one:
        one.settle(LONGEST_SECONDS)  # workers import after their sockets are open, and map rings
        with one.paused():
            sent = send(cable.near, capture, AS_FAST_AS_IT_CAN, 0, packets=fitting)
            used = one.cpu_seconds()
        seconds = one.settle(LONGEST_SECONDS, SAMPLE_SECONDS, IDLE_SHARE, with_waiting=True)
        used = one.cpu_seconds() - used
        peak = one.peak_bytes()
        arrived = cable.far.counts()[0] - before
        one.stop()
        said = one.said
        counted = capturer.counted(said, one.scratch)
    if seconds >= LONGEST_SECONDS or counted.dropped or counted.packets != arrived:
        raise RuntimeError(f"{counted} of {arrived} packets after {seconds:.1f} s: {said}")
    return Drained(arrived, sent.bytes, round(seconds, 2), round(used, 2), peak)


def packets_that_fit(capture: Path) -> int:
    """How many packets of a capture may be sent until so much of the buffers is filled."""
    slot = float(Frames(capture).sizes.mean()) + SLOT_EXTRA
    return int(FILLED * BUFFER_MB * 1e6 / slot)
