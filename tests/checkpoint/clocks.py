"""Captures whose clock was set meanwhile: the time of one packet, or of all from one packet on."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from tests.capture.writers import Captured

SECOND_NS = 1_000_000_000
HOUR_NS = 3_600 * SECOND_NS
AMOUNTS = (
    HOUR_NS, -HOUR_NS, 10 * SECOND_NS, -10 * SECOND_NS, SECOND_NS, -SECOND_NS, SECOND_NS // 20,
    -SECOND_NS // 20,
)  # fmt: skip


class Step(NamedTuple):
    """The clock is `by_ns` off for `count` packets from the one at `at` on."""

    at: int
    by_ns: int
    count: int


def drawn_step(source: random.Random, packets: int, by_ns: int, is_one: bool) -> Step:
    return Step(source.randrange(packets), by_ns, 1 if is_one else packets)


def stepped(packets: Sequence[Captured], *steps: Step) -> list[Captured]:
    made = list(packets)
    for step in steps:
        for at in range(step.at, min(len(made), step.at + step.count)):
            made[at] = made[at]._replace(time_ns=made[at].time_ns + step.by_ns)
    return made
