"""What several workers would take, computed of measured CPU time: no measured rate.

    rate = cores x packets for a second of CPU of one process / overhead x balance

The overhead is the CPU time of two workers and the first process for a packet, beside that of one
process, at the same rate on one core (the section "overhead"). The balance is that of a hash: the
mean load of the workers beside the highest one, for equal connections, as the mean of drawn cases.
"""

import random
import statistics
from collections import Counter
from typing import Any, Final

from benchmarks import page

CORES: Final = (1, 2, 4, 8, 16)
CONNECTIONS: Final = (50, 200, 1000)
DRAWS: Final = 300
SEED: Final = 25
Kept = dict[str, Any]


def balance(connections: int, workers: int) -> float:
    """Mean load of the workers beside the highest one.

    >>> balance(100, 1)
    1.0
    """
    draw = random.Random(SEED)  # a simulation
    highest = 0
    for _ in range(DRAWS):
        loads = Counter(draw.randrange(workers) for _ in range(connections))
        highest += max(loads.values())
    return connections / workers / (highest / DRAWS)


def lines(kept: Kept) -> list[str]:
    """A row for each number of cores, for both kinds of traffic."""
    every = kept.get("rates", {}).get("found", {})
    found = {name: one["ring"]["held"] for name, one in every.items() if held_in(one)}
    over = overhead(kept)
    if not found or over is None:
        return ["Not measured yet."]
    titles = [f"{workload}, {many} connections" for workload in found for many in CONNECTIONS]
    rows = [f"| cores | {' | '.join(titles)} |", f"|---{'|---' * len(titles)}|"]
    for cores in CORES:
        cells = []
        for workload, held in found.items():
            for many in CONNECTIONS:
                share = cores * balance(many, cores) / (over if cores > 1 else 1)
                cells.append(cell(workload, held, share))
        rows.append(f"| {cores} | {' | '.join(cells)} |")
    return [*rows, "", f"Overhead of several workers: {over:.2f} times the CPU time for a packet."]


def held_in(found: Kept) -> bool:
    """Return whether one process sustained a rate."""
    return found.get("ring", {}).get("held") is not None


def overhead(kept: Kept) -> float | None:
    """CPU time for a packet of two workers, beside that of one process; None if not measured."""
    one, two = (median(kept, count) for count in ("1", "2"))
    return None if one is None or two is None else max(1.0, two / one)


def median(kept: Kept, count: str) -> float | None:
    """Seconds of CPU for a million packets of so many workers; None if not measured."""
    each = kept.get("overhead", {}).get("found", {}).get("seconds", {}).get(count)
    return statistics.median(each) if each else None


def cell(workload: str, held: Kept, seconds: float) -> str:
    """What so many seconds of CPU of one process take."""
    sent = held["sent"]
    times = seconds / held["cpu_seconds"]
    if workload == "bulk":
        return f"{sent['bytes'] * times * 8 / 1e9:.0f} Gbit/s"
    return f"{page.thousands(round(sent['packets'] * times, -3))}/s"
