"""Periodic check, by work done, whether to continue."""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from kdissect.framing.frames import Frames

# Steps of work between two questions: a tenth of a second. In steps of `frame_search`; a byte of a
# frame is about one.
CHECK_STEPS: Final = 1 << 24
FRAME_STEPS: Final = 256
RECORD_STEPS: Final = 64


class Cancellation:
    """Calls `ask` after every CHECK_STEPS of work.

    Once it returns False `is_ended` is set: no packet is taken and no frame is searched any more;
    work already begun is finished.
    """

    def __init__(self, frames: Frames) -> None:
        self.ask: Callable[[], bool] | None = None
        self.is_ended: bool = False
        self.frames = frames
        # Steps beside those of the search for frames.
        self.worked: i64 = 0
        self._due: i64 = CHECK_STEPS

    def look(self) -> None:
        """Call `ask` if enough work was done since its last call."""
        done = self.frames.steps + self.worked
        if self.ask is not None and not self.is_ended and done >= self._due:
            self._due = done + CHECK_STEPS
            self.is_ended = not self.ask()
            if self.is_ended:
                self.frames.searches = False
