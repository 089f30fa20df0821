"""`InterfaceSource`: a packet source of one interface that can be asked what is there without
waiting.
"""

import select
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from kdissect.sources.interface_socket import InterfaceSocket
from kdissect.sources.packet_source import Counts, PacketSource

# A block of a ring that is not full is given after 60 ms (`RETIRE_MS`).
LAST_WAIT_S: Final = 0.1
# At 1 GB/s an eighth of the buffer is filled in a pause.
PAUSE_S_PER_BYTE: Final = 1 / 8 / 1e9
LONGEST_PAUSE_S: Final = 0.01


class InterfaceSource(PacketSource):
    """`take` gives what is there; `read` waits where nothing is, `pause_s` at least."""

    source: InterfaceSocket
    pause_s = 0.0
    _is_ending = False

    @abstractmethod
    def fileno(self) -> int:
        """Becomes readable when packets come."""

    @abstractmethod
    def take(self) -> list[Packet]:
        """The packets that are there, some MB at most."""

    def check(self) -> None:
        """Look after the interface, which may have gone or come back; raises CaptureError."""
        self.source.check()

    @property
    def is_away(self) -> bool:
        """Whether the interface is not there, so that somebody must look for it."""
        return self.source.is_away

    def read(self, wait_s: float) -> list[Packet] | None:
        packets = self.take()
        if not packets:
            wait_for([self], LAST_WAIT_S if self._is_ending else wait_s)
            packets = self.take()
        return None if self._is_ending and not packets else packets

    def end(self) -> None:
        self._is_ending = True
        self.source.end()

    def counts(self) -> Counts:
        return self.source.counts()

    def take_problems(self) -> list[Problem]:
        return self.source.take_problems()

    def reopen(self) -> None:
        self.source.reopen()


def wait_for(packet_sources: Sequence[InterfaceSource], wait_s: float) -> None:
    """Wait until one of them has packets, or something happened to its interface.

    The kernel wakes who waits for packets while it sends them: that is work of the broker's, for
    each block of a ring as much as copying it. So this sleeps first, for as long as buffers allow;
    under load packets are there then.
    """
    pause_s = min(wait_s, *(packet_source.pause_s for packet_source in packet_sources))
    time.sleep(pause_s)
    waiting = select.poll()
    by_number = {packet_source.fileno(): packet_source for packet_source in packet_sources}
    for number in by_number:
        waiting.register(number, select.POLLIN)
    for number, events in waiting.poll(round((wait_s - pause_s) * 1000)):
        if events & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            by_number[number].check()
    for packet_source in packet_sources:
        if packet_source.is_away:
            packet_source.check()


def pause_for(buffer_bytes: int) -> float:
    """How long nobody needs to look at a buffer of this size, in seconds."""
    return min(LONGEST_PAUSE_S, buffer_bytes * PAUSE_S_PER_BYTE)
