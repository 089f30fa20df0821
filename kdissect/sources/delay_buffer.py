"""`DelayBuffer`: delays packets until related data, such as TLS keys, is available."""

import time
from collections import deque
from collections.abc import Callable

from kdissect.capture.blocks import Secrets
from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from kdissect.sources.packet_source import Behind, Counts, PacketSource


class DelayBuffer(PacketSource):
    """Packets of `packet_source`, each delayed by `delay_s` after it was read.

    A client writes the secrets of a TLS session to its key log some milliseconds after the first
    packets that need them. `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        packet_source: PacketSource,
        delay_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.packet_source = packet_source
        self.names = packet_source.names
        self.delay_s = delay_s
        self._clock = clock
        self._held: deque[tuple[float, list[Packet]]] = deque()
        self._is_over = False

    def read(self, wait_s: float) -> list[Packet] | None:
        if not self._is_over:
            packets = self.packet_source.read(self._wait_s(wait_s))
            self._is_over = packets is None
            if packets:
                self._held.append((self._clock() + self.delay_s, packets))
        if not self._held:
            return None if self._is_over else []
        # At the end there is no reason to wait.
        if self._is_over or self._held[0][0] <= self._clock():
            return self._held.popleft()[1]
        return []

    def end(self) -> None:
        self.packet_source.end()

    def close(self) -> None:
        self.packet_source.close()

    def counts(self) -> Counts:
        return self.packet_source.counts()

    def backlog(self) -> float:
        return self.packet_source.backlog()

    def behind(self) -> Behind:
        return self.packet_source.behind()

    def take_problems(self) -> list[Problem]:
        return self.packet_source.take_problems()

    def take_secrets(self) -> list[Secrets]:
        return self.packet_source.take_secrets()

    def find_secrets(self) -> list[Secrets]:
        return self.packet_source.find_secrets()

    def reopen(self) -> None:
        self.packet_source.reopen()

    def _wait_s(self, wait_s: float) -> float:
        """Wait no longer than until the next packets are due."""
        if not self._held:
            return wait_s
        return max(0.0, min(wait_s, self._held[0][0] - self._clock()))
