"""Acknowledged position of one direction, and the position acknowledged long enough ago."""

from typing import Final

from mypy_extensions import i64, mypyc_attr

# Two capture queues or interfaces usually differ by less than 1 ms; 20 ms is generous, and shorter
# than the smallest retransmission timeout (200 ms on Linux).
REORDER_NS: Final = 20_000_000


@mypyc_attr(acyclic=True)
class Acknowledged:
    """The latest acknowledged position, and one mark: the position at some time before.

    Maintained only while data is missing; delivered data counts as acknowledged anyway.
    """

    __slots__ = ("position", "_marked_position", "_marked_ns", "_settled_position")

    def __init__(self) -> None:
        self.position: i64 = 0
        self._marked_position: i64 = 0
        self._marked_ns: i64 = 0
        self._settled_position: i64 = 0

    def take(self, position: i64, next_position: i64, now: i64) -> None:
        """The peer acknowledges everything before `position`; `next_position` was delivered."""
        if self.position <= next_position < position:
            self._settled_position = next_position
            self._mark(position, now)
        self.position = position

    def settle(self, now: i64) -> i64:
        """Position that was acknowledged at least REORDER_NS before `now`.

        A later, smaller acknowledgment overrides a larger one: it was reordered or corrupt.
        """
        if now - self._marked_ns >= REORDER_NS:
            self._settled_position = self._marked_position
            self._mark(self.position, now)
        return min(self._settled_position, self.position)

    def move(self, by: i64) -> None:
        """Shift positions to an origin `by` bytes earlier."""
        self.position += by
        self._marked_position += by
        self._settled_position += by

    def forget_times(self, now: i64) -> None:
        """Restart the mark at `now` after a change of the clock."""
        self._marked_ns = now

    def _mark(self, position: i64, now: i64) -> None:
        self._marked_position = position
        self._marked_ns = now
