"""How many workers a capture needs, said when one process is not enough."""

import math
from collections.abc import Callable
from typing import Final

from kdissect.capture.packet import SECOND_NS
from kdissect.cli.live.lines import tell
from kdissect.live.listener import Listener, Status
from kdissect.system.cores import usable_cores
from kdissect.text.human import count

# Long enough that a start, a rotation or a burst is not the reason.
SPAN_NS: Final = 10 * SECOND_NS
BUSY: Final = 0.85  # of a core
# Workers are not loaded evenly: connections are shared by a hash.
ROOM: Final = 1.25


class WorkersAdvice(Listener):
    """Says once that packets are dropped because one core is busy, and how many would not be."""

    def __init__(self, say: Callable[[str], None] = tell, cores: int | None = None) -> None:
        self._say = say
        self._cores = usable_cores() if cores is None else cores
        self._last: Status | None = None
        self._is_said = False

    def tick(self, status: Status) -> None:
        last = self._last
        if last is None or status.now_ns < last.now_ns:
            self._last = status
        elif not self._is_said and status.now_ns - last.now_ns >= SPAN_NS:
            self._last = status
            self._judge(last, status)

    def _judge(self, last: Status, status: Status) -> None:
        seconds = (status.now_ns - last.now_ns) / SECOND_NS
        received, dropped = (
            now - before
            for now, before in zip(status.packet_source, last.packet_source, strict=True)
        )
        is_busy = status.cpu_seconds - last.cpu_seconds >= BUSY * seconds
        if dropped <= 0 or not is_busy:
            return
        self._is_said = True
        text = f"{count(dropped)} packets were dropped in {seconds:.0f} s, and one core is busy: "
        if self._cores < 2:
            self._say(f"{text}there is no other one here; --sample connections=1/8 captures a part")
            return
        needed = math.ceil(ROOM * (received + dropped) / max(received, 1))
        workers = max(2, min(needed, self._cores))
        more = "" if needed <= self._cores else f", of {needed} that it would need"
        self._say(f"{text}with --workers {workers}{more}, processes share the connections")
