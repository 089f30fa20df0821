"""`Multiplexer`: several interfaces as one packet source, their packets in order of time."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from kdissect.capture.merge import number_packets
from kdissect.capture.packet import Packet
from kdissect.errors import Problem
from kdissect.sources.interface_source import LAST_WAIT_S, InterfaceSource, wait_for
from kdissect.sources.packet_source import Counts, PacketSource

# Twice the maximum delay of a ring block behind its packets (`RETIRE_MS`). Packets of other
# interfaces wait for that.
HOLD_NS: Final = 120_000_000


class Multiplexer(PacketSource):
    """Packets are held back for `hold_ns`, until earlier ones of other interfaces have arrived.

    Their numbers are those of their interface, their ordinals count all of them.
    """

    def __init__(
        self,
        packet_sources: Sequence[InterfaceSource],
        hold_ns: int = HOLD_NS,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.packet_sources = list(packet_sources)
        self.names = [name for packet_source in packet_sources for name in packet_source.names]
        self.hold_ns = hold_ns
        self.clock = clock
        self._held: list[Packet] = []
        # When packets were read, and the latest of their times.
        self._taken: deque[tuple[int, int]] = deque()
        self._ordinal = 1
        self._is_ending = False

    def read(self, wait_s: float) -> list[Packet] | None:
        if self._take():
            # Where one has packets all the time, nothing waits.
            for packet_source in self.packet_sources:
                packet_source.check()
        else:
            wait_for(self.packet_sources, LAST_WAIT_S if self._is_ending else wait_s)
            if not self._take() and self._is_ending:
                self.hold_ns = 0
                return self._let_go() or None
        return self._let_go()

    def end(self) -> None:
        self._is_ending = True
        for packet_source in self.packet_sources:
            packet_source.end()

    def close(self) -> None:
        for packet_source in self.packet_sources:
            packet_source.close()

    def counts(self) -> Counts:
        counts = [packet_source.counts() for packet_source in self.packet_sources]
        return Counts(sum(one.received for one in counts), sum(one.dropped for one in counts))

    def backlog(self) -> float:
        return max(packet_source.backlog() for packet_source in self.packet_sources)

    def take_problems(self) -> list[Problem]:
        return [
            problem
            for packet_source in self.packet_sources
            for problem in packet_source.take_problems()
        ]

    def reopen(self) -> None:
        for packet_source in self.packet_sources:
            packet_source.reopen()

    def _take(self) -> bool:
        taken = [packet for packet_source in self.packet_sources for packet in packet_source.take()]
        if taken:
            self._held += taken
            self._taken.append((self.clock(), max(packet.time_ns for packet in taken)))
        return bool(taken)

    def _let_go(self) -> list[Packet]:
        """Packets that no earlier one can follow."""
        until_ns = -1
        now = self.clock()
        while self._taken and now - self._taken[0][0] >= self.hold_ns:
            until_ns = max(until_ns, self._taken.popleft()[1])
        if until_ns < 0:
            return []
        # Each interface keeps its own order if times are equal.
        self._held.sort(key=_time_of)
        packets = [packet for packet in self._held if packet.time_ns <= until_ns]
        del self._held[: len(packets)]
        number_packets(packets, self._ordinal)
        self._ordinal += len(packets)
        return packets


def _time_of(packet: Packet) -> int:
    return packet.time_ns
