"""Connections of an earlier capture: time that was not captured does not count as idle."""

import time
from collections.abc import Callable
from typing import Final

from kdissect.capture.packet import SECOND_NS
from kdissect.live.listener import Listener, LiveCapture, Status

NEVER_NS: Final = 1 << 62


class OpenBefore(Listener):
    """Lets no connection end by silence, until it was captured for as long as that takes.

    The packets' clock jumps from the earlier capture to the live one, so that time is by `clock`,
    monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock

    def begin(self, watcher: LiveCapture) -> None:
        self._streams = watcher.dissector.streams
        self._idle_ns = int(self._streams.idle_ns)
        self._end_s = self._clock() + self._idle_ns / SECOND_NS
        self._streams.idle_ns = NEVER_NS

    def tick(self, status: Status) -> None:
        if self._clock() >= self._end_s:
            self._streams.idle_ns = self._idle_ns
