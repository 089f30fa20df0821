"""The capture's clock as its packets tell it, where it was set meanwhile.

Packets come in the order in which they were captured, so their times should only grow. A little
disorder is usual (several queues or interfaces). More is a clock that was set:

    goes on     the time grows, or goes back by less than STEP_NS
    ahead       it grows by JUMP_NS and more: perhaps nothing was said for so long. Only the next
                packet tells; until then the jump is `pending_ns`
    was ahead   the packet after a jump is back at the time before it: one packet had a wrong time
    went back   the time goes back by more than STEP_NS: a new epoch begins, whose times have
                nothing to do with those before
    was behind  the packet after that is at the time before it again: one packet had a wrong time,
                and the old epoch goes on

In one epoch, times can be compared. What was silent before an epoch counts as silent since it
began. A clock that was set ahead for more than one packet looks like silence.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

# Two capture queues or interfaces of a host are apart by 1 ms as a rule, see `acknowledged`. NTP
# sets a clock, instead of slowing it, where it is wrong by 128 ms and more.
STEP_NS: Final = 100_000_000
# No connection is idle that soon, and few captures have many pauses that are as long.
JUMP_NS: Final = 1_000_000_000

GOES_ON: Final = 0
WENT_BACK: Final = 1
WAS_AHEAD: Final = 2
WAS_BEHIND: Final = 3

LOOK: Final = -1  # as `mark`: the next time is to be looked at, whatever it is


@mypyc_attr(acyclic=True)
class Clock:
    """Where the clock stands, see above: `take` each packet's time.

    `first_ns` and `now_ns` are the first and the latest time, -1 before the first packet,
    `lowest_ns` is the earliest. `mark` is the epoch, or LOOK. `start_ns` is the time at which the
    epoch began, `steps` counts how often `take` gave another thing than GOES_ON, and `by_ns` is
    how large the last one was.
    """

    __slots__ = (
        "first_ns", "now_ns", "lowest_ns", "mark", "epoch", "start_ns", "pending_ns", "steps",
        "by_ns", "_epochs", "_before_ns", "_before_epoch", "_before_start_ns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.first_ns: i64 = -1
        self.now_ns: i64 = -1
        self.lowest_ns: i64 = -1
        self.mark: i64 = LOOK
        self.epoch: i64 = 0
        self.start_ns: i64 = -1
        self.pending_ns: i64 = 0
        self.steps: i64 = 0
        self.by_ns: i64 = 0
        self._epochs: i64 = 0
        # The epoch before this one, and where it stood, while this one has one packet.
        self._before_ns: i64 = -1
        self._before_epoch: i64 = 0
        self._before_start_ns: i64 = -1

    @property
    def certain_ns(self) -> i64:
        """The latest time without a jump that no other packet confirmed."""
        return self.now_ns - self.pending_ns

    def take(self, time_ns: i64) -> i64:
        """The next packet's time, not less than 0; what that says of the clock."""
        if self.first_ns < 0:
            self.first_ns = self.now_ns = self.start_ns = self.lowest_ns = time_ns
            self.mark = self.epoch
            return GOES_ON
        self.lowest_ns = min(self.lowest_ns, time_ns)
        before_ns = self._before_ns
        if before_ns >= 0 and time_ns >= before_ns - STEP_NS:
            self._undo(time_ns, before_ns)
            return WAS_BEHIND
        self._before_ns = -1
        certain_ns = self.now_ns - self.pending_ns
        ahead_ns = time_ns - self.now_ns
        if ahead_ns < -STEP_NS:
            if self.pending_ns > 0 and time_ns >= certain_ns - STEP_NS:
                self.by_ns = self.pending_ns
                self._go_to(max(certain_ns, time_ns), 0)
                self.steps += 1
                return WAS_AHEAD
            self._begin_epoch(time_ns, certain_ns)
            return WENT_BACK
        self._go_to(max(self.now_ns, time_ns), ahead_ns if ahead_ns >= JUMP_NS else 0)
        return GOES_ON

    def would_step(self, first_ns: i64, lowest_ns: i64) -> bool:
        """Whether `take` may give another thing than GOES_ON for packets behind which it would not.

        `first_ns` is the time of the first of them, `lowest_ns` their earliest.
        """
        if self.first_ns < 0:
            return False
        if self._before_ns >= 0 and first_ns >= self._before_ns - STEP_NS:
            return True
        return lowest_ns - self.now_ns < -STEP_NS

    def go_on(self, certain_ns: i64, now_ns: i64) -> None:
        """Packets of this epoch have come: the last of all, at `now_ns`, may be a jump."""
        certain_ns = max(certain_ns, self.certain_ns)
        now_ns = max(now_ns, certain_ns)
        ahead_ns = now_ns - certain_ns
        self._before_ns = -1
        self._go_to(now_ns, ahead_ns if ahead_ns >= JUMP_NS else 0)

    def _go_to(self, now_ns: i64, pending_ns: i64) -> None:
        self.now_ns = now_ns
        self.pending_ns = pending_ns
        self.mark = LOOK if pending_ns > 0 else self.epoch

    def _begin_epoch(self, time_ns: i64, certain_ns: i64) -> None:
        self.by_ns = self.now_ns - time_ns
        self.steps += 1
        self._before_ns = certain_ns
        self._before_epoch = self.epoch
        self._before_start_ns = self.start_ns
        self._epochs += 1
        self.epoch = self._epochs
        self.now_ns = self.start_ns = time_ns
        self.pending_ns = 0
        self.mark = LOOK

    def _undo(self, time_ns: i64, before_ns: i64) -> None:
        self.by_ns = before_ns - self.now_ns
        self.steps += 1
        self._before_ns = -1
        self.epoch = self._before_epoch
        self.start_ns = self._before_start_ns
        ahead_ns = time_ns - before_ns
        self._go_to(max(before_ns, time_ns), ahead_ns if ahead_ns >= JUMP_NS else 0)
