"""The capture's clock as shown by its packets, which may be set meanwhile.

Packets come in the order in which they were captured, so their times should only grow. A little
disorder is usual (several queues or interfaces). A time that is earlier by more than STEP_NS, or
later by more than JUMP_NS, is odd, and only the next packet shows its meaning:

    odd time      next packet                   then
    later         not earlier than it           silence for that long
    later         earlier than it               that packet's time was wrong
    earlier       as before the odd time        that packet's time was wrong
    earlier       as the odd time, or earlier   the clock was set back: a new epoch begins

Times of one epoch can be compared. Those of different epochs cannot: a connection silent when an
epoch began counts as silent since then. A clock that was set ahead looks like silence.

Example, in seconds: 10, 11, 3611, 12, 13: the third packet's time was wrong. 10, 11, 5, 6: an epoch
ends at 11 and another begins at 5.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

# Two capture queues or interfaces of a host usually differ by 1 ms, see `acknowledged`. NTP sets a
# clock, instead of slewing it, if it is off by 128 ms or more.
STEP_NS: Final = 100_000_000
# Few captures have many pauses that are as long, and no connection becomes idle that soon.
JUMP_NS: Final = 1_000_000_000

# Verdicts on an odd time by the packet after it.
SILENCE: Final = 1
SET_BACK: Final = 2
WRONG: Final = 3

LOOK: Final = -1  # as `mark`: examine the next time unconditionally


@mypyc_attr(acyclic=True)
class Clock:
    """State of the clock: call `is_odd` for each packet's time, and `judge` after an odd one.

    `first_ns` and `now_ns` are the first and the latest time, -1 before the first packet,
    `lowest_ns` is the earliest that was not odd. `mark` is the epoch, or LOOK while an odd time
    `odd_ns` is pending, -1 if there is none. `start_ns` is the time at which the epoch began.
    `steps` counts how often a time was wrong or the clock was set back, `back_count` how often a
    time was odd for being earlier.
    """

    __slots__ = (
        "first_ns", "now_ns", "lowest_ns", "mark", "epoch", "start_ns", "odd_ns", "steps",
        "back_count",
    )  # fmt: skip

    def __init__(self) -> None:
        self.first_ns: i64 = -1
        self.now_ns: i64 = -1
        self.lowest_ns: i64 = -1
        self.mark: i64 = LOOK
        self.epoch: i64 = 0
        self.start_ns: i64 = -1
        self.odd_ns: i64 = -1
        self.steps: i64 = 0
        self.back_count: i64 = 0

    def is_odd(self, time_ns: i64) -> bool:
        """Take a time, not less than 0, when no odd one is pending; return whether it is odd."""
        if self.first_ns < 0:
            self.first_ns = self.now_ns = self.start_ns = self.lowest_ns = time_ns
            self.mark = self.epoch
            return False
        passed = time_ns - self.now_ns
        if passed < -STEP_NS or passed > JUMP_NS:
            self.odd_ns = time_ns
            self.mark = LOOK
            if passed < 0:
                self.back_count += 1
            return True
        self.go_to(time_ns)
        return False

    def judge(self, time_ns: i64) -> i64:
        """Verdict of the next packet's time on the odd one: SILENCE, SET_BACK or WRONG."""
        if self.odd_ns >= self.now_ns:
            return WRONG if time_ns < self.odd_ns - STEP_NS else SILENCE
        return WRONG if time_ns >= self.now_ns - STEP_NS else SET_BACK

    def settle(self, says: i64) -> None:
        """Apply the verdict of `judge` to the odd time."""
        odd_ns = self.odd_ns
        self.odd_ns = -1
        if says == SILENCE:
            self.now_ns = odd_ns
        else:
            self.steps += 1
        if says == SET_BACK:
            self.epoch += 1
            self.now_ns = self.start_ns = odd_ns
        self.mark = self.epoch

    def go_to(self, time_ns: i64) -> None:
        """Advance to a time that is not odd."""
        if time_ns > self.now_ns:
            self.now_ns = time_ns
        elif time_ns < self.lowest_ns:
            self.lowest_ns = time_ns

    def goes_on(self, first_ns: i64, lowest_ns: i64) -> bool:
        """Return whether packets, none of them odd by itself, have no earlier time than the clock.

        `first_ns` is the time of the first of them, `lowest_ns` their earliest.
        """
        if self.first_ns < 0:
            return True
        now_ns = self.now_ns
        if self.odd_ns >= 0:
            if self.odd_ns < now_ns or first_ns < self.odd_ns - STEP_NS:
                return False
            now_ns = self.odd_ns
        return lowest_ns >= now_ns - STEP_NS
