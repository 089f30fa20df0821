"""What the exchanges stage holds of all connections together, and the bounds on it.

Frames wait as early responses, whose request is behind a hole, or undecided, until it is known what
the connection speaks. One that cannot be held costs its exchange, and nothing else.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.frames import Frame
from kdissect.limits import Limits

FRAME_COST: Final = 256  # bytes a frame takes beside its body, so tiny ones count too
# Undecided bodies of one connection: a stranger does not take all that there is for all.
UNDECIDED_BYTES: Final = 1 << 20


class Holding:
    """Counts frames that wait; bounds as in `Limits`. `frame_bytes` are those of all of them."""

    __slots__ = ("early_responses", "undecided_frames", "max_frame_bytes", "frame_bytes")

    def __init__(self, limits: Limits | None = None) -> None:
        if limits is None:
            limits = Limits()
        self.early_responses: i64 = limits.early_responses
        self.undecided_frames: i64 = limits.undecided_frames
        self.max_frame_bytes: i64 = limits.waiting_bytes_in_all
        self.frame_bytes: i64 = 0

    def add(self, frame: Frame) -> None:
        """One more frame waits."""
        self.frame_bytes += FRAME_COST + len(frame.data)

    def remove(self, frame: Frame) -> None:
        """A frame waits no longer."""
        self.frame_bytes -= FRAME_COST + len(frame.data)

    def has_too_many(self, early_count: i64) -> bool:
        """Whether a connection with so many early responses must let one go."""
        return early_count > self.early_responses or self.frame_bytes > self.max_frame_bytes

    def has_room(self, held: list[Frame], frame: Frame) -> bool:
        """Whether a connection may hold a frame beside those that it holds undecided."""
        if len(held) >= self.undecided_frames:
            return False
        own: i64 = len(frame.data)
        if self.frame_bytes + FRAME_COST + own > self.max_frame_bytes:
            return False
        for other in held:
            own += len(other.data)
        return own <= UNDECIDED_BYTES
