"""kdissect live for a long time at a moderate rate: how its memory goes."""

import json
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks import timing
from benchmarks.live_capturers import kdissect
from benchmarks.live_measuring import Captured, captured, sending
from benchmarks.workloads import ROOT
from tools.namespaces import cabled

SAMPLE_S = 10.0
WARM_UP_SHARE = 1 / 6  # of all that time: queues, dictionaries and buffers grow to their size
Sample = tuple[float, int]  # seconds since the first packet, bytes


def measured(
    compiled: str, capture: Path, rate: float, minutes: float, scratch: Path | None
) -> dict[str, Any]:
    """Samples, and the packets sent and captured."""
    seconds = minutes * 60
    with cabled() as cable, captured(kdissect("ring", compiled), cable.far, scratch) as one:
        before, _ = cable.far.counts()
        used = one.cpu_seconds()
        sender = subprocess.Popen(
            sending(cable.near, capture, rate, seconds), stdout=subprocess.PIPE, cwd=ROOT
        )
        try:
            samples = sampled(one, seconds)
            said, _ = sender.communicate(timeout=60)
        finally:
            sender.kill()
            sender.wait()
        one.settle()
        used = one.cpu_seconds() - used
        one.stop()
        counted = one.capturer.counted(one.said, one.scratch)
        arrived = cable.far.counts()[0] - before
    return {
        "samples": samples,
        "sent": json.loads(said),
        "arrived": arrived,
        "packets": counted.packets,
        "dropped": counted.dropped,
        "cpu_seconds": round(used, 1),
        "load": timing.circumstances()["load"],
    }


def sampled(one: Captured, seconds: float) -> list[Sample]:
    """Its memory every few seconds."""
    started = time.monotonic()
    samples: list[Sample] = []
    while (passed := time.monotonic() - started) < seconds:
        if one.process.poll() is not None:
            raise RuntimeError(f"kdissect live ended after {passed:.0f} s: {one.said[-2000:]}")
        samples.append((round(passed, 1), one.resident_bytes()))
        time.sleep(min(SAMPLE_S, max(0.0, started + seconds - time.monotonic())))
    return samples


def warm(samples: list[Sample]) -> list[Sample]:
    """Samples after the warm-up."""
    begin = samples[-1][0] * WARM_UP_SHARE
    return [one for one in samples if one[0] >= begin]


def growth(samples: list[Sample]) -> float:
    """Relative growth from the first to the last third, by medians because of rotations."""
    third = max(1, len(samples) // 3)
    first, last = (
        statistics.median(size for _, size in part) for part in (samples[:third], samples[-third:])
    )
    return last / first - 1


def slope(samples: list[Sample]) -> float:
    """Bytes an hour, the straight line through the samples."""
    times, sizes = zip(*samples, strict=True)
    if len(samples) < 2:
        return 0.0
    return statistics.linear_regression(times, sizes).slope * 3600
