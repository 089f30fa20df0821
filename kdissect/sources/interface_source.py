"""`InterfaceSource`: a packet source of one interface that can be polled without waiting."""

import select
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from kdissect.sources.interface_socket import InterfaceSocket
from kdissect.sources.packet_source import Counts, PacketSource

# A ring block that is not full is released after 60 ms (`RETIRE_MS`).
LAST_WAIT_S: Final = 0.1
# At 1 GB/s an eighth of the buffer is filled during a pause.
PAUSE_S_PER_BYTE: Final = 1 / 8 / 1e9
LONGEST_PAUSE_S: Final = 0.01


class InterfaceSource(PacketSource):
    """`take` returns available packets; `read` waits if there are none, at least `pause_s`."""

    source: InterfaceSocket
    pause_s = 0.0
    _is_ending = False

    @abstractmethod
    def fileno(self) -> int:
        """File descriptor that becomes readable when packets arrive."""

    @abstractmethod
    def take(self) -> list[Packet]:
        """Available packets, some MB at most."""

    def check(self) -> None:
        """Check whether the interface has gone or come back; raises CaptureError."""
        self.source.check()

    @property
    def needs_polling(self) -> bool:
        """Return whether `check` has to be called again and again."""
        return self.source.needs_polling

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
    """Wait until one of them has packets, or the state of its interface changes.

    The kernel wakes waiting processes in the context of the sender, here the broker, and each
    wakeup for a ring block costs as much as copying it. So this sleeps first, as long as buffers
    allow; under load packets are then available.
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
        if packet_source.needs_polling:
            packet_source.check()


def pause_for(buffer_bytes: int) -> float:
    """Seconds for which a buffer of this size needs no reading."""
    return min(LONGEST_PAUSE_S, buffer_bytes * PAUSE_S_PER_BYTE)
