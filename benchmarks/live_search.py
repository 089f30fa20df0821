"""The highest rate without losses: doubled until there are some, then bisected."""

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.live_measuring import Step

Attempt = Callable[[float, float], Step]  # packets a second, seconds
SHORT = 1 / 3  # of a step's time, while the rate is doubled
BISECTIONS = 3  # to within a twelfth of the rate
STEP_DOWN = 1.25
LEAST_RATE = 500


class Held(NamedTuple):
    """The step with the highest rate that was sustained for the whole time; None without one.

    `is_senders_limit`: nothing faster could be sent.
    """

    best: Step | None
    is_senders_limit: bool
    steps: list[Step]


def search(attempt: Attempt, first: float, seconds: float) -> Held:
    """All steps it takes; the best is one of full length."""
    steps: list[Step] = []

    def tried(rate: float, share: float = 1.0) -> Step:
        steps.append(attempt(rate, seconds * share))
        return steps[-1]

    low, high, is_limit = climbed(tried, first)
    best = None
    if is_limit:
        step = tried(high)
        best = step if step.is_held else None
        # If it was sustained for a short time only, lower rates are searched below.
        is_limit = best is not None
    for _ in range(0 if is_limit else BISECTIONS):
        middle = (low * high) ** 0.5
        step = tried(middle)
        if step.is_held:
            best, low = step, middle
        else:
            high = middle
    while best is None and low >= LEAST_RATE:
        step = tried(low)
        best = step if step.is_held else None
        low /= STEP_DOWN
    return Held(best, is_limit, steps)


def climbed(tried: Callable[[float, float], Step], first: float) -> tuple[float, float, bool]:
    """A rate that is sustained, one that is not, and whether the sender alone limits it."""
    rate = first
    step = tried(rate, SHORT)
    if not step.is_held:
        while not step.is_held and rate > LEAST_RATE:
            rate /= 2
            step = tried(rate, SHORT)
        return rate, rate * 2, False
    while step.is_held and not step.is_senders_limit:
        rate *= 2
        step = tried(rate, SHORT)
    reached = step.sent.packets / step.sent.seconds
    return rate / 2, min(rate, reached), step.is_held
